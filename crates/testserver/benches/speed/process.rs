//! What the operating system knows of this process: its memory and its processor time.

use std::fs;

/// The processors this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A figure of `/proc/self/status` in bytes; 0 where there is no such file.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kilobytes = line.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Resident memory in bytes.
pub(crate) fn resident() -> u64 {
    status("VmRSS")
}

/// The most that was ever resident, in bytes.
pub(crate) fn peak() -> u64 {
    status("VmHWM")
}

/// Processor time of all threads so far, in seconds; it counts in hundredths.
pub(crate) fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // The state is no number; user and system time are the 14th and 15th field of the line.
    (fields.get(10).copied().unwrap_or(0.0) + fields.get(11).copied().unwrap_or(0.0)) / 100.0
}

//! Memory and processor time of this process, from the operating system.

use std::fs;

/// Returns the number of processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns a value of `/proc/self/status` in bytes, or 0 if the file does not exist.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kilobytes = line.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Returns the resident memory in bytes.
pub(crate) fn resident() -> u64 {
    status("VmRSS")
}

/// Returns the maximum of the resident memory so far, in bytes.
pub(crate) fn peak() -> u64 {
    status("VmHWM")
}

/// Returns the processor time of all threads so far, in seconds, with a resolution of 0.01 s.
pub(crate) fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // The state is not a number. User and system time are the 14th and 15th field of the line.
    (fields.get(10).copied().unwrap_or(0.0) + fields.get(11).copied().unwrap_or(0.0)) / 100.0
}

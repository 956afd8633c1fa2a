//! The machine and the library versions of a measurement.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

/// The environment of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) day: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) kube_runtime: String,
    pub(crate) client_go: String,
}

impl Machine {
    /// Returns the current environment. Unknown values are empty.
    pub(crate) fn here() -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kibibytes = value(&memory, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            day: Timestamp::now().to_zoned(TimeZone::UTC).date().to_string(),
            processor: value(&processors, "model name").to_owned(),
            cores: available_parallelism().map_or(0, usize::from),
            memory_gib: rounded_gib(kibibytes),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            kube_runtime: locked(include_str!("../../../../Cargo.lock"), "kube-runtime").to_owned(),
            client_go: required(include_str!("../../go/go.mod"), "k8s.io/client-go").to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { day, processor, cores, memory_gib, kernel, .. } = self;
        write!(f, "{day}, with {cores} cores of {processor}, {memory_gib} GiB of memory and Linux {kernel}")
    }
}

fn rounded_gib(kibibytes: u64) -> u64 {
    (kibibytes + (1 << 19)) >> 20
}

/// Returns the value of a line `name : value`.
fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value.trim())
}

/// Returns the version of a crate in Cargo.lock.
fn locked<'a>(lock: &'a str, name: &str) -> &'a str {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\"")).skip(1);
    lines
        .next()
        .and_then(|line| line.strip_prefix("version = "))
        .map_or("", |version| version.trim_matches('"'))
}

/// Returns the version of a module in go.mod.
pub(crate) fn required<'a>(module: &'a str, name: &str) -> &'a str {
    let mut lines = module.lines().filter_map(|line| line.trim().split_once(' '));
    lines.find(|(module, _)| *module == name).map_or("", |(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_versions_are_known() {
        let here = Machine::here();
        assert!(here.kube_runtime.starts_with(|digit: char| digit.is_ascii_digit()), "{here:?}");
        assert!(here.client_go.starts_with("v0."), "{here:?}");
    }

    #[test]
    fn memory_is_rounded_to_whole_gibibytes() {
        assert_eq!(rounded_gib(24_600_000), 23);
        assert_eq!(rounded_gib(16 << 20), 16);
    }
}

//! `ProcessCollector`: CPU, memory and files of this process, with the names of the Prometheus libraries.

use std::fmt;

use procfs::{
    ProcResult, WithCurrentSystemInfo,
    process::{LimitValue, Process},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Reads the metrics of this process from `/proc` when Prometheus scrapes.
#[derive(Debug)]
pub(crate) struct ProcessCollector;

struct ProcessStatus {
    cpu_seconds: f64,
    open_fds: u64,
    /// `None` without a limit.
    max_fds: Option<u64>,
    virtual_bytes: u64,
    resident_bytes: u64,
    start_seconds: f64,
    threads: u64,
}

impl ProcessStatus {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(files) => Some(files),
            LimitValue::Unlimited => None,
        };
        Ok(Self {
            cpu_seconds: seconds(stat.utime + stat.stime),
            open_fds: process.fd_count()? as u64,
            max_fds,
            virtual_bytes: stat.vsize,
            resident_bytes: stat.rss_bytes().get(),
            start_seconds: procfs::boot_time_secs()? as f64 + seconds(stat.starttime),
            threads: stat.num_threads.unsigned_abs(),
        })
    }
}

/// Returns the resident memory of this process. `None` if `/proc` cannot be read.
#[cfg(feature = "page")]
pub(crate) fn resident_bytes() -> Option<u64> {
    Some(Process::myself().ok()?.stat().ok()?.rss_bytes().get())
}

impl Collector for ProcessCollector {
    /// Omits all metrics if `/proc` cannot be read, for example in a sandbox.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(status) = ProcessStatus::read() else { return Ok(()) };
        let help = "CPU time of the process, in user and system mode";
        let cpu = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(status.cpu_seconds).encode(cpu)?;
        let mut gauge = |name: &str, help: &str, value: f64| {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(encoder)
        };
        gauge("process_open_fds", "Open file descriptors", status.open_fds as f64)?;
        if let Some(files) = status.max_fds {
            gauge("process_max_fds", "Limit for open file descriptors", files as f64)?;
        }
        gauge("process_virtual_memory_bytes", "Virtual memory", status.virtual_bytes as f64)?;
        gauge("process_resident_memory_bytes", "Resident memory", status.resident_bytes as f64)?;
        gauge("process_start_time_seconds", "Start of the process, in Unix time", status.start_seconds)?;
        gauge("process_threads", "Threads of the operating system", status.threads as f64)
    }
}

//! The resource use of this process, which it measures itself.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::time::ClockId;

/// Returns the CPU time of all threads of this process.
pub(super) fn cpu() -> Result<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}

/// Measures the CPU time of a series of operations.
pub(super) struct CpuTimer(Duration);

impl CpuTimer {
    pub(super) fn start() -> Result<Self> {
        Ok(Self(cpu()?))
    }

    /// Returns the nanoseconds per operation since the start.
    pub(super) fn ns_per(&self, operations: usize) -> Result<f64> {
        Ok((cpu()? - self.0).as_nanos() as f64 / operations.max(1) as f64)
    }
}

/// Returns the resident memory of this process in bytes.
pub(super) fn resident() -> Result<f64> {
    const PAGE_BYTES: f64 = 4096.0;
    let pages = fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).context("/proc/self/statm has no resident size")?;
    Ok(resident.parse::<u64>()? as f64 * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_of_this_process_are_measured() -> Result<()> {
        let timer = CpuTimer::start()?;
        let sum = (0..1_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        assert!(timer.ns_per(1)? > 0.0 && sum < u64::MAX);
        assert!(resident()? > 1e5);
        Ok(())
    }
}

//! The resource use of a thread, from statistics of the kernel.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::ClockId;
use tokio::time::Instant;

/// The resource use of a thread between two measurements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// CPU time.
    pub(crate) cpu: Duration,
    /// The number of voluntary context switches, which are waits for a lock here.
    pub(crate) waits: u64,
}

/// The statistics of the calling thread at one time.
pub(crate) struct ThreadStatistics {
    at: Instant,
    cpu: Duration,
    waits: u64,
}

impl ThreadStatistics {
    /// Reads the statistics before a measured operation. The clock is read last.
    pub(crate) fn before() -> Result<Self> {
        let waits = waits()?;
        let cpu = cpu()?;
        Ok(Self { at: Instant::now(), cpu, waits })
    }

    /// Reads the statistics after a measured operation. The clock is read first.
    pub(crate) fn after() -> Result<Self> {
        let at = Instant::now();
        let cpu = cpu()?;
        Ok(Self { at, cpu, waits: waits()? })
    }
}

impl Sub for ThreadStatistics {
    type Output = Usage;

    fn sub(self, before: Self) -> Usage {
        Usage { wall: self.at - before.at, cpu: self.cpu - before.cpu, waits: self.waits - before.waits }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.waits += other.waits;
    }
}

fn cpu() -> Result<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}

/// Returns the number of voluntary context switches.
fn waits() -> Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.voluntary_context_switches().try_into()?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn waits_and_cpu_time_are_counted() -> Result<()> {
        let (ask, asked) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let usage = thread::scope(|scope| {
            scope.spawn(move || asked.into_iter().try_for_each(|number| answer.send(worked(number))));
            let before = ThreadStatistics::before()?;
            // A response may be available before the thread waits, so not each of them is a wait.
            for number in 0..100 {
                ask.send(number)?;
                worked(answered.recv()?);
            }
            drop(ask);
            anyhow::Ok(ThreadStatistics::after()? - before)
        })?;
        assert!(usage.waits > 0 && usage.cpu > Duration::ZERO, "{usage:?}");
        Ok(())
    }

    fn worked(number: u64) -> u64 {
        (number..number + 100_000).fold(0, |sum, number| std::hint::black_box(sum ^ number))
    }
}

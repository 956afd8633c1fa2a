//! What a thread has used, by the kernel's account.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::ClockId;
use tokio::time::Instant;

/// What a thread has used between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) wall: Duration,
    /// On a processor.
    pub(super) cpu: Duration,
    /// How often it gave up its processor because it had to wait: for a lock, where it does nothing else that waits.
    pub(super) waits: u64,
}

/// A moment of the calling thread.
pub(super) struct Moment {
    at: Instant,
    cpu: Duration,
    waits: u64,
}

impl Moment {
    /// The one in which something begins.
    pub(super) fn before() -> Result<Self> {
        let waits = waits()?;
        let cpu = cpu()?;
        Ok(Self { at: Instant::now(), cpu, waits })
    }

    /// The one in which it is over: what is asked first is what was asked last.
    pub(super) fn after() -> Result<Self> {
        let at = Instant::now();
        let cpu = cpu()?;
        Ok(Self { at, cpu, waits: waits()? })
    }
}

impl Sub for Moment {
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

/// Voluntary context switches.
fn waits() -> Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.voluntary_context_switches().try_into()?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn waits_and_work_are_counted() -> Result<()> {
        let (ask, asked) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let usage = thread::scope(|scope| {
            scope.spawn(move || asked.into_iter().try_for_each(|number| answer.send(worked(number))));
            let before = Moment::before()?;
            // Now and then an answer may be there before it is waited for.
            for number in 0..100 {
                ask.send(number)?;
                worked(answered.recv()?);
            }
            drop(ask);
            anyhow::Ok(Moment::after()? - before)
        })?;
        assert!(usage.waits > 0 && usage.cpu > Duration::ZERO, "{usage:?}");
        Ok(())
    }

    fn worked(number: u64) -> u64 {
        (number..number + 100_000).fold(0, |sum, number| std::hint::black_box(sum ^ number))
    }
}

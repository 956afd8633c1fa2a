//! What a part of a round costs a process: noted when it begins, measured when it has ended.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::process::Process;

/// What a part of a round cost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Stage {
    /// Processor time, in seconds.
    pub cpu: f64,
    /// What of it was spent in the program and not in the system, to a hundredth.
    pub user: f64,
    /// Until it was done, in seconds.
    pub wall: f64,
    /// What was resident before and after, and the most in between, in bytes.
    pub before: u64,
    /// After.
    pub after: u64,
    /// In between.
    pub peak: u64,
}

/// What is noted when a stage begins.
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
    user: Duration,
    resident: u64,
}

impl Begun {
    /// Of a process that is started now.
    pub(crate) fn from_nothing() -> Self {
        Self { at: Instant::now(), cpu: Duration::ZERO, user: Duration::ZERO, resident: 0 }
    }

    /// Of a process that has run for a while. Its peak begins again with what it has in memory now.
    pub(crate) fn of(process: &Process) -> Result<Self> {
        process.reset_peak()?;
        let resident = process.memory()?.resident;
        let (cpu, user) = (process.cpu()?, process.user()?);
        Ok(Self { at: Instant::now(), cpu, user, resident })
    }

    /// Seconds since then.
    pub(crate) fn wall(&self) -> f64 {
        self.at.elapsed().as_secs_f64()
    }

    /// What the process has used since then. It was done after `wall` seconds; what it has used since counts, too.
    pub(crate) fn end(&self, process: &Process, wall: f64) -> Result<Stage> {
        let memory = process.memory()?;
        let cpu = (process.cpu()? - self.cpu).as_secs_f64();
        let user = (process.user()? - self.user).as_secs_f64();
        Ok(Stage { cpu, user, wall, before: self.resident, after: memory.resident, peak: memory.peak })
    }
}

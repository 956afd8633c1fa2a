//! The resource use of a process during a stage.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::process::{Memory, Process};

/// Contains the resource use of a process during a stage.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Stage {
    /// CPU time in seconds.
    pub cpu: f64,
    /// CPU time in user mode in seconds, with a resolution of 10 ms.
    pub user: f64,
    /// Wall time in seconds, without the pause after the stage.
    pub wall: f64,
    /// Resident memory before the stage, in bytes.
    pub before: u64,
    /// Resident memory after the stage, in bytes.
    pub after: u64,
    /// Peak resident memory during the stage, in bytes.
    pub peak: u64,
    /// Bytes that the server sent during the stage, including HTTP headers and framing.
    #[serde(default)]
    pub received: u64,
}

/// The statistics of a process at the start of a stage.
pub(crate) struct StageTimer {
    start: Instant,
    cpu: Duration,
    user: Duration,
    resident: u64,
}

impl StageTimer {
    /// Starts a stage with a new process.
    pub(crate) fn from_start() -> Self {
        Self { start: Instant::now(), cpu: Duration::ZERO, user: Duration::ZERO, resident: 0 }
    }

    /// Starts a stage of a running process. Resets its peak memory.
    pub(crate) fn of(process: &Process) -> Result<Self> {
        process.reset_peak()?;
        let resident = process.memory()?.resident;
        let (cpu, user) = (process.cpu()?, process.user()?);
        Ok(Self { start: Instant::now(), cpu, user, resident })
    }

    /// Returns the seconds since the start.
    pub(crate) fn wall(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Ends the stage, which took `wall` seconds. Resource use until now is included. The number of
    /// received bytes is 0.
    pub(crate) fn end(&self, process: &Process, wall: f64) -> Result<Stage> {
        let memory = process.memory()?;
        let cpu = (process.cpu()? - self.cpu).as_secs_f64();
        let user = (process.user()? - self.user).as_secs_f64();
        let Memory { resident: after, peak } = memory;
        Ok(Stage { cpu, user, wall, before: self.resident, after, peak, received: 0 })
    }
}

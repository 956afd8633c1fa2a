//! Outages of a server.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use crate::faults::Outage;
use crate::faults::open_watches::Command;
use crate::server::Server;
use crate::state::Shared;

impl Server {
    /// Starts an outage, which stops when the guard is dropped. A new outage replaces the previous
    /// outage.
    pub fn outage(&self, outage: Outage) -> OutageGuard {
        OutageGuard { number: self.close(outage, None), shared: self.shared.clone() }
    }

    /// Starts an outage that stops after this duration of tokio's time.
    pub fn outage_for(&self, time: Duration, outage: Outage) {
        self.close(outage, Instant::now().checked_add(time));
    }

    fn close(&self, outage: Outage, until: Option<Instant>) -> u64 {
        let number = self.shared.gate.close(outage, until);
        if outage == Outage::Refused {
            self.shared.open.send_command(&Command::Abort, |_| true);
        }
        number
    }
}

/// Keeps an outage active until it is dropped.
#[derive(Debug)]
#[must_use = "the outage stops when the guard is dropped"]
pub struct OutageGuard {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for OutageGuard {
    fn drop(&mut self) {
        self.shared.gate.open(self.number);
    }
}

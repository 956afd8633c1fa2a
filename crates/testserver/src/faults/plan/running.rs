//! A running plan and its incidents.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::faults::{ActiveFault, Fault, FaultPlan};
use crate::journal::{FaultKind, Request};

/// The maximum number of incidents that a plan keeps. The counts also include older incidents.
const MAX_INCIDENTS: usize = 16_384;

/// Describes a fault that a plan applied to a request.
#[derive(Clone, Debug)]
pub struct Incident {
    /// The number of the affected request in the journal. A disruption of the entire server happens
    /// immediately before the server executes this request.
    pub request: u64,
    /// The fault, with the parameters that the plan drew.
    pub fault: Fault,
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:?}", self.request, self.fault)
    }
}

#[derive(Debug)]
pub(crate) struct PlanState {
    plan: FaultPlan,
    progress: Mutex<PlanProgress>,
    /// Signals the stop of the plan.
    stopped: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct PlanProgress {
    stopped: bool,
    /// The number of requests in scope so far.
    requests: u64,
    counts: BTreeMap<FaultKind, usize>,
    incidents: VecDeque<Incident>,
}

impl PlanState {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self { plan, progress: Mutex::default(), stopped: watch::Sender::new(()) }
    }

    /// Draws the fault of this request, and records it as an incident.
    pub(crate) fn draw_fault(&self, request: &Request) -> Option<ActiveFault> {
        // The predicate of a test runs without the lock, because it may read the plan.
        if !self.plan.scope.selects(request) {
            return None;
        }
        let number = self.count()?;
        let fault = self.plan.draw(number, request)?;
        let mut progress = self.progress.lock();
        if progress.stopped {
            return None;
        }
        *progress.counts.entry(fault.kind()).or_default() += 1;
        if progress.incidents.len() == MAX_INCIDENTS {
            progress.incidents.pop_front();
        }
        progress.incidents.push_back(Incident { request: request.number, fault: fault.clone() });
        Some(ActiveFault { fault, over: self.stopped.subscribe(), planned: true })
    }

    /// Counts a request in scope. Returns its number, or `None` after the plan stopped.
    fn count(&self) -> Option<u64> {
        let mut progress = self.progress.lock();
        progress.requests += 1;
        (!progress.stopped).then_some(progress.requests)
    }

    /// Stops the plan. Returns false if it was already stopped.
    pub(crate) fn stop(&self) -> bool {
        let is_first = !std::mem::replace(&mut self.progress.lock().stopped, true);
        if is_first {
            self.stopped.send_replace(());
        }
        is_first
    }

    pub(crate) fn counts(&self) -> BTreeMap<FaultKind, usize> {
        self.progress.lock().counts.clone()
    }

    pub(crate) fn incidents(&self) -> Vec<Incident> {
        self.progress.lock().incidents.iter().cloned().collect()
    }
}

//! A running plan and its incidents.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::faults::{ActiveFault, Fault, FaultKind, FaultPlan};
use crate::journal::Request;
use crate::read::open_watches::Command;
use crate::server::Server;
use crate::state::Shared;
use crate::status::Status;
use crate::storage::watch_cache::{CacheId, Lag};

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

    /// Stops the plan and its lasting effects.
    fn stop(&self, shared: &Shared) {
        let mut progress = self.progress.lock();
        if std::mem::replace(&mut progress.stopped, true) {
            return;
        }
        let lagged = progress.counts.contains_key(&FaultKind::Lag);
        drop(progress);
        self.stopped.send_replace(());
        if lagged {
            shared.lag(CacheId::MAIN, Lag::None);
        }
        shared.open.send_to_misled(&Command::Fail(Status::expired()));
    }
}

impl Shared {
    /// Starts a plan, and stops the previous plan.
    pub(crate) fn run_plan(&self, plan: FaultPlan) -> Arc<PlanState> {
        let state = Arc::new(PlanState::new(plan));
        let previous = self.plan.lock().replace(state.clone());
        if let Some(previous) = previous {
            previous.stop(self);
        }
        state
    }
}

impl Server {
    /// Starts a plan of random faults, and stops the previous plan.
    pub fn run_plan(&self, plan: FaultPlan) -> RunningPlan {
        RunningPlan { state: self.shared.run_plan(plan), shared: self.shared.clone() }
    }

    /// Returns the current plan, even if it was stopped. Returns `None` if the server has never had a
    /// plan.
    pub fn plan(&self) -> Option<RunningPlan> {
        let state = self.shared.plan.lock().clone()?;
        Some(RunningPlan { state, shared: self.shared.clone() })
    }
}

/// Reports the incidents of a plan, and can stop the plan. Dropping this handle does not stop the plan.
#[derive(Clone, Debug)]
pub struct RunningPlan {
    state: Arc<PlanState>,
    shared: Arc<Shared>,
}

impl RunningPlan {
    /// Stops the plan and the effects that would outlast it.
    ///
    /// Connections of hanging requests break, and the watch cache no longer lags. If the plan hid or
    /// repeated events of a watch, the watch is closed with an Expired ERROR event, so that its client
    /// lists again.
    pub fn stop(&self) {
        self.state.stop(&self.shared);
    }

    /// Returns the number of applied faults of each kind.
    pub fn counts(&self) -> BTreeMap<FaultKind, usize> {
        self.state.progress.lock().counts.clone()
    }

    /// Returns the last 16,384 applied faults, oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        self.state.progress.lock().incidents.iter().cloned().collect()
    }
}

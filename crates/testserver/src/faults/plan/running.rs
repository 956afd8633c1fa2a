//! A plan at work, and what it has done.

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

/// A plan remembers this many incidents; beyond that the oldest are dropped, but counted.
const INCIDENTS: usize = 16_384;

/// One fault that happened.
#[derive(Clone, Debug)]
pub struct Incident {
    /// The request that met it, by its number in the journal. What happens to the whole server happens before it.
    pub request: u64,
    /// What happened, with the numbers that were drawn.
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
    done: Mutex<Done>,
    /// Told when the plan has stopped.
    stopped: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Done {
    stopped: bool,
    /// Requests in scope so far.
    requests: u64,
    counts: BTreeMap<FaultKind, usize>,
    incidents: VecDeque<Incident>,
}

impl PlanState {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self { plan, done: Mutex::default(), stopped: watch::Sender::new(()) }
    }

    /// What this request meets, which is written down.
    pub(crate) fn meet(&self, request: &Request) -> Option<ActiveFault> {
        // What a test gave to pick requests by is asked without the lock: it may look at the plan.
        if !self.plan.scope.selects(request) {
            return None;
        }
        let number = self.count()?;
        let fault = self.plan.draw(number, request)?;
        let mut done = self.done.lock();
        if done.stopped {
            return None;
        }
        *done.counts.entry(fault.kind()).or_default() += 1;
        if done.incidents.len() == INCIDENTS {
            done.incidents.pop_front();
        }
        done.incidents.push_back(Incident { request: request.number, fault: fault.clone() });
        Some(ActiveFault { fault, over: self.stopped.subscribe(), planned: true })
    }

    /// The number of one more request in scope, while the plan works.
    fn count(&self) -> Option<u64> {
        let mut done = self.done.lock();
        done.requests += 1;
        (!done.stopped).then_some(done.requests)
    }

    /// Ends the plan, and what of it goes on by itself.
    fn stop(&self, shared: &Shared) {
        let mut done = self.done.lock();
        if std::mem::replace(&mut done.stopped, true) {
            return;
        }
        let lagged = done.counts.contains_key(&FaultKind::Lag);
        drop(done);
        self.stopped.send_replace(());
        if lagged {
            shared.lag(CacheId::MAIN, Lag::None);
        }
        shared.open.send_to_misled(&Command::Fail(Status::expired()));
    }
}

impl Shared {
    /// Lets a plan work; the one before stops.
    pub(crate) fn run_plan(&self, plan: FaultPlan) -> Arc<PlanState> {
        let state = Arc::new(PlanState::new(plan));
        let before = self.plan.lock().replace(state.clone());
        if let Some(before) = before {
            before.stop(self);
        }
        state
    }
}

impl Server {
    /// Lets a plan work from now on; one that works already stops.
    pub fn run_plan(&self, plan: FaultPlan) -> RunningPlan {
        RunningPlan { state: self.shared.run_plan(plan), shared: self.shared.clone() }
    }

    /// The plan that works, or that did last.
    pub fn plan(&self) -> Option<RunningPlan> {
        let state = self.shared.plan.lock().clone()?;
        Some(RunningPlan { state, shared: self.shared.clone() })
    }
}

/// A plan at work: a handle to ask what it did and to stop it. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct RunningPlan {
    state: Arc<PlanState>,
    shared: Arc<Shared>,
}

impl RunningPlan {
    /// Ends the plan and heals what would go on without it: requests that hang break, a watch cache that lags catches
    /// up, and watches that were told nothing, or too little or too much, expire, so that their clients list anew.
    pub fn stop(&self) {
        self.state.stop(&self.shared);
    }

    /// How often each kind of fault has happened.
    pub fn counts(&self) -> BTreeMap<FaultKind, usize> {
        self.state.done.lock().counts.clone()
    }

    /// What has happened, oldest first: the last 16,384 faults.
    pub fn incidents(&self) -> Vec<Incident> {
        self.state.done.lock().incidents.iter().cloned().collect()
    }
}

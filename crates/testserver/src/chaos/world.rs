//! The state of a chaos test, which all processes of the operator share.

use std::collections::HashMap;
use std::fmt::{Arguments, Display};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use crate::chaos::hazard::{Action, Armed, Hazard, Side};
use crate::chaos::report::{ChaosCause, ChaosFailure, ChaosReport};
use crate::chaos::trace::Trace;
use crate::chaos::{Chaos, Invariant};
use crate::clock::Clock;
use crate::faults::Fault;
use crate::journal::{RequestInfo, RequestMatch, Verb};
use crate::server::Server;
use crate::status::Status;
use crate::storage::watch_cache::Lag;

/// The time of the server when a test starts.
const START: jiff::Timestamp = jiff::Timestamp::constant(1_767_225_600, 0);

/// The maximum number of hazards of a step.
const MAX_INTENSITY: usize = 3;

/// The maximum latency of most requests.
const MAX_LATENCY_MS: u64 = 12;

/// One of this number of requests is slow. Slow requests reorder concurrent work.
const SLOW_REQUESTS: u64 = 12;

/// The maximum latency of a slow request.
const MAX_SLOW_MS: u64 = 1500;

pub(super) struct World {
    pub chaos: Chaos,
    pub server: Server,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
pub(super) struct State {
    pub rng: Rng,
    /// The maximum number of hazards of a step. A restart repairs some bugs, so some seeds have no hazards.
    pub intensity: usize,
    pub process: u64,
    pub is_running: bool,
    /// The time of the test when the process started, and tokio's time then. Each runtime has its own time.
    started: (Duration, Instant),
    pub steps: usize,
    requests: u64,
    armed: Vec<Armed>,
    /// The time of the last write that is not a write of a Lease or an Event.
    pub last_write: Duration,
    /// The time at which all faults stopped.
    pub settling_since: Option<Duration>,
    pub failure: Option<ChaosCause>,
    sent: HashMap<u64, u64>,
    trace: Trace,
}

impl State {
    pub(super) fn now(&self) -> Duration {
        self.started.0 + Instant::now().saturating_duration_since(self.started.1)
    }

    fn note(&mut self, event: impl Display) {
        self.trace.add(self.now(), self.process, event);
    }

    fn hazard(&mut self, hazard: Hazard, event: impl Display) {
        *self.trace.hazards.entry(hazard).or_default() += 1;
        self.note(format_args!("{hazard:?}: {event}"));
    }

    pub(super) fn arm(&mut self, action: Action, skip: u64, counts_leases: bool) {
        self.armed.push(Armed { skip, counts_leases, action });
    }

    /// Removes the actions that this request triggers.
    fn take_due(&mut self, info: &RequestInfo) -> Vec<Action> {
        let is_lease = info.resource == "leases";
        let is_update =
            matches!(info.verb, Verb::Update | Verb::Patch) && info.name.is_some() && !is_quiet(info);
        let mut due = Vec::new();
        for mut armed in mem::take(&mut self.armed) {
            let counts = armed.counts_leases || !is_lease;
            let can_happen = !matches!(armed.action, Action::Conflict) || is_update;
            if counts && can_happen && armed.skip == 0 {
                due.push(armed.action);
                continue;
            }
            armed.skip = armed.skip.saturating_sub(u64::from(counts));
            self.armed.push(armed);
        }
        due
    }
}

/// Returns whether writes of this resource do not count as activity.
fn is_quiet(info: &RequestInfo) -> bool {
    ["leases", "events"].contains(&&*info.resource)
}

/// The hazards of one request.
#[derive(Debug, Default)]
pub(super) struct RequestHazards {
    pub kill: Option<Side>,
    pub fault: Option<Fault>,
}

impl World {
    pub(super) fn new(chaos: Chaos) -> Self {
        let builder = Server::builder().seed(chaos.seed).garbage_collector(true).clock(Clock::Tokio(START));
        let server = (chaos.server)(builder).build();
        let mut rng = Rng::with_seed(chaos.seed);
        let state = State {
            intensity: rng.usize(..=MAX_INTENSITY),
            rng,
            process: 0,
            is_running: false,
            started: (Duration::ZERO, Instant::now()),
            steps: 0,
            requests: 0,
            armed: Vec::new(),
            last_write: Duration::ZERO,
            settling_since: None,
            failure: None,
            sent: HashMap::new(),
            trace: Trace::default(),
        };
        Self { chaos, server, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Starts a process. Its runtime has a new clock, so the clock of the server continues from the last
    /// time.
    pub(super) fn start_process(&self) -> u64 {
        let mut state = self.state.lock();
        state.process += 1;
        state.is_running = true;
        state.started.1 = Instant::now();
        let since_start = jiff::SignedDuration::try_from(state.started.0).unwrap_or_default();
        self.server.set_clock(Clock::Tokio(START.saturating_add(since_start).unwrap_or(START)));
        state.note("starts");
        state.process
    }

    /// Records the end of a process, in the runtime of the process.
    pub(super) fn end_process(&self) {
        let mut state = self.state.lock();
        state.started.0 = state.now();
        state.is_running = false;
    }

    pub(super) fn is_running(&self, process: u64) -> bool {
        let state = self.state.lock();
        state.is_running && state.process == process
    }

    pub(super) fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    /// Waits until a function of the state returns true.
    pub(super) async fn until(&self, done: impl Fn(&State) -> bool) {
        loop {
            // Created before the check. A change after the check then completes this future.
            let changed = self.changed.notified();
            if done(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn note(&self, event: impl Display) {
        self.state.lock().note(event);
    }

    pub(super) fn fail(&self, cause: ChaosCause) {
        self.state.lock().failure.get_or_insert(cause);
        self.changed.notify_waiters();
    }

    /// Returns a latency that depends on the request. Requests then rarely arrive at the same time, and their
    /// order does not depend on the order in which tokio wakes tasks.
    pub(super) fn latency(&self, info: &RequestInfo) -> Duration {
        // The names of events contain the wall clock.
        let name = info.name.as_ref().filter(|_| info.resource != "events");
        let mut hasher = DefaultHasher::new();
        let path = (&info.group, &info.resource, &info.namespace, name, &info.subresource);
        (self.chaos.seed, info.verb, path).hash(&mut hasher);
        let mut state = self.state.lock();
        let count = state.sent.entry(hasher.finish()).or_default();
        *count += 1;
        count.hash(&mut hasher);
        let hash = hasher.finish();
        let max = if hash.is_multiple_of(SLOW_REQUESTS) { MAX_SLOW_MS } else { MAX_LATENCY_MS };
        Duration::from_millis(1 + hash / SLOW_REQUESTS % max)
    }

    /// Counts a request, and executes the actions that precede this request. Returns `None` if its process
    /// was killed.
    pub(super) fn begin(&self, process: u64, info: &RequestInfo) -> Option<RequestHazards> {
        let due = {
            let mut state = self.state.lock();
            if !state.is_running || state.process != process {
                return None;
            }
            state.requests += 1;
            state.take_due(info)
        };
        let mut hazards = RequestHazards::default();
        for action in due {
            match action {
                Action::Kill(side) => hazards.kill = Some(side),
                Action::Fail(fault) => hazards.fault = Some(fault),
                other => self.perform(other, Some(info)),
            }
        }
        Some(hazards)
    }

    /// Prepares the fault of the next request, and returns the number of the request.
    pub(super) fn prepare(&self, fault: Option<Fault>) -> u64 {
        let mut state = self.state.lock();
        if let Some(fault) = fault {
            let is_lost = matches!(fault, Fault::LoseResponse);
            let hazard = if is_lost { Hazard::LostResponse } else { Hazard::FailedRequest };
            let number = state.requests;
            state.hazard(hazard, format_args!("{} at request {number}", fault.kind()));
            self.server.faults().next(RequestMatch::any(), fault);
        }
        state.requests
    }

    /// Records the result of a request. After a write, checks the invariants that always hold.
    pub(super) fn end(&self, number: u64, info: &RequestInfo, what: &str, version: u64, code: Option<u16>) {
        let is_read = matches!(info.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Other);
        let is_change = !is_read && self.server.resource_version() != version;
        let mut state = self.state.lock();
        match code {
            Some(code) => state.note(format_args!("request {number}: {what}: {code}")),
            None => state.note(format_args!("request {number}: {what}: broken connection")),
        }
        if is_change && !is_quiet(info) {
            state.last_write = state.now();
        }
        drop(state);
        if is_change {
            self.check(true);
        }
    }

    /// Performs an action at this moment. `info` is the request before which the action happens.
    pub(super) fn perform(&self, action: Action, info: Option<&RequestInfo>) {
        match (action, info) {
            (Action::Step, _) => self.take_step(),
            (Action::Kill(_), _) => self.kill(format_args!("while it waits")),
            (Action::Conflict, Some(info)) => self.touch(info),
            (Action::Other(hazard), _) => self.disturb(hazard),
            // Only a request can conflict or fail.
            (action, None) => self.state.lock().arm(action, 0, false),
            (Action::Fail(_), Some(_)) => {}
        }
    }

    pub(super) fn kill(&self, place: Arguments<'_>) {
        let mut state = self.state.lock();
        state.is_running = false;
        state.hazard(Hazard::Kill, place);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Takes the next step of the user. The action of a step depends only on the seed and its number.
    pub(super) fn take_step(&self) {
        let number = {
            let mut state = self.state.lock();
            if state.steps == self.chaos.steps {
                return;
            }
            state.steps += 1;
            state.last_write = state.now();
            let number = state.steps;
            state.note(format_args!("step {number}"));
            number
        };
        let mut rng =
            Rng::with_seed(self.chaos.seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        self.guard(|| (self.chaos.step)(&self.server, &mut rng));
        self.check(true);
        self.changed.notify_waiters();
    }

    fn disturb(&self, hazard: Hazard) {
        let server = &self.server;
        let any = RequestMatch::any();
        let event = match hazard {
            Hazard::ExpiredWatches => {
                server.compact();
                format!("{} watches", server.fail_watches(&any, Status::expired()))
            }
            Hazard::BrokenWatches => format!("{} watches", server.cut_watches(&any)),
            Hazard::StaleCache => {
                let lag = self.state.lock().rng.u64(1..=16);
                server.set_lag(Lag::Revisions(lag));
                format!("by {lag} writes")
            }
            _ => match self.take_leases() {
                0 => return,
                leases => format!("{leases} Leases"),
            },
        };
        self.state.lock().hazard(hazard, event);
    }

    /// Acquires each Lease that has a holder, as another candidate. Returns the number of Leases.
    fn take_leases(&self) -> usize {
        const LEASE: (&str, &str) = ("coordination.k8s.io/v1", "Lease");
        let leases = self.server.list_untyped(LEASE.0, LEASE.1, None).unwrap_or_default();
        let taken = leases.iter().filter_map(|lease| {
            let (meta, spec) = (&lease["metadata"], &lease["spec"]);
            spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
            let transitions = spec["leaseTransitions"].as_u64().unwrap_or_default() + 1;
            let spec = json!({"spec": {"holderIdentity": "chaos", "leaseTransitions": transitions}});
            self.server
                .patch_untyped(LEASE.0, LEASE.1, meta["namespace"].as_str(), meta["name"].as_str()?, &spec)
                .ok()
        });
        taken.count()
    }

    /// Annotates an object, like another client.
    fn touch(&self, info: &RequestInfo) {
        let kind = self.server.shared.read(|state| {
            let mut served = state.registry.served();
            let found = served
                .find(|served| served.kind.group == info.group && served.kind.plural == info.resource)?;
            Some((found.kind.api_version(), found.kind.kind.clone()))
        });
        let (Some((api_version, kind)), Some(name)) = (kind, info.name.as_deref()) else { return };
        let number = self.state.lock().requests;
        let patch = json!({"metadata": {"annotations": {"chaos": number.to_string()}}});
        if self.server.patch_untyped(&api_version, &kind, info.namespace.as_deref(), name, &patch).is_ok() {
            let namespace = info.namespace.as_deref().unwrap_or_default();
            self.state
                .lock()
                .hazard(Hazard::Conflict, format_args!("{kind} {namespace}/{name} is annotated"));
        }
    }

    /// Stops all faults.
    pub(super) fn calm(&self) {
        let mut state = self.state.lock();
        if state.settling_since.is_none() {
            state.armed.clear();
            state.settling_since = Some(state.now());
            state.note("all faults stop");
        }
        drop(state);
        self.server.faults().clear();
        self.server.set_lag(Lag::None);
    }

    /// Calls a function of the test, and reports its panic. The function can run in a task that the operator
    /// has spawned, and tokio would catch the panic.
    fn guard<T>(&self, function: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(function));
        result.map_err(|panic| self.fail(ChaosCause::of_panic(&*panic))).ok()
    }

    /// Removes the step that waits for a request. Returns false if it was already taken.
    pub(super) fn disarm_step(&self) -> bool {
        let mut state = self.state.lock();
        let armed = state.armed.len();
        state.armed.retain(|armed| !matches!(armed.action, Action::Step));
        state.armed.len() < armed
    }

    /// Checks the invariants that always hold, or all invariants.
    pub(super) fn check(&self, only_always: bool) {
        let checked = self.chaos.invariants.iter().filter(|invariant| invariant.always || !only_always);
        for Invariant { name, check, .. } in checked {
            if let Some(Err(message)) = self.guard(|| check(&self.server)) {
                return self.fail(ChaosCause::Invariant { name: name.clone(), message });
            }
        }
    }

    pub(super) fn result(&self) -> Result<ChaosReport, ChaosFailure> {
        let state = self.state.lock();
        let (seed, schedule) = (self.chaos.seed, state.trace.lines());
        match state.failure.clone() {
            Some(cause) => {
                Err(ChaosFailure { seed, cause, steps: state.steps, process: state.process, schedule })
            }
            None => Ok(ChaosReport {
                seed,
                processes: state.process,
                requests: state.requests,
                hazards: state.trace.hazards.clone(),
                schedule,
            }),
        }
    }
}

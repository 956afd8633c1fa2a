//! Random faults for a request of an informer, for open watches, or for the complete server.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use kube_informer::Phase;
use kube_testserver::{
    Clock, CutAfter, Disruption, Fault, Outage, Outcome, Request, RequestMatch, Status, StreamingLists, Verb,
};
use tokio::time::Duration;

use super::{
    fault_coverage::{ReflectorState, SimulatedFault},
    setup::lag,
    workload::KEYS,
    world::World,
};

/// The error message of a failing store.
const STORE: &str = "etcdserver: request timed out";

impl World {
    /// Injects a random fault.
    pub(super) fn inject_fault(&mut self) {
        if self.setup.restores && self.rng.bool() && self.waits_for_a_page() {
            self.record_fault_in(SimulatedFault::RestoreInList, |state| state == ReflectorState::Listing);
            return self.restore();
        }
        match self.rng.u8(..20) {
            0..=8 => self.inject_request_fault(),
            9..=11 => self.inject_watch_fault(),
            12 => self.inject_stream_fault(),
            13 => {
                if self.remove_crd() {
                    self.record_fault(SimulatedFault::CrdGone);
                }
            }
            14 | 15 if !self.served => self.serve(),
            16 if self.corrupt.is_some() => self.corrupt = None,
            _ => self.inject_server_fault(),
        }
    }

    /// The next requests of an informer meet a fault.
    fn inject_request_fault(&mut self) {
        let watcher = &self.watchers[self.rng.usize(..self.watchers.len())];
        let scope = watcher.stack.recorder().lock().scope;
        // An informer that clears its cache would then report deletions that the server never sent.
        let may_be_gone = !watcher.options.clear_when_gone;
        let mut requests = scope.requests();
        let on_watches = self.rng.u8(..3) == 0;
        if on_watches {
            requests = requests.when(|request| request.info.verb == Verb::Watch);
        } else if self.rng.u8(..3) == 0 {
            requests = requests.when(|request| request.info.verb == Verb::List);
        }
        let (fault, requests) = match on_watches {
            true => (self.fault_of_watches(), requests),
            false => self.fault_of_requests(requests, may_be_gone),
        };
        let mut requests = requests;
        if let Fault::LoseEvent(event) = fault {
            requests = requests.when(move |request| event >= KEYS as usize || is_plain_watch(request));
            self.loses();
        }
        self.log(|| format!("next fault in {scope:?}: {fault:?}"));
        match self.rng.u8(..4) {
            0 => self.server.faults().during(Duration::from_secs(self.rng.u64(1..60)), requests, fault),
            _ => self.server.faults().times(self.rng.usize(1..4), &requests, &fault),
        }
        // A fault of a request requires a request.
        if self.rng.bool() {
            self.server.cut_watches(&scope.requests());
        }
    }

    fn fault_of_requests(&mut self, requests: RequestMatch, may_be_gone: bool) -> (Fault, RequestMatch) {
        let lags = self.setup.lags;
        let rng = &mut self.rng;
        let fault = match rng.u8(..24) {
            0 => Fault::status(401, "Unauthorized", None),
            1 => Fault::Forbidden { user: "nobody".into() },
            2 => Fault::Throttled { retry_after: rng.u32(..30) },
            3 => Fault::initializing(rng.u32(..2)),
            4 => Fault::internal_error(STORE),
            5 => Fault::unavailable(),
            6 => Fault::gone(),
            7 => Fault::json(nonsense(rng)),
            8 => Fault::Reset,
            9 => Fault::LoseResponse,
            10 => Fault::Hang,
            11 => Fault::Delay(late(rng)),
            12 => Fault::LateResponse(late(rng)),
            13 => Fault::Cut(CutAfter::Bytes(rng.usize(..1500))),
            14 => Fault::Chunks(rng.usize(1..40)),
            15 => {
                let fault = Fault::Disrupt(Disruption::ExpireLists);
                return (fault, requests.with_parameter("continue"));
            }
            16 => return (Fault::Delay(late(rng)), requests.with_parameter("continue")),
            17 if may_be_gone => Fault::status(404, "NotFound", None),
            18 => Fault::status(406, "NotAcceptable", None),
            19 => Fault::status(409, "Conflict", None),
            17 | 20 => Fault::status(422, "Invalid", None),
            21 => Fault::Status(too_large()),
            22 => page(rng),
            _ => Fault::Disrupt(match rng.u8(..7) {
                6 => Disruption::FailWatches,
                0 => Disruption::Compact,
                1 => Disruption::ExpireLists,
                2 => Disruption::ExpireWatches,
                3 => Disruption::Restart,
                4 if lags => Disruption::Lag(lag(rng)),
                _ => Disruption::JumpClock(jump(rng)),
            }),
        };
        (fault, requests)
    }

    fn fault_of_watches(&mut self) -> Fault {
        let rng = &mut self.rng;
        match rng.u8(..9) {
            0 => Fault::Silence,
            // A list without an object looks like a deletion. No client can detect the difference.
            1 if self.setup.loses => Fault::LoseEvent(rng.usize(..3) + KEYS as usize * rng.usize(..2)),
            2 => Fault::RepeatEvent(rng.usize(..3)),
            3 => Fault::CloseWatch(rng.usize(..4)),
            4 => Fault::ErrorEvent { after: rng.usize(..4), status: Status::expired() },
            5 => Fault::ErrorEvent { after: rng.usize(..4), status: Status::internal_error(STORE) },
            6 => Fault::SlowReader(rng.usize(..3)),
            7 => Fault::Chunks(rng.usize(1..40)),
            _ => Fault::Cut(CutAfter::Frames(rng.usize(..4))),
        }
    }

    /// Injects a fault into the open watches.
    fn inject_watch_fault(&mut self) {
        let any = RequestMatch::any();
        let (affected, fault) = match self.rng.u8(..8) {
            7 => return self.swap_events(),
            0 => (self.server.cut_watches(&any), SimulatedFault::CutWatches),
            1 => (self.server.fail_watches(&any, Status::expired()), SimulatedFault::ExpiredWatches),
            2 if self.setup.loses => {
                self.loses();
                (
                    self.server.lose_next_event(&any.when(self.after_initial_events())),
                    SimulatedFault::LoseNext,
                )
            }
            3 => (self.server.inject_frame(&any, nonsense(&mut self.rng)), SimulatedFault::Inject),
            4 => (self.server.close_watches(), SimulatedFault::ClosedWatches),
            5 => {
                let failing = Status::internal_error(STORE);
                (self.server.fail_watches(&any, failing), SimulatedFault::FailedWatches)
            }
            _ => (self.server.repeat_next_event(&any), SimulatedFault::RepeatNext),
        };
        if affected > 0 {
            self.record_fault_if_open(fault);
        }
    }

    /// Each open watch swaps its next two consecutive events of different objects. Versions must be
    /// numbers, because no client can detect the order of opaque versions.
    fn swap_events(&mut self) {
        self.log(|| "the next events are swapped".to_owned());
        for watcher in &self.watchers {
            let mut recorder = watcher.stack.recorder().lock();
            recorder.swaps_next =
                !recorder.has_opaque_versions() && recorder.status().phase == Phase::Watching;
        }
        for _ in 0..self.rng.usize(2..5) {
            self.write();
        }
    }

    /// Returns a predicate for watches whose informer has their initial state.
    fn after_initial_events(&self) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
        let recorders = self.watchers.iter().map(|watcher| watcher.stack.recorder().lock());
        let watching = recorders.filter(|recorder| recorder.status().phase == Phase::Watching);
        let watching: Vec<_> = watching.map(|recorder| recorder.scope).collect();
        move |request| is_plain_watch(request) || watching.iter().any(|scope| scope.asks(request))
    }

    /// Streaming lists are understood, or not.
    fn inject_stream_fault(&mut self) {
        let ways = [
            StreamingLists::Served,
            StreamingLists::Refused,
            StreamingLists::ErrorEvent,
            StreamingLists::Ignored,
        ];
        let how = ways[self.rng.usize(..ways.len())];
        self.server.set_streaming_lists(how);
        self.streams.push((self.began.elapsed(), how));
        self.log(|| format!("streaming lists: {how:?}"));
    }

    fn inject_server_fault(&mut self) {
        let server = self.server.clone();
        match self.rng.u8(..11) {
            0 => {
                self.record_fault(SimulatedFault::Compact);
                server.expire(self.up_to());
            }
            1 => {
                self.record_fault(SimulatedFault::ExpireLists);
                server.expire_lists(self.up_to());
            }
            2 => {
                self.record_fault(SimulatedFault::ExpireWatches);
                server.expire_watches(self.up_to());
            }
            3 => {
                self.record_fault(SimulatedFault::Restart);
                server.restart();
                for watcher in &self.watchers {
                    watcher
                        .second_replica
                        .as_ref()
                        .filter(|_| self.rng.bool())
                        .inspect(|other| other.restart());
                }
            }
            4 if self.setup.restores => self.restore(),
            5 if self.rng.u8(..3) == 0 => self.other_lag(),
            5 if self.setup.lags => {
                self.record_fault(SimulatedFault::Lag);
                let lag = lag(&mut self.rng);
                server.set_lag(lag);
                self.log(|| format!("{lag:?}"));
            }
            6 if self.setup.restores && self.rng.bool() => {
                self.outage(Outage::Refused, SimulatedFault::RestoreInOutage);
                self.restore();
            }
            6 => self.outage(Outage::Refused, SimulatedFault::Refused),
            7 => self.outage(Outage::Frozen, SimulatedFault::Frozen),
            8 if self.rng.bool() => {
                self.record_fault(SimulatedFault::SetClock);
                let time = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(self.rng.i64(0..4_000_000_000));
                server.set_clock(Clock::Tokio(time));
            }
            8 => {
                self.record_fault(SimulatedFault::JumpClock);
                server.jump_clock(jump(&mut self.rng));
            }
            _ => {
                if self.corrupt() {
                    self.record_fault(SimulatedFault::Corrupt);
                }
            }
        }
    }

    /// Returns all versions, or a random recent version as the limit.
    fn up_to(&mut self) -> u64 {
        if self.rng.bool() { u64::MAX } else { self.backup() }
    }

    /// Returns whether an informer waits for the next page of a list.
    fn waits_for_a_page(&self) -> bool {
        self.watchers.iter().any(|watcher| {
            let scope = watcher.stack.recorder().lock().scope;
            let last = self.server.journal().last(|request| scope.asks(request));
            last.is_some_and(|last| last.parameter("continue").is_some() && last.outcome == Outcome::Pending)
        })
    }

    /// Changes the lag of the second replica of an informer, if there is one.
    fn other_lag(&mut self) {
        let lag = lag(&mut self.rng);
        let other = self.watchers.iter().find_map(|watcher| watcher.second_replica.clone());
        if let Some(other) = other {
            self.record_fault(SimulatedFault::OtherLag);
            other.set_lag(lag);
            self.log(|| format!("{lag:?}"));
        }
    }

    fn outage(&mut self, outage: Outage, fault: SimulatedFault) {
        self.record_fault(fault);
        let seconds = if self.rng.u8(..5) == 0 { self.rng.u64(60..400) } else { self.rng.u64(1..40) };
        self.server.outage_for(Duration::from_secs(seconds), outage);
        self.log(|| format!("for {seconds} s"));
    }

    /// etcd is restored from a backup, in one of two ways.
    pub(super) fn restore(&mut self) {
        self.corrupt = None;
        let (backup, bumped) = (self.backup(), self.rng.bool() || self.setup.bumps);
        let fault = if bumped { SimulatedFault::RestoreBumped } else { SimulatedFault::Restore };
        // If a revision is smaller than before the restore, opaque versions do not show it.
        let bump = if self.setup.bumps { self.server.resource_version() } else { 0 } + 1_000_000;
        let restored = match bumped {
            true => self.server.restore_bumped(backup, bump),
            false => self.server.restore(backup),
        };
        if restored.is_ok() {
            self.record_fault(fault);
            self.restored(backup);
        }
    }
}

/// Returns whether the request is a watch without an initial state.
fn is_plain_watch(request: &Request) -> bool {
    !request.query.contains("sendInitialEvents=true")
}

/// Returns the error of a server that has not reached a version.
fn too_large() -> Status {
    Status::new(504, "Timeout", "Too large resource version: 1000000, current: 7")
}

/// Returns a page of a proxy.
fn page(rng: &mut Rng) -> Fault {
    let status = [200, 302, 307, 502][rng.usize(..4)];
    let body = "<html><body>please log in</body></html>".into();
    Fault::Raw { status, content_type: "text/html".into(), body }
}

/// Returns an invalid body or frame.
fn nonsense(rng: &mut Rng) -> &'static str {
    match rng.u8(..3) {
        0 => "{oops\n",
        1 => "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"rows\":[]}\n",
        _ => "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Thing\",\"metadata\":{}}}\n",
    }
}

fn late(rng: &mut Rng) -> Duration {
    Duration::from_secs(if rng.u8(..5) == 0 { rng.u64(60..200) } else { rng.u64(1..20) })
}

fn jump(rng: &mut Rng) -> SignedDuration {
    SignedDuration::from_secs(rng.i64(-7200..7200))
}

//! `Process`: one process of the operator and its crash point.
//!
//! All effects of the process on the world pass through this module. After a crash, further effects are
//! blocked immediately, as if the process was killed.

use std::{
    collections::BTreeMap,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use fastrand::Rng;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube_client::{Client, client::Body};
use kube_testserver::ApiService;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, ServiceExt};

use crate::world::{Sharing, World};

/// An action of a process outside of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    FillCache,
    CheckPermissions,
    WatchLease,
    ReadLease,
    WriteLease,
    ReadSite,
    AddFinalizer,
    RemoveFinalizer,
    MakeOutside,
    CleanUpOutside,
    CreateMap,
    UpdateMap,
    ApplyMap,
    UpdateStatus,
    WriteEvent,
}

pub(crate) const STEPS: [Step; 15] = [
    Step::FillCache,
    Step::CheckPermissions,
    Step::WatchLease,
    Step::ReadLease,
    Step::WriteLease,
    Step::ReadSite,
    Step::AddFinalizer,
    Step::RemoveFinalizer,
    Step::MakeOutside,
    Step::CleanUpOutside,
    Step::CreateMap,
    Step::UpdateMap,
    Step::ApplyMap,
    Step::UpdateStatus,
    Step::WriteEvent,
];

impl Step {
    /// Returns the step of a request.
    fn of(request: &Request<Body>, world: &World) -> Self {
        let (method, path) = (request.method(), request.uri().path());
        let (collection, last) = path.rsplit_once('/').unwrap_or_default();
        if path.contains("/leases") {
            return match *method == Method::GET {
                true if last == "leases" => Self::WatchLease,
                true => Self::ReadLease,
                false => Self::WriteLease,
            };
        }
        match (*method == Method::GET, last) {
            (true, "sites" | "configmaps") => Self::FillCache,
            (true, _) => Self::ReadSite,
            (false, "status") => Self::UpdateStatus,
            (false, "configmaps") => Self::CreateMap,
            (false, "selfsubjectaccessreviews") => Self::CheckPermissions,
            (false, _) if path.contains("/events") => Self::WriteEvent,
            (false, _) if collection.ends_with("configmaps") && *method == Method::PUT => Self::UpdateMap,
            (false, _) if collection.ends_with("configmaps") => Self::ApplyMap,
            (false, site) => {
                let is_live = |site: serde_json::Value| site["metadata"]["deletionTimestamp"].is_null();
                match world.site(site).is_some_and(is_live) {
                    true => Self::AddFinalizer,
                    false => Self::RemoveFinalizer,
                }
            }
        }
    }

    /// Returns whether the response to this step contains a site.
    fn writes_site(self) -> bool {
        matches!(self, Self::AddFinalizer | Self::RemoveFinalizer | Self::UpdateStatus)
    }

    fn is_election(self) -> bool {
        matches!(self, Self::WatchLease | Self::ReadLease | Self::WriteLease)
    }

    /// Returns whether only the leader may do this.
    fn is_leader_only(self) -> bool {
        let is_reading = matches!(self, Self::FillCache | Self::CheckPermissions | Self::ReadSite);
        !self.is_election() && !is_reading && self != Self::WriteEvent
    }
}

/// Before the step, or after it and before the process reads the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Before,
    After,
}

/// The point at which a process crashes, if it does not stop earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// At a step, after a number of earlier steps of the same kind.
    At(Step, Side, usize),
    /// Before a poll of a reconcile, after a number of earlier polls.
    InReconcile(usize),
    /// The process crashes after a random time.
    Waiting,
    /// Never. The process receives a stop signal after some time.
    Stopped,
    /// After some time, the requests for the Lease block, but other requests continue.
    Disconnected,
    /// Never. The process runs until the end of the world.
    Never,
}

impl CrashPoint {
    /// Returns a random crash point. Most crash points are at the step number `place`.
    pub(crate) fn draw(rng: &mut Rng, place: usize) -> Self {
        match rng.u8(..32) {
            0..=1 => Self::Waiting,
            2..=5 => Self::Stopped,
            6..=7 => Self::InReconcile(rng.usize(..30)),
            8..=10 => Self::Disconnected,
            _ => {
                let side = if place.is_multiple_of(2) { Side::Before } else { Side::After };
                Self::At(STEPS[place / 2 % STEPS.len()], side, rng.usize(..2))
            }
        }
    }
}

/// Clones share the same process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) identity: Arc<str>,
    pub(crate) world: Arc<World>,
    pub(crate) crash_point: CrashPoint,
    /// Cancelled after a crash or a stop.
    pub(crate) ended: CancellationToken,
    /// The stop signal.
    pub(crate) stop: CancellationToken,
    /// Cancelled when the requests for the Lease block.
    pub(crate) disconnected: CancellationToken,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    steps: BTreeMap<Step, usize>,
    polls: usize,
    reached_crash_point: bool,
}

impl Process {
    pub(crate) fn new(world: &Arc<World>, identity: &str, crash_point: CrashPoint) -> Self {
        let (ended, stop, disconnected, counts) = Default::default();
        Self {
            identity: identity.into(),
            world: Arc::clone(world),
            crash_point,
            ended,
            stop,
            disconnected,
            counts,
        }
    }

    /// Returns a client for all requests of this process.
    pub(crate) fn client(&self, service: ApiService) -> Client {
        let process = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (process, service) = (process.clone(), service.clone());
            async move {
                sleep(process.latency(&request)).await;
                let step = Step::of(&request, &process.world);
                let site = step.writes_site().then(|| request.uri().path().to_owned());
                let response = process.take_step(step, service.oneshot(request)).await?;
                Ok::<_, BoxError>(match site {
                    None => response.map(|body| body.map_err(BoxError::from).boxed_unsync()),
                    Some(path) => {
                        let response = process.world.record_write(&process, &path, response).await?;
                        response.map(|body| body.map_err(BoxError::from).boxed_unsync())
                    }
                })
            }
        });
        Client::new(send, "default")
    }

    /// Returns a latency that depends on the request. Requests then rarely arrive at the same time, and
    /// their order does not depend on the order in which tokio wakes tasks.
    fn latency(&self, request: &Request<Body>) -> Duration {
        let path = request.uri().path();
        // The name of an event contains the time, which differs between test runs.
        let path = path.find("/events").map_or(path, |end| &path[..end]);
        let mut hasher = DefaultHasher::new();
        (&self.identity, request.method().as_str(), path).hash(&mut hasher);
        Duration::from_millis(hasher.finish() % 50)
    }

    /// Executes a step. Blocks forever if the process crashes before, at or after the step.
    pub(crate) async fn take_step<T>(&self, step: Step, action: impl Future<Output = T>) -> T {
        let number = {
            let mut counts = self.counts.lock();
            let count = counts.steps.entry(step).or_default();
            *count += 1;
            *count - 1
        };
        self.reach(step, Side::Before, number).await;
        // An election does not need the watch. A process with shards cannot join without it.
        let is_blocked = self.crash_point == CrashPoint::Disconnected
            && step == Step::WatchLease
            && self.world.sharing == Sharing::Election;
        if is_blocked || (self.disconnected.is_cancelled() && step.is_election()) {
            std::future::pending::<()>().await;
        }
        let response = action.await;
        self.reach(step, Side::After, number).await;
        response
    }

    /// Returns if the process has not crashed. Otherwise blocks forever.
    async fn reach(&self, step: Step, side: Side, number: usize) {
        if !self.ended.is_cancelled() {
            if step.is_leader_only() {
                self.world.check_writer(&self.identity, step, side);
            }
            self.world.check_owners();
            if (step, side) == (Step::RemoveFinalizer, Side::After) {
                self.world.check_resources();
            }
            self.world.log(format_args!("{} {step:?} {side:?}", self.identity));
            if self.crash_point == CrashPoint::At(step, side, number) {
                self.counts.lock().reached_crash_point = true;
                self.crash(&format!("{side:?} {step:?}"));
            }
        }
        if self.ended.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Runs a reconcile. After a crash, it is not polled.
    pub(crate) async fn run_reconcile<T>(&self, reconcile: impl Future<Output = T>) -> T {
        let mut reconcile = pin!(reconcile);
        std::future::poll_fn(|context| {
            self.count_poll();
            if self.ended.is_cancelled() { Poll::Pending } else { reconcile.as_mut().poll(context) }
        })
        .await
    }

    fn count_poll(&self) {
        let mut counts = self.counts.lock();
        counts.polls += 1;
        let is_last = matches!(self.crash_point, CrashPoint::InReconcile(polls) if polls + 1 == counts.polls);
        drop(counts);
        if is_last && !self.ended.is_cancelled() {
            self.crash("in a reconcile");
        }
    }

    /// Crashes the process.
    pub(crate) fn crash(&self, place: &str) {
        self.world.record_end(&self.identity, place);
        self.ended.cancel();
    }

    /// Returns whether the process crashed at its step.
    pub(crate) fn reached_crash_point(&self) -> bool {
        self.counts.lock().reached_crash_point
    }
}

//! One life of the operator: what it asks of others, and where that ends.
//!
//! All that it does to the world goes through here. When it is over nothing of it gets through any more, at that very moment,
//! as if the process had been killed.

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
use kube_client::{Client, client::Body};
use kube_testserver::ApiService;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::world::World;

/// What a life asks of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    FillCache,
    AskForRights,
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
    Step::AskForRights,
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
    /// What a request is for.
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
            (false, "selfsubjectaccessreviews") => Self::AskForRights,
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

    fn is_of_the_election(self) -> bool {
        matches!(self, Self::WatchLease | Self::ReadLease | Self::WriteLease)
    }

    /// Only whoever leads may do this.
    fn is_for_leaders(self) -> bool {
        !self.is_of_the_election() && !matches!(self, Self::FillCache | Self::AskForRights | Self::ReadSite)
    }
}

/// Before it comes to whom it is asked of, or when it is done and the answer has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    Before,
    After,
}

/// How a life ends, unless it is over before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// With the step of this kind that comes after so many others of it.
    At(Step, Moment, usize),
    /// Before a run is polled for the time that comes after so many others.
    InARun(usize),
    /// Whatever it waits for by then.
    Waiting,
    /// It is told to stop.
    Told,
    /// From some moment on it does not come to its lease any more, and hears nothing of it, while all else goes on.
    CutOff,
    /// Not before it is told to, at the end of the world.
    Last,
}

impl Fate {
    /// Most end at a step: at this one, of all that there are.
    pub(crate) fn draw(rng: &mut Rng, place: usize) -> Self {
        match rng.u8(..32) {
            0..=1 => Self::Waiting,
            2..=5 => Self::Told,
            6..=7 => Self::InARun(rng.usize(..30)),
            8..=10 => Self::CutOff,
            _ => {
                let moment = if place.is_multiple_of(2) { Moment::Before } else { Moment::After };
                Self::At(STEPS[place / 2 % STEPS.len()], moment, rng.usize(..2))
            }
        }
    }
}

/// Clones are the same life.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) identity: Arc<str>,
    pub(crate) world: Arc<World>,
    pub(crate) fate: Fate,
    /// It is dead.
    pub(crate) over: CancellationToken,
    /// It is told to stop.
    pub(crate) stop: CancellationToken,
    /// It is cut off from its lease.
    pub(crate) cut_off: CancellationToken,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    steps: BTreeMap<Step, usize>,
    polls: usize,
    is_met: bool,
}

impl Life {
    pub(crate) fn new(world: &Arc<World>, identity: &str, fate: Fate) -> Self {
        let (over, stop, cut_off, counts) = Default::default();
        Self { identity: identity.into(), world: Arc::clone(world), fate, over, stop, cut_off, counts }
    }

    /// For all that it asks of the server.
    pub(crate) fn client(&self, service: ApiService) -> Client {
        let life = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (life, service) = (life.clone(), service.clone());
            async move {
                sleep(life.latency(&request)).await;
                let step = Step::of(&request, &life.world);
                life.takes(step, service.oneshot(request)).await
            }
        });
        Client::new(send, "default")
    }

    /// Of one moment no two requests come at once, so that their order does not depend on that in which tokio wakes tasks.
    fn latency(&self, request: &Request<Body>) -> Duration {
        let path = request.uri().path();
        // An event's name has the time in it, and that is another one in each run.
        let path = path.find("/events").map_or(path, |end| &path[..end]);
        let mut hasher = DefaultHasher::new();
        (&self.identity, request.method().as_str(), path).hash(&mut hasher);
        Duration::from_millis(hasher.finish() % 50)
    }

    /// Takes a step, unless this life is over before or with it.
    pub(crate) async fn takes<T>(&self, step: Step, done: impl Future<Output = T>) -> T {
        let number = {
            let mut counts = self.counts.lock();
            let count = counts.steps.entry(step).or_default();
            *count += 1;
            *count - 1
        };
        self.reaches(step, Moment::Before, number).await;
        let is_deaf = self.fate == Fate::CutOff && step == Step::WatchLease;
        if is_deaf || (self.cut_off.is_cancelled() && step.is_of_the_election()) {
            std::future::pending::<()>().await;
        }
        let answer = done.await;
        self.reaches(step, Moment::After, number).await;
        answer
    }

    /// Goes on, unless this life is over.
    async fn reaches(&self, step: Step, moment: Moment, number: usize) {
        if !self.over.is_cancelled() {
            if step.is_for_leaders() {
                self.world.judge_writer(&self.identity, step, moment);
            }
            self.world.judge_leaders();
            if (step, moment) == (Step::RemoveFinalizer, Moment::After) {
                self.world.check();
            }
            self.world.tell(format_args!("{} {step:?} {moment:?}", self.identity));
            if self.fate == Fate::At(step, moment, number) {
                self.counts.lock().is_met = true;
                self.dies(&format!("{moment:?} {step:?}"));
            }
        }
        if self.over.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// A run, which is not polled any more when this life is over.
    pub(crate) async fn runs<T>(&self, run: impl Future<Output = T>) -> T {
        let mut run = pin!(run);
        std::future::poll_fn(|context| {
            self.is_polled();
            match self.over.is_cancelled() {
                true => Poll::Pending,
                false => run.as_mut().poll(context),
            }
        })
        .await
    }

    fn is_polled(&self) {
        let mut counts = self.counts.lock();
        counts.polls += 1;
        let is_last = matches!(self.fate, Fate::InARun(polls) if polls + 1 == counts.polls);
        drop(counts);
        if is_last && !self.over.is_cancelled() {
            self.dies("In a run");
        }
    }

    /// Here it ends.
    pub(crate) fn dies(&self, place: &str) {
        self.world.ends(&self.identity, place);
        self.over.cancel();
    }

    /// Whether it has come to the step that was to be its last.
    pub(crate) fn has_met_its_fate(&self) -> bool {
        self.counts.lock().is_met
    }
}

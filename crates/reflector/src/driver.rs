//! `Reflector`: executes the outputs of the state machine. Only the driver uses I/O and the clock.

mod arrival;
mod gain_request;
mod received;
mod requests;
mod sharding;
mod version_check;

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture, stream::BoxStream};
use kube_listwatch::{ErrorClass, ListAt, ListPart, ListWatchError, ListerWatcher, WatchEvent};
use kube_object::{CacheProbe, Delta, NoCache, ResourceVersion, Shard, ShardKey, SlotCount, SlotSet};
use tokio::{sync::watch, time::Instant};

use self::{arrival::Arrival, sharding::Sharding, version_check::Doubt};
use crate::{
    Input, Marker, Output, ReflectorOptions, ReflectorStatus, RelistCause, RestartCause, Sink, SinkClosed,
    State, WatchEnd,
    backoff::Backoff,
    deadlines::{Alarm, Deadlines},
    report::Reports,
    server_versions::ServerVersions,
    slots::SlotsInput,
    step,
    unreadable::Unreadable,
};

/// A watch with a shorter duration is early. The next request then waits for the backoff.
const EARLY_END: Duration = Duration::from_secs(1);

/// Lists and watches a resource, and pushes the changes into a [`Sink`].
///
/// ```no_run
/// # async fn example(client: kube_client::Client) {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_listwatch::ListWatch;
/// use kube_reflector::Reflector;
///
/// let (deltas, mut received) = tokio::sync::mpsc::channel(16);
/// let pods = ListWatch::<Pod>::new(kube_client::Api::all(client));
/// let reflector = Reflector::new(pods, deltas).on_error(|error| eprintln!("{}", error.with_causes()));
/// let running = tokio::spawn(reflector.run());
/// while let Some(deltas) = received.recv().await {
///     println!("{deltas:?}"); // Begin, pages and End of the list, then changes
/// }
/// # running.await.unwrap();
/// # }
/// ```
pub struct Reflector<T, S> {
    source: Arc<dyn ListerWatcher<T>>,
    sink: S,
    known: Arc<dyn CacheProbe<T>>,
    options: ReflectorOptions,
    reports: Reports,
    relist: watch::Receiver<u64>,
    server_versions: ServerVersions,
    slots: Option<(Shard, watch::Receiver<SlotSet>)>,
    resume: Option<ResourceVersion>,
}

impl<T: Send + Sync + 'static, S: Sink<T>> Reflector<T, S> {
    /// Creates a reflector. [`Reflector::run`] sends the first request.
    pub fn new(source: impl ListerWatcher<T>, sink: S) -> Self {
        Self::from_shared(Arc::new(source), sink)
    }

    /// Creates a reflector with a shared source. [`Reflector::run`] sends the first request.
    pub fn from_shared(source: Arc<dyn ListerWatcher<T>>, sink: S) -> Self {
        let (_, relist) = watch::channel(0);
        Self {
            source,
            sink,
            known: Arc::new(NoCache),
            options: ReflectorOptions::default(),
            reports: Reports::default(),
            relist,
            server_versions: ServerVersions::default(),
            slots: None,
            resume: None,
        }
    }

    /// Sets a probe that finds cached objects. If a listed object is unchanged, the reflector then
    /// passes the cached object to the sink, and does not decode the listed object.
    #[must_use]
    pub fn cache_probe(mut self, known: Arc<dyn CacheProbe<T>>) -> Self {
        self.known = known;
        self
    }

    /// Sets the options. Clamps each duration to the limits that [`ReflectorOptions`] describes.
    #[must_use]
    pub fn options(mut self, options: ReflectorOptions) -> Self {
        self.reports.is_quiet = !options.log_failures;
        self.options = options.bounded();
        self
    }

    /// Sets a function that receives the failures of LIST and WATCH requests, like client-go's
    /// `SetWatchErrorHandler`.
    ///
    /// A timeout is also a failure. The reflector calls the function on its own task. The function must
    /// therefore not block.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.reports.on_error = Some(Box::new(on_error));
        self
    }

    /// Sets the channel into which the reflector writes its status. After the reflector was dropped,
    /// receivers of this channel can still read the last status.
    #[must_use]
    pub fn status_in(mut self, status: watch::Sender<ReflectorStatus>) -> Self {
        self.reports.status = status;
        self
    }

    /// Sets a channel through which the program requests relists. To request a relist, send a different
    /// number into the channel. For example, request a relist after the source has lost events.
    #[must_use]
    pub fn relist_on(mut self, requests: watch::Receiver<u64>) -> Self {
        self.relist = requests;
        self
    }

    /// Sets a [`ServerVersions`] that several reflectors of the same API server share. After a failure,
    /// these reflectors share one request for the current resourceVersion of the server. They use it to
    /// detect that the server was restored to an older state.
    #[must_use]
    pub fn server_versions(mut self, versions: ServerVersions) -> Self {
        self.server_versions = versions;
        self
    }

    /// Lists and watches only the objects of some slots. The channel contains these slots, and the program
    /// can change them at any time.
    ///
    /// The sink receives a [`Delta::Hold`] with each change. The rules are in `docs/reflector.md`.
    #[must_use]
    pub fn slots(mut self, key: ShardKey, count: SlotCount, slots: watch::Receiver<SlotSet>) -> Self {
        self.slots = Some((Shard { key, count, slots: SlotSet::default() }, slots));
        self
    }

    /// Starts with a watch after this version in place of a list. The sink must contain the state of the
    /// server at this version, for example from an earlier process, and must treat it as a complete list.
    ///
    /// If the version has expired, the reflector lists. This list and all other lists do not rely on the
    /// version: the first list after the resume is consistent, and starts a new epoch. Has no effect on a
    /// reflector of some slots.
    #[must_use]
    pub fn resume_from(mut self, version: ResourceVersion) -> Self {
        self.resume = Some(version);
        self
    }

    /// Returns a receiver of the status.
    pub fn status(&self) -> watch::Receiver<ReflectorStatus> {
        self.reports.status.subscribe()
    }

    /// Runs until the sink is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the reflector closes the open request. Deltas that the reflector has
    /// already pushed stay in the sink.
    pub async fn run(mut self) {
        self.options.streaming_lists &= self.source.streams_lists();
        let seed = self.options.seed.unwrap_or_else(|| fastrand::u64(..));
        let sharding = self.slots.take().map(|(shard, slots)| Sharding::new(shard, slots, &self.options));
        let mut driver = Driver {
            backoff: Backoff::new(&self.options),
            rng: fastrand::Rng::with_seed(seed),
            deadlines: Deadlines::default(),
            alarm: Alarm::default(),
            request: Request::None,
            version_check: None,
            doubt: Doubt::failed(),
            failed_after_open: false,
            list_began: Instant::now(),
            requested_at: Instant::now(),
            requests: 0,
            machine: State::Idle,
            outgoing: Vec::new(),
            unreadable: Unreadable::default(),
            sharding,
            gain_is_first: false,
            reflector: self,
        };
        let SinkClosed = driver.run().await;
        driver.reflector.reports.stopped();
    }
}

/// The open request. Dropping the stream closes the request.
enum Request<T> {
    None,
    List(BoxStream<'static, Result<ListPart<T>, ListWatchError>>),
    Watch {
        events: BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>>,
        began: Instant,
        timeout: Duration,
    },
}

struct Driver<T, S> {
    reflector: Reflector<T, S>,
    machine: State,
    request: Request<T>,
    /// The running request for the server's resourceVersion. A new list or watch cancels it.
    version_check: Option<BoxFuture<'static, ResourceVersion>>,
    doubt: Doubt,
    /// True if the last failure ended a watch that was open. To open the next watch is then no success.
    failed_after_open: bool,
    /// The time when the last list started, without the time in which the sink was full.
    list_began: Instant,
    /// The time when `request` was sent.
    requested_at: Instant,
    /// The number of requests and backoffs. It changes when `request` is replaced.
    requests: u64,
    deadlines: Deadlines,
    /// The timer of the first deadline.
    alarm: Alarm,
    backoff: Backoff,
    rng: fastrand::Rng,
    /// The deltas of the current arrival. They are pushed together.
    outgoing: Vec<Delta<T>>,
    unreadable: Unreadable,
    /// `None` for a reflector of all objects.
    sharding: Option<Sharding<T>>,
    /// Whether the next arrival polls the list of added slots before the main request.
    gain_is_first: bool,
}

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    async fn run(&mut self) -> SinkClosed {
        // If the sink is closed, do not send the first request.
        if self.reflector.sink.closed().now_or_never().is_some() {
            return SinkClosed;
        }
        self.start();
        loop {
            self.settle();
            if let Err(closed) = self.push().await {
                return closed;
            }
            match self.arrival().await {
                Arrival::Part(part) => self.part(part),
                Arrival::Events(events) => self.events(events),
                Arrival::Fired(deadline) => self.fired(deadline),
                Arrival::ServerVersion(version) => {
                    self.version_check = None;
                    self.step(Input::ServerVersion(&version), || None);
                }
                Arrival::RelistRequested => {
                    self.watch_over(RestartCause::Requested);
                    self.step(Input::Relist, || None);
                }
                Arrival::Sharding(arrival) => self.sharding_arrival(arrival),
                Arrival::SinkClosed => return SinkClosed,
            }
        }
    }

    /// Pushes the deltas. The reflector does not read while the sink is full, so this time does not
    /// count against the server.
    async fn push(&mut self) -> Result<(), SinkClosed> {
        let outgoing = std::mem::take(&mut self.outgoing);
        if outgoing.is_empty() {
            return Ok(());
        }
        let mut pushing = pin!(self.reflector.sink.push(outgoing));
        // A sink with room accepts the deltas at the first poll. The clock is then not read.
        if let Some(pushed) = pushing.as_mut().now_or_never() {
            return pushed;
        }
        let began = Instant::now();
        pushing.await?;
        let waited = began.elapsed();
        self.deadlines.postpone(waited);
        self.list_began += waited;
        if let Some(sharding) = &mut self.sharding {
            sharding.gain.postpone(waited);
        }
        if let Request::Watch { began, .. } = &mut self.request {
            *began += waited;
        }
        Ok(())
    }

    /// Steps the machine and executes the outputs. `item` returns the delta for `Deliver`.
    fn step(&mut self, input: Input<'_>, item: impl FnOnce() -> Option<Delta<T>>) {
        let state = std::mem::replace(&mut self.machine, State::Idle);
        let (state, outputs) = step(state, input, &self.reflector.options);
        let mut item = Some(item);
        for output in outputs {
            match output {
                Output::List { request, fresh } => self.list(request, fresh),
                Output::Stream { not_older_than, fresh } => self.stream(not_older_than, fresh),
                Output::Watch(after) => self.watch(after),
                Output::BackOff(at_least) => self.back_off(at_least),
                Output::CheckVersion => self.check_version(),
                Output::Arm(deadline) => self.arm(deadline),
                Output::Disarm(deadline) => self.deadlines.disarm(deadline),
                Output::Deliver => self.deliver(item.take().and_then(|item| item())),
                Output::Discard => self.discard(),
                Output::Mark(marker) => self.mark(marker),
                Output::Count(cause) => self.count_list(cause),
                Output::AbandonPages { pages } => self.abandon_pages(pages),
            }
        }
        self.machine = state;
        if !matches!(self.machine, State::Listing(_) | State::Streaming(_)) {
            self.unreadable.list_over();
        }
        self.reflector.reports.phase(&self.machine);
    }

    /// Queues a delta. Of consecutive bookmarks, only the last one has information.
    fn deliver(&mut self, delta: Option<Delta<T>>) {
        match (self.outgoing.last_mut(), delta) {
            (Some(last @ Delta::Bookmark(_)), Some(delta @ Delta::Bookmark(_))) => *last = delta,
            (_, delta) => self.outgoing.extend(delta),
        }
    }

    fn discard(&mut self) {
        self.reflector.reports.repeat();
        self.doubt = Doubt::failed();
    }

    fn count_list(&mut self, cause: RelistCause) {
        self.reflector.reports.list_begun(cause);
        self.list_began = Instant::now();
    }

    fn mark(&mut self, marker: Marker) {
        match marker {
            Marker::Clear => self.reflector.reports.cleared(true),
            Marker::End { .. } => self.reflector.reports.cleared(false),
            Marker::Begin { .. } => self.unreadable.list_over(),
        }
        let slots = match marker {
            Marker::Begin { .. } => Some(SlotsInput::ListBegan),
            Marker::End { .. } => Some(SlotsInput::ListEnded),
            Marker::Clear => None,
        };
        self.outgoing.push(marker.into());
        slots.into_iter().for_each(|input| self.slots(input));
    }

    fn watch_ended(&mut self) {
        let end = self.watch_end();
        if end != WatchEnd::Early {
            self.succeeded();
        }
        if end != WatchEnd::Full {
            self.doubt = Doubt::closed();
        }
        self.watch_over(end.into());
        self.step(Input::WatchEnded(end), || None);
    }

    fn watch_end(&self) -> WatchEnd {
        match &self.request {
            Request::Watch { began, timeout, .. } => match began.elapsed() {
                elapsed if elapsed < EARLY_END => WatchEnd::Early,
                // Servers round the timeout down to seconds.
                elapsed if elapsed + EARLY_END < *timeout => WatchEnd::Short,
                _ => WatchEnd::Full,
            },
            Request::None | Request::List(_) => WatchEnd::Short,
        }
    }

    /// Counts the end of a watch. Does not count a list or a streaming list.
    fn watch_over(&self, cause: RestartCause) {
        if matches!(self.machine, State::Watching(_)) {
            self.reflector.reports.watch_over(cause);
        }
    }

    fn succeeded(&mut self) {
        self.failed_after_open = false;
        self.reflector.reports.succeeded();
    }

    fn failed(&mut self, error: &ListWatchError) {
        self.doubt = Doubt::failed();
        self.failed_after_open = matches!(&self.machine, State::Watching(watching) if watching.opened);
        self.reflector.reports.failed(error, self.is_rejection(error.class()));
        self.watch_over(RestartCause::Failed(error.class()));
        self.step(Input::Failed(error.class(), error.retry_after()), || None);
    }

    /// Returns whether the server rejects a list that the state machine cannot request in another form.
    fn is_rejection(&self, class: ErrorClass) -> bool {
        let State::Listing(list) = &self.machine else { return false };
        let is_first_page = list.token.is_none();
        let is_simple = matches!(list.plan.at, ListAt::Any | ListAt::Consistent);
        class == ErrorClass::Unsupported && is_first_page && is_simple
    }
}

//! Tests that a stop completes all tasks, requests, threads and timers, for each activity of the
//! informer.

use std::{
    cell::RefCell,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Error as KubeError, core::Status};
use kube_informer::{Entry, Event, Informer, ListWatchError, ListerWatcher, Phase, handler_fn};
use kube_listwatch::{Decoded, ListEnd, ListPart, ListRequest, WatchEvent, WatchFrom, WatchRequest};
use kube_object::CacheProbe;
use tokio::{runtime::Handle, sync::watch};

/// The activity of the informer at the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    NeverStarted,
    /// The first request has not been sent.
    JustStarted,
    /// A list request has no response.
    ListUnanswered,
    /// A part of a list was received.
    List,
    /// A part of a streaming list was received.
    StreamingList,
    /// A watch is open.
    Watch,
    /// A watch has failed. The next watch is open, and a check of the server's version has no response.
    VersionCheck,
    /// A request has failed, and the reflector backs off.
    Backoff,
    /// The resource does not exist.
    Suspended,
    /// A user function has panicked.
    Panicked,
    /// The handlers have more pending events than their threshold.
    Backlog,
}

const ACTIVITIES: [Activity; 11] = [
    Activity::NeverStarted,
    Activity::JustStarted,
    Activity::ListUnanswered,
    Activity::List,
    Activity::StreamingList,
    Activity::Watch,
    Activity::VersionCheck,
    Activity::Backoff,
    Activity::Suspended,
    Activity::Panicked,
    Activity::Backlog,
];

const OBJECTS: u64 = 100;

/// The timeout in real time, because the thread of a handler does not use the paused clock.
const TURNS: usize = 10_000_000;

/// A source that blocks during an `Activity`. Counts its open requests.
struct BlockingSource {
    activity: Activity,
    watches: AtomicUsize,
    open: Arc<AtomicUsize>,
}

/// An open request.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn object(n: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.name = Some(format!("o{n}"));
    object.metadata.uid = Some(n.to_string());
    object.metadata.resource_version = Some((n + 1).to_string());
    object
}

fn status(code: u16) -> ListWatchError {
    ListWatchError::list_function(KubeError::Api(Box::new(Status { code, ..Status::default() })))
}

impl BlockingSource {
    /// Yields these items and then blocks. The request is open until the stream is dropped.
    fn then_hang<I: Send + 'static>(&self, items: Vec<I>) -> BoxStream<'static, I> {
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(Arc::clone(&self.open));
        let held = move |item| {
            let _open = &open;
            item
        };
        stream::iter(items).chain(stream::pending()).map(held).boxed()
    }

    fn items() -> ListPart<ConfigMap> {
        let items = (0..OBJECTS).map(|n| Decoded::Object(Entry::from_object(object(n)))).collect();
        ListPart::Items { items, nameless: Vec::new() }
    }
}

impl ListerWatcher<ConfigMap> for BlockingSource {
    fn list(
        &self,
        request: ListRequest,
        _: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<ListPart<ConfigMap>, ListWatchError>> {
        let end = ListPart::End(ListEnd { version: 1000.into(), next: None, remaining: None });
        self.then_hang(match self.activity {
            Activity::List => vec![Ok(Self::items())],
            Activity::Backoff => vec![Err(status(500))],
            Activity::Suspended => vec![Err(status(404))],
            Activity::Panicked => panic!("the list function panicked"),
            Activity::VersionCheck if request.limit == Some(1) => Vec::new(),
            Activity::Watch | Activity::VersionCheck | Activity::Backlog => vec![Ok(Self::items()), Ok(end)],
            _ => Vec::new(),
        })
    }

    fn watch(
        &self,
        request: WatchRequest,
        _: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<ConfigMap>>, ListWatchError>> {
        let added = |n| WatchEvent::Added(Decoded::Object(Entry::from_object(object(n))));
        let is_first = self.watches.fetch_add(1, Ordering::SeqCst) == 0;
        self.then_hang(match (self.activity, request.from) {
            (Activity::VersionCheck, _) if is_first => vec![Err(status(500))],
            (Activity::VersionCheck, _) => vec![Ok(vec![WatchEvent::Opened])],
            (Activity::StreamingList, WatchFrom::InitialEvents(_)) => {
                vec![Ok((0..OBJECTS).map(added).collect())]
            }
            _ => Vec::new(),
        })
    }

    fn streams_lists(&self) -> bool {
        self.activity == Activity::StreamingList
    }
}

thread_local! {
    /// The thread that sets this value drops it when it exits.
    static AT_THE_END: RefCell<Option<watch::Sender<()>>> = const { RefCell::new(None) };
}

/// The resources that must not exist after a stop.
struct Traces {
    tasks: usize,
    open: Arc<AtomicUsize>,
    /// Exists as long as the configuration of the informer.
    built_with: Weak<()>,
    /// The values exist as long as the handlers.
    handlers: Vec<Weak<()>>,
    /// The sender exists as long as the thread of the blocking handler.
    thread: watch::Receiver<()>,
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Returns a closure that owns a value. The closure also sets a thread-local value, which is
/// dropped when the thread exits.
fn holding(thread: Option<watch::Sender<()>>) -> (impl FnMut(&Event<ConfigMap>) + Send + 'static, Weak<()>) {
    let held = Arc::new(());
    let (weak, mut thread) = (Arc::downgrade(&held), thread);
    let handler = move |_: &Event<ConfigMap>| {
        let _held = &held;
        if let Some(thread) = thread.take() {
            AT_THE_END.with(|end| *end.borrow_mut() = Some(thread));
        }
    };
    (handler, weak)
}

type Running = (Informer<ConfigMap>, BoxStream<'static, Event<ConfigMap>>, Traces);

/// Returns an informer during this activity, with a handler of each kind and resyncs.
async fn informer_at(activity: Activity) -> Running {
    let tasks = alive_tasks();
    let open = Arc::new(AtomicUsize::new(0));
    let built_with = Arc::new(());
    let canary = Arc::downgrade(&built_with);
    let source = BlockingSource { activity, watches: AtomicUsize::new(0), open: Arc::clone(&open) };
    let informer = Informer::from_source(source)
        .on_error(move |_| _ = &built_with)
        .coalesce_threshold(if activity == Activity::Backlog { 1 } else { 1024 })
        .default_resync(Duration::from_secs(60))
        .build();
    let (ends, thread) = watch::channel(());
    let (task, task_holds) = holding(None);
    let (blocking, blocking_holds) = holding(Some(ends));
    let _registrations = (
        informer.on_event(task),
        informer.add_blocking_handler(handler_fn(blocking)).expect("a thread can be spawned"),
    );
    let events = informer.events().boxed();
    if activity != Activity::NeverStarted {
        informer.start();
    }
    let requests = Arc::clone(&open);
    let reached = || match (activity, informer.status().reflector.phase) {
        (Activity::NeverStarted | Activity::JustStarted, _) => true,
        (Activity::ListUnanswered | Activity::List | Activity::StreamingList, Phase::Listing) => true,
        (Activity::Watch, Phase::Watching) => true,
        (Activity::VersionCheck, Phase::Watching) => requests.load(Ordering::SeqCst) == 2,
        (Activity::Backoff | Activity::Panicked, Phase::Waiting) => true,
        (Activity::Suspended, Phase::Suspended) => true,
        (Activity::Backlog, Phase::Watching) => informer.status().handlers[2].pending as u64 == OBJECTS,
        _ => false,
    };
    while !reached() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let handlers = vec![task_holds, blocking_holds];
    (informer, events, Traces { tasks, open, built_with: canary, handlers, thread })
}

impl Traces {
    fn assert_released(&self, activity: Activity) {
        assert_eq!(alive_tasks(), self.tasks, "{activity:?}: a task still runs");
        assert_eq!(self.open.load(Ordering::SeqCst), 0, "{activity:?}: a request is open");
        assert!(
            self.handlers.iter().all(|held| held.upgrade().is_none()),
            "{activity:?}: a handler was not dropped"
        );
        assert!(self.thread.has_changed().is_err(), "{activity:?}: a thread still runs");
    }
}

/// Returns the number of open requests during an activity.
fn open_requests(activity: Activity) -> usize {
    match activity {
        Activity::NeverStarted | Activity::JustStarted => 0,
        Activity::Backoff | Activity::Suspended | Activity::Panicked => 0,
        Activity::ListUnanswered | Activity::List | Activity::StreamingList => 1,
        Activity::Watch | Activity::Backlog => 1,
        Activity::VersionCheck => 2,
    }
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn stop_completes_tasks_and_requests_during_any_activity() {
    for activity in ACTIVITIES {
        let (informer, events, resources) = informer_at(activity).await;
        let requests = resources.open.load(Ordering::SeqCst);
        assert_eq!(requests, open_requests(activity), "{activity:?}: unexpected phase");
        let start = tokio::time::Instant::now();
        informer.stop().await;
        let took = start.elapsed();
        resources.assert_released(activity);
        assert_eq!(informer.status().reflector.phase, Phase::Stopped);
        let remaining = drain(events).await;
        let has_queued_events =
            matches!(activity, Activity::Watch | Activity::VersionCheck | Activity::Backlog);
        // A handler that still receives queued events has a resync timer.
        assert!(
            has_queued_events || took == Duration::ZERO,
            "{activity:?}: a stop must not wait for a timer, but took {took:?}"
        );
        assert_eq!(
            remaining,
            if has_queued_events { OBJECTS } else { 0 },
            "{activity:?}: a stream yields its queued events"
        );
        drop(informer);
        assert!(resources.built_with.upgrade().is_none(), "{activity:?}");
        // No timer fires later.
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        resources.assert_released(activity);
    }
}

/// Reads the remaining events of a stream. Returns their number.
async fn drain(events: impl Stream<Item = Event<ConfigMap>>) -> u64 {
    events.count().await as u64
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn drop_of_informer_completes_tasks_and_requests() {
    for activity in ACTIVITIES {
        let (informer, events, resources) = informer_at(activity).await;
        // Registered handlers keep the informer alive, so they are removed.
        let stopping = informer.clone();
        drop((informer, events));
        stopping.stop().await;
        drop(stopping);
        resources.assert_released(activity);
        assert!(resources.built_with.upgrade().is_none(), "{activity:?}");
    }
}

/// Property 20: a stop takes effect even if its future is dropped.
#[tokio::test(start_paused = true)]
async fn cancelled_stop_completes_tasks_and_requests() {
    for activity in ACTIVITIES {
        let (informer, events, resources) = informer_at(activity).await;
        let _ = futures_util::poll!(std::pin::pin!(informer.stop()));
        drop(events);
        for _ in 0..TURNS {
            if alive_tasks() == resources.tasks && resources.thread.has_changed().is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        resources.assert_released(activity);
    }
}

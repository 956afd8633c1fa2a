//! A stop leaves no task, request, thread or timer, whatever the informer is doing.

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
enum Moment {
    NeverStarted,
    /// The first request has not been sent.
    JustStarted,
    /// A list request is not answered.
    ListUnanswered,
    /// A part of a list has arrived.
    List,
    /// A part of a streaming list has arrived.
    StreamingList,
    /// A watch is open.
    Watch,
    /// A request has failed, and the reflector backs off.
    Backoff,
    /// The resource does not exist.
    Suspended,
    /// A user function has panicked.
    Panicked,
    /// More events wait for the handlers than their threshold.
    Backlog,
}

const MOMENTS: [Moment; 10] = [
    Moment::NeverStarted,
    Moment::JustStarted,
    Moment::ListUnanswered,
    Moment::List,
    Moment::StreamingList,
    Moment::Watch,
    Moment::Backoff,
    Moment::Suspended,
    Moment::Panicked,
    Moment::Backlog,
];

const OBJECTS: u64 = 100;

/// In seconds of real time, because a handler's thread does not use the paused clock.
const TURNS: usize = 10_000_000;

/// A source that stops at a `Moment`. Counts its open requests.
struct Until {
    moment: Moment,
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

impl Until {
    /// Returns these items and then blocks. The request is open until the stream is dropped.
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
        let items = (0..OBJECTS).map(|n| Decoded::Object(Entry::of(object(n)))).collect();
        ListPart::Items { items, nameless: Vec::new() }
    }
}

impl ListerWatcher<ConfigMap> for Until {
    fn list(
        &self,
        _: ListRequest,
        _: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<ListPart<ConfigMap>, ListWatchError>> {
        let end = ListPart::End(ListEnd { version: 1000.into(), next: None, remaining: None });
        self.then_hang(match self.moment {
            Moment::List => vec![Ok(Self::items())],
            Moment::Backoff => vec![Err(status(500))],
            Moment::Suspended => vec![Err(status(404))],
            Moment::Panicked => panic!("the list function panicked"),
            Moment::Watch | Moment::Backlog => vec![Ok(Self::items()), Ok(end)],
            _ => Vec::new(),
        })
    }

    fn watch(
        &self,
        request: WatchRequest,
        _: Arc<dyn CacheProbe<ConfigMap>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<ConfigMap>>, ListWatchError>> {
        let added = |n| WatchEvent::Added(Decoded::Object(Entry::of(object(n))));
        self.then_hang(match (self.moment, request.from) {
            (Moment::StreamingList, WatchFrom::InitialEvents(_)) => {
                vec![Ok((0..OBJECTS).map(added).collect())]
            }
            _ => Vec::new(),
        })
    }

    fn streams_lists(&self) -> bool {
        self.moment == Moment::StreamingList
    }
}

thread_local! {
    /// Dropped at the end of the thread that set it.
    static AT_THE_END: RefCell<Option<watch::Sender<()>>> = const { RefCell::new(None) };
}

/// Resources that must not exist after a stop.
struct Traces {
    tasks: usize,
    open: Arc<AtomicUsize>,
    /// Lives as long as the configuration of the informer.
    built_with: Weak<()>,
    /// These live as long as the handlers.
    handlers: Vec<Weak<()>>,
    /// The sender lives as long as the thread of the blocking handler.
    thread: watch::Receiver<()>,
}

fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Returns a closure that owns a value, and sets a thread-local value that is dropped at the thread's end.
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

/// Returns an informer with a handler of each kind and resyncs, at this moment.
async fn at(moment: Moment) -> Running {
    let tasks = alive_tasks();
    let open = Arc::new(AtomicUsize::new(0));
    let built_with = Arc::new(());
    let canary = Arc::downgrade(&built_with);
    let informer = Informer::from_source(Until { moment, open: Arc::clone(&open) })
        .on_error(move |_| _ = &built_with)
        .coalesce_threshold(if moment == Moment::Backlog { 1 } else { 1024 })
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
    if moment != Moment::NeverStarted {
        informer.start();
    }
    let reached = || match (moment, informer.status().reflector.phase) {
        (Moment::NeverStarted | Moment::JustStarted, _) => true,
        (Moment::ListUnanswered | Moment::List | Moment::StreamingList, Phase::Listing) => true,
        (Moment::Watch, Phase::Watching) => true,
        (Moment::Backoff | Moment::Panicked, Phase::Waiting) => true,
        (Moment::Suspended, Phase::Suspended) => true,
        (Moment::Backlog, Phase::Watching) => informer.status().handlers[2].pending as u64 == OBJECTS,
        _ => false,
    };
    while !reached() {
        tokio::task::yield_now().await;
    }
    let handlers = vec![task_holds, blocking_holds];
    (informer, events, Traces { tasks, open, built_with: canary, handlers, thread })
}

impl Traces {
    fn must_be_gone(&self, moment: Moment) {
        assert_eq!(alive_tasks(), self.tasks, "{moment:?}: a task is left");
        assert_eq!(self.open.load(Ordering::SeqCst), 0, "{moment:?}: a request is open");
        assert!(self.handlers.iter().all(|held| held.upgrade().is_none()), "{moment:?}: a handler is left");
        assert!(self.thread.has_changed().is_err(), "{moment:?}: a thread is left");
    }
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn stop_at_any_moment_leaves_no_task_or_request() {
    for moment in MOMENTS {
        let (informer, events, traces) = at(moment).await;
        let requests = traces.open.load(Ordering::SeqCst);
        let asks =
            [Moment::ListUnanswered, Moment::List, Moment::StreamingList, Moment::Watch, Moment::Backlog];
        assert_eq!(requests, usize::from(asks.contains(&moment)), "{moment:?}: unexpected phase");
        let began = tokio::time::Instant::now();
        informer.stop().await;
        let took = began.elapsed();
        traces.must_be_gone(moment);
        assert_eq!(informer.status().reflector.phase, Phase::Stopped);
        let left = drain(events).await;
        let told = matches!(moment, Moment::Watch | Moment::Backlog);
        // A handler that still receives queued events has a resync timer.
        assert!(told || took == Duration::ZERO, "{moment:?}: a stop waits for no timer, and took {took:?}");
        assert_eq!(left, if told { OBJECTS } else { 0 }, "{moment:?}: a stream ends after its queued events");
        drop(informer);
        assert!(traces.built_with.upgrade().is_none(), "{moment:?}");
        // No timer fires later.
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        traces.must_be_gone(moment);
    }
}

/// Reads a stream to its end.
async fn drain(events: impl Stream<Item = Event<ConfigMap>>) -> u64 {
    events.count().await as u64
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn dropped_informer_leaves_no_task_or_request() {
    for moment in MOMENTS {
        let (informer, events, traces) = at(moment).await;
        // Registered handlers keep the informer alive, so they are removed.
        let stopping = informer.clone();
        drop((informer, events));
        stopping.stop().await;
        drop(stopping);
        traces.must_be_gone(moment);
        assert!(traces.built_with.upgrade().is_none(), "{moment:?}");
    }
}

/// Property 20: a stop takes effect even if its future is dropped.
#[tokio::test(start_paused = true)]
async fn cancelled_stop_leaves_no_task_or_request() {
    for moment in MOMENTS {
        let (informer, events, traces) = at(moment).await;
        let _ = futures_util::poll!(std::pin::pin!(informer.stop()));
        drop(events);
        for _ in 0..TURNS {
            if alive_tasks() == traces.tasks && traces.thread.has_changed().is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        traces.must_be_gone(moment);
    }
}

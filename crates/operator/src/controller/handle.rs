//! `ControllerHandle`: adds keys and sources to a running controller.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::Stream;
use kube_informer::{Cached, Event, ObjectKey};
use kube_workqueue::Priority;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{
    informers::Informers,
    keys::{KeyQueue, RequestKey},
    predicate::Predicate,
    reason::{Change, Reason},
    source::{EventSource, QueueKeys, RequestQueue, StreamSource},
};

/// The capacity of the channel for added sources.
const ADDED_CAPACITY: usize = 16;

/// The source of the reasons of [`ControllerHandle::reconcile`].
const HANDLE: &str = "the program";

/// Queues keys for a controller. A controller has the sources of its builder methods, for example
/// [`Controller::watches`](crate::Controller::watches). [`ControllerHandle::add_source`] adds a source
/// to a running controller.
pub struct Source<Q: RequestKey = ObjectKey>(pub(crate) Box<dyn QueueKeys<Q>>);

impl<Q: RequestKey> Source<Q> {
    /// Creates a source that queues the keys that `keys` returns for each event. See
    /// [`Controller::watches`](crate::Controller::watches).
    pub fn watches<O, I>(
        informers: impl Into<Informers<O>>,
        keys: impl Fn(&Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = Q>,
    {
        Self::watches_handler(informers, Predicate::always(), move |event, queue| {
            keys(event).into_iter().for_each(|key| queue.add(key));
        })
    }

    /// Creates a source that calls `handler` for each event that the predicate accepts. See
    /// [`Controller::watches_handler`](crate::Controller::watches_handler).
    pub fn watches_handler<O: Cached>(
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
        handler: impl Fn(&Event<O>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(EventSource::new(informers.into(), filter, handler)))
    }

    /// Creates a source that queues the keys of a stream. See
    /// [`Controller::watches_stream`](crate::Controller::watches_stream).
    pub fn watches_stream(name: impl Into<Arc<str>>, keys: impl Stream<Item = Q> + Send + 'static) -> Self {
        Self(Box::new(StreamSource { name: name.into(), keys, priority: Priority::NORMAL }))
    }
}

impl<Q: RequestKey> fmt::Debug for Source<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// A source that is being added to a controller.
pub(super) struct AddedSource<Q: RequestKey> {
    pub(super) source: Box<dyn QueueKeys<Q>>,
    /// Cancelled to remove the source.
    pub(super) removed: CancellationToken,
    /// Receives a value when the existing objects are queued.
    pub(super) started: oneshot::Sender<()>,
    /// Dropped when the source queues no further keys.
    pub(super) running: oneshot::Sender<()>,
}

impl<Q: RequestKey> AddedSource<Q> {
    /// Returns the source, a receiver of its start, and its handle.
    pub(super) fn new(source: Box<dyn QueueKeys<Q>>) -> (Self, oneshot::Receiver<()>, SourceHandle) {
        let removed = CancellationToken::new();
        let ((started, is_started), (running, ended)) = (oneshot::channel(), oneshot::channel());
        let handle = SourceHandle { removed: removed.clone(), ended };
        (Self { source, removed, started, running }, is_started, handle)
    }
}

/// Adds keys and sources to a controller. [`Controller::handle`](crate::Controller::handle) creates a
/// handle. Handles are cheap to clone, and do not keep the controller running.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use kube_informer::{Informer, ObjectKey};
/// # use kube_operator::{Action, Controller, Failure, Manager, Request, Source};
/// # async fn example(mut manager: Manager, maps: Informer<ConfigMap>, secrets: Informer<Secret>) -> Result<(), Box<dyn std::error::Error>> {
/// let controller = Controller::new(&maps);
/// let handle = controller.handle();
/// manager.add_controller(controller, |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) });
/// // Later, for example in a task of the manager:
/// handle.reconcile(ObjectKey::new(Some("shop"), "settings"));
/// let source = handle.add_source(Source::watches(&secrets, |event| [event.key().clone()])).await?;
/// source.remove().await;
/// # Ok(()) }
/// ```
pub struct ControllerHandle<Q: RequestKey = ObjectKey> {
    /// Set while the controller runs as the leader.
    keys: Arc<Mutex<Option<KeyQueue<Q>>>>,
    sources: mpsc::Sender<AddedSource<Q>>,
}

/// The end of a controller's handles. Dropping it closes the handles.
pub(super) struct HandleReceiver<Q: RequestKey> {
    keys: Arc<Mutex<Option<KeyQueue<Q>>>>,
    pub(super) added: mpsc::Receiver<AddedSource<Q>>,
}

impl<Q: RequestKey> HandleReceiver<Q> {
    /// Lets the handles queue keys.
    pub(super) fn open(&self, keys: &KeyQueue<Q>) {
        *self.keys.lock() = Some(keys.clone());
    }
}

impl<Q: RequestKey> Drop for HandleReceiver<Q> {
    fn drop(&mut self) {
        let closed = self.keys.lock().take();
        drop(closed); // without the lock
    }
}

impl<Q: RequestKey> Clone for ControllerHandle<Q> {
    fn clone(&self) -> Self {
        Self { keys: Arc::clone(&self.keys), sources: self.sources.clone() }
    }
}

impl<Q: RequestKey> fmt::Debug for ControllerHandle<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").finish_non_exhaustive()
    }
}

/// Reports that the controller of a [`ControllerHandle`] has stopped, or was dropped before its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to add a source: the controller has stopped; add the source to a running controller")]
pub struct ControllerStopped;

impl<Q: RequestKey> ControllerHandle<Q> {
    pub(super) fn new() -> (Self, HandleReceiver<Q>) {
        let (sources, added) = mpsc::channel(ADDED_CAPACITY);
        let keys = Arc::default();
        (Self { keys: Arc::clone(&keys), sources }, HandleReceiver { keys, added })
    }

    /// Queues a key. The call has no effect before the controller runs as the leader, and after the
    /// controller has stopped. At the start, a controller reconciles all objects of its sources.
    pub fn reconcile(&self, key: Q) {
        let Some(keys) = self.keys.lock().clone() else { return };
        let reason = Reason { source: HANDLE.into(), group: None, object: None, change: Change::Requested };
        keys.add(key, reason, Duration::ZERO, Priority::NORMAL);
    }

    /// Adds a source, and waits until its caches are synced and its existing objects are queued. If the
    /// controller does not run yet, the method waits for its start, and for leadership.
    ///
    /// Create the informers of the source with the factory of the manager. Otherwise, stop them yourself.
    /// If such an informer stops before the source is removed, the controller fails.
    ///
    /// # Errors
    /// Returns [`ControllerStopped`] if the controller stops before the source has started.
    ///
    /// # Cancel safety
    /// If you drop the future, the source may have been added. It then remains until the controller
    /// stops.
    pub async fn add_source(&self, source: Source<Q>) -> Result<SourceHandle, ControllerStopped> {
        let (added, started, handle) = AddedSource::new(source.0);
        self.sources.send(added).await.map_err(|_| ControllerStopped)?;
        started.await.map_err(|_| ControllerStopped)?;
        Ok(handle)
    }
}

/// Refers to a source that was added with [`ControllerHandle::add_source`]. Dropping the handle does not
/// remove the source.
#[derive(Debug)]
pub struct SourceHandle {
    removed: CancellationToken,
    /// Closed when the source queues no further keys.
    ended: oneshot::Receiver<()>,
}

impl SourceHandle {
    /// Removes the source, and waits until it queues no further keys. Queued keys stay in the queue.
    ///
    /// Do not wait for this method within a predicate or a handler of the source, because they would wait
    /// for each other indefinitely.
    ///
    /// # Cancel safety
    /// The first poll removes the source. If you drop the future after this poll, you do not know when
    /// the source queues its last key.
    pub async fn remove(self) {
        self.removed.cancel();
        let _ended = self.ended.await;
    }
}

//! The sources of keys: events of an informer, mapped to keys, and streams of keys.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::Resource;
use kube_informer::{Entry, Event, Informer, InformerFactory, Object, ObjectKey, Phase, Scope, handler_fn};
use kube_workqueue::{Priority, WorkQueue};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    predicate::Predicate,
    reason::{Change, PendingReasons, Reason},
};

/// Holds the queued keys of a controller, and their reasons.
#[derive(Clone)]
pub(crate) struct KeyQueue {
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) reasons: Arc<Mutex<PendingReasons>>,
    /// The first source that panicked. Some of its keys are missing.
    pub(crate) panicked_source: watch::Sender<Option<Arc<str>>>,
    /// The delay of each key of a source.
    pub(crate) debounce: Duration,
}

impl KeyQueue {
    fn add(&self, key: ObjectKey, reason: Reason, delay: Duration, priority: Priority) {
        // The reason is added before the key. A reconcile that starts in between removes the reason
        // and observes the change.
        self.reasons.lock().add(key.clone(), reason);
        match delay.max(self.debounce) {
            Duration::ZERO => self.queue.add_with_priority(key, priority),
            delay => self.queue.add_after_with_priority(key, delay, priority),
        }
    }

    fn record_panic(&self, source: &Arc<str>) {
        self.panicked_source
            .send_if_modified(|panicked_source| panicked_source.replace(Arc::clone(source)).is_none());
    }
}

/// Queues keys for the event of a watched object. The keys are keys of the reconciled type. See
/// [`Controller::watches_handler`](crate::Controller::watches_handler).
///
/// If a key is already queued, it is reconciled once. If it is being reconciled, it is reconciled again
/// afterwards.
pub struct RequestQueue<'a> {
    queue: &'a KeyQueue,
    reason: Reason,
}

impl RequestQueue<'_> {
    /// Queues a key. Keys of the initial list and of resyncs have the priority [`Priority::LOW`], so
    /// that changes are reconciled first. All other keys have the priority [`Priority::NORMAL`].
    pub fn add(&self, key: ObjectKey) {
        self.add_after(key, Duration::ZERO);
    }

    /// Queues a key after a delay, with the priority of [`add`](Self::add). If the key is already
    /// delayed, the earlier deadline applies.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        let priority = match self.reason.change {
            Change::Listed | Change::Resynced => Priority::LOW,
            _ => Priority::NORMAL,
        };
        self.add_after_with_priority(key, delay, priority);
    }

    /// Queues a key after a delay, with a priority. The delay can be zero.
    pub fn add_after_with_priority(&self, key: ObjectKey, delay: Duration, priority: Priority) {
        self.queue.add(key, self.reason.clone(), delay, priority);
    }
}

impl fmt::Debug for RequestQueue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestQueue").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// Queues keys for a controller. It queues none before `start`, which is called when this process
/// is leader. The keys that a follower would collect are unbounded.
pub(crate) trait Source: Send {
    /// Adds the informer to the factory.
    fn join(&self, factory: &InformerFactory);
    /// Starts the informer, and waits until its cache is synced.
    fn wait_for_cache(&self) -> BoxFuture<'static, ()>;
    /// Waits until the informer is stopped, and returns its name. A stopped informer does not
    /// deliver events.
    fn informer_stopped(&self) -> BoxFuture<'static, String>;
    /// Starts the source, and waits until the existing objects are queued. Dropping this future or
    /// the returned one stops the source.
    fn start(self: Box<Self>, queue: KeyQueue, stop: CancellationToken)
    -> BoxFuture<'static, SourceShutdown>;
}

/// Completes when the source queues no further keys.
pub(crate) struct SourceShutdown(pub(crate) BoxFuture<'static, ()>);

/// Maps the events of an informer to keys.
pub(crate) struct EventSource<T, F> {
    pub(crate) name: Arc<str>,
    pub(crate) informer: Informer<T>,
    pub(crate) filter: Predicate<T>,
    pub(crate) keys: F,
    /// The informer caches the reconciled objects.
    pub(crate) is_primary: bool,
}

impl<T: Object, F> Source for EventSource<T, F>
where
    F: Fn(&Event<T>, &RequestQueue<'_>) + Send + 'static,
{
    fn join(&self, factory: &InformerFactory) {
        if let Err(error) = factory.adopt(&self.informer) {
            tracing::warn!(%error, "cannot add an informer of a controller to the manager; the manager will not stop the informer");
        }
    }

    fn wait_for_cache(&self) -> BoxFuture<'static, ()> {
        let informer = self.informer.clone();
        let cached = async move {
            informer.start();
            while let Err(error) = informer.wait_for_sync(NO_TIMEOUT).await {
                if error.informers.iter().any(|informer| informer.phase == Phase::Stopped) {
                    std::future::pending::<()>().await;
                }
                // The server rejects the list. The informer continues to retry.
                tokio::time::sleep(REJECTED_RETRY).await;
            }
        };
        cached.boxed()
    }

    fn informer_stopped(&self) -> BoxFuture<'static, String> {
        let mut status = self.informer.reflector_status();
        let name = self.informer.name().to_owned();
        let stopped = async move {
            let _closed = status.wait_for(|status| status.phase == Phase::Stopped).await;
            name
        };
        stopped.boxed()
    }

    fn start(
        self: Box<Self>,
        queue: KeyQueue,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown> {
        let Self { name, informer, filter, keys, is_primary } = *self;
        let started = async move {
            let handler = handler_fn(move |event: &Event<T>| {
                let add_keys = || {
                    if stop.is_cancelled() || !filter.passes(event) {
                        return;
                    }
                    let object = (!is_primary).then(|| event.key().clone());
                    let reason =
                        Reason { source: Arc::clone(&name), object, change: Change::from_event(event) };
                    keys(event, &RequestQueue { queue: &queue, reason });
                };
                if catch_unwind(AssertUnwindSafe(add_keys)).is_err() {
                    queue.record_panic(&name);
                }
            });
            let registration = informer.add_backpressured_handler(handler);
            if !registration.wait_for_sync(NO_TIMEOUT).await {
                std::future::pending::<()>().await; // the informer is stopped
            }
            SourceShutdown(registration.remove().boxed())
        };
        started.boxed()
    }
}

/// The time between two looks at a list that the server rejects.
const REJECTED_RETRY: Duration = Duration::from_secs(5);

/// A timeout that never expires in practice.
const NO_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Queues the keys of a stream.
pub(crate) struct StreamSource<S> {
    pub(crate) name: Arc<str>,
    pub(crate) keys: S,
    pub(crate) priority: Priority,
}

impl<S: Stream<Item = ObjectKey> + Send + 'static> Source for StreamSource<S> {
    fn join(&self, _: &InformerFactory) {}

    fn wait_for_cache(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn informer_stopped(&self) -> BoxFuture<'static, String> {
        std::future::pending().boxed()
    }

    fn start(
        self: Box<Self>,
        queue: KeyQueue,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown> {
        let Self { name, keys, priority } = *self;
        let source = Arc::clone(&name);
        let sender = queue.clone();
        let forward = async move {
            let reason = Reason { source, object: None, change: Change::Requested };
            let mut keys = pin!(keys.take_until(stop.cancelled_owned()));
            while let Some(key) = keys.next().await {
                sender.add(key, reason.clone(), Duration::ZERO, priority);
            }
        };
        let task = async move {
            if AssertUnwindSafe(forward).catch_unwind().await.is_err() {
                queue.record_panic(&name);
            }
        };
        async move { SourceShutdown(AbortOnDropHandle::new(tokio::spawn(task)).map(drop).boxed()) }.boxed()
    }
}

/// Returns the kind of the objects of an informer, or the name that the user assigned to the
/// informer.
pub(crate) fn kind_name<T: Object>(informer: &Informer<T>) -> &str {
    let name = informer.name();
    name.split_once(" /").map_or(name, |(kind, _)| kind)
}

/// Queues the keys of the owners of an object. For an update, both states are
/// searched.
pub(crate) fn owners<O: Resource + Object>(
    event: &Event<O>,
    owner: &OwnerKind,
    owned: OwnerMatch,
    queue: &RequestQueue<'_>,
) {
    let add_owners = |entry: &Entry<O>| {
        let references = entry.meta().owner_references.as_deref().unwrap_or_default();
        for reference in references.iter().filter(|reference| owner.matches(reference, owned)) {
            let namespace = entry.key().namespace().filter(|_| owner.scope == Scope::Namespaced);
            queue.add(ObjectKey::new(namespace, &reference.name));
        }
    };
    match event {
        Event::Updated { old, new } => {
            add_owners(old);
            add_owners(new);
        }
        Event::Added { object, .. } | Event::Deleted { last: object, .. } => add_owners(object),
    }
}

/// Selects the owner references that lead to a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerMatch {
    /// Only the controller reference. The controlling owner is responsible for the object.
    Controller,
    /// Every reference.
    AnyReference,
}

/// The type of the owners that a controller reconciles.
#[derive(Clone, Debug)]
pub(crate) struct OwnerKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) scope: Scope,
}

impl OwnerKind {
    /// Compares group and kind. All versions of a type are the same type.
    fn matches(&self, reference: &OwnerReference, owned: OwnerMatch) -> bool {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_selected = owned == OwnerMatch::AnyReference || reference.controller == Some(true);
        is_selected && reference.kind == self.kind && group == self.group
    }
}

//! The sources of keys: events of informers, mapped to keys, and streams of keys.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_informer::{
    Cached, Entry, Event, EventHandler, InformerFactory, Object, ObjectKey, OwnerReferences, Scope,
    handler_fn,
};
use kube_workqueue::Priority;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::shards::gate::SourceInformers;

use super::{
    informers::Informers,
    keys::{KeyQueue, RequestKey},
    predicate::Predicate,
    reason::{Change, Reason},
};

/// Queues keys for the event of a watched object. See
/// [`Controller::watches_handler`](crate::Controller::watches_handler).
///
/// If a key is already queued, it is reconciled once. If it is being reconciled, it is reconciled again
/// afterwards.
pub struct RequestQueue<'a, Q: RequestKey = ObjectKey> {
    queue: &'a KeyQueue<Q>,
    reason: Reason,
}

impl<Q: RequestKey> RequestQueue<'_, Q> {
    /// Queues a key. Keys of the initial list and of resyncs have the priority [`Priority::LOW`], so
    /// that changes are reconciled first. All other keys have the priority [`Priority::NORMAL`].
    pub fn add(&self, key: Q) {
        self.add_after(key, Duration::ZERO);
    }

    /// Queues a key after a delay, with the priority of [`add`](Self::add). If the key is already
    /// delayed, the earlier deadline applies.
    pub fn add_after(&self, key: Q, delay: Duration) {
        let priority = match self.reason.change {
            Change::Listed | Change::Resynced => Priority::LOW,
            _ => Priority::NORMAL,
        };
        self.add_after_with_priority(key, delay, priority);
    }

    /// Queues a key after a delay, with a priority. The delay can be zero.
    pub fn add_after_with_priority(&self, key: Q, delay: Duration, priority: Priority) {
        self.queue.add(key, self.reason.clone(), delay, priority);
    }
}

impl<Q: RequestKey> fmt::Debug for RequestQueue<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestQueue").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// Queues keys for a controller. It queues none before `start`, which is called when this process
/// is leader. The keys that a follower would collect are unbounded.
pub(crate) trait QueueKeys<Q: RequestKey>: Send {
    /// Adds the informers to the factory.
    fn join(&self, factory: &InformerFactory);
    /// Returns the informers whose objects cause the keys. A reconcile reads these objects.
    fn informers(&self) -> SourceInformers;
    /// Returns whether the informers cache the reconciled objects.
    fn is_primary(&self) -> bool;
    /// Returns the name of an informer that caches only the objects of some slots.
    fn sharded_informer(&self) -> Option<String>;
    /// Starts the informers, and waits until their caches are synced.
    fn wait_for_caches(&self) -> BoxFuture<'static, ()>;
    /// Waits until an informer is stopped, and returns its name. A stopped informer does not
    /// deliver events.
    fn informer_stopped(&self) -> BoxFuture<'static, String>;
    /// Starts the source, and waits until the existing objects are queued. Dropping this future or
    /// the returned one stops the source.
    fn start(
        self: Box<Self>,
        queue: KeyQueue<Q>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown>;
}

/// Completes when the source queues no further keys.
pub(crate) struct SourceShutdown(pub(crate) BoxFuture<'static, ()>);

/// Maps the events of informers to keys.
pub(crate) struct EventSource<T: Cached, F> {
    pub(crate) name: Arc<str>,
    /// The API group of the objects, if it is known.
    pub(crate) group: Option<Arc<str>>,
    pub(crate) informers: Informers<T>,
    pub(crate) filter: Predicate<T>,
    pub(crate) keys: F,
    /// The informers cache the reconciled objects.
    pub(crate) is_primary: bool,
}

impl<T: Cached, F> EventSource<T, F> {
    /// Creates a source of another type than the reconciled type.
    pub(crate) fn new(informers: Informers<T>, filter: Predicate<T>, keys: F) -> Self {
        let (name, group) = informers.kind_and_group();
        Self { name: name.into(), group: group.map(Into::into), informers, filter, keys, is_primary: false }
    }

    /// Returns a handler that queues keys until `stop` is cancelled.
    pub(crate) fn handler<Q: RequestKey>(
        self,
        queue: KeyQueue<Q>,
        stop: CancellationToken,
    ) -> impl EventHandler<T> + Clone
    where
        F: Fn(&Event<T>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
    {
        let source = Arc::new(self);
        handler_fn(move |event: &Event<T>| {
            let Self { name, group, filter, keys, is_primary, .. } = &*source;
            let add_keys = || {
                if stop.is_cancelled() || !filter.passes(event) {
                    return;
                }
                let object = (!is_primary).then(|| event.key().clone());
                let (source, change) = (Arc::clone(name), Change::from_event(event));
                let reason = Reason { source, group: group.clone(), object, change };
                keys(event, &RequestQueue { queue: &queue, reason });
            };
            if catch_unwind(AssertUnwindSafe(add_keys)).is_err() {
                queue.record_panic(name);
            }
        })
    }
}

impl<T: Cached, Q: RequestKey, F> QueueKeys<Q> for EventSource<T, F>
where
    F: Fn(&Event<T>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
{
    fn join(&self, factory: &InformerFactory) {
        self.informers.join(factory);
    }

    fn informers(&self) -> SourceInformers {
        self.informers.source_informers()
    }

    fn is_primary(&self) -> bool {
        self.is_primary
    }

    fn sharded_informer(&self) -> Option<String> {
        self.informers.sharded_name()
    }

    fn wait_for_caches(&self) -> BoxFuture<'static, ()> {
        self.informers.wait_for_caches()
    }

    fn informer_stopped(&self) -> BoxFuture<'static, String> {
        self.informers.stopped()
    }

    fn start(
        self: Box<Self>,
        queue: KeyQueue<Q>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown> {
        let informers = self.informers.clone();
        async move {
            let registrations = informers.register(self.handler(queue, stop));
            registrations.wait_for_sync().await;
            SourceShutdown(registrations.remove().boxed())
        }
        .boxed()
    }
}

/// Queues the keys of a stream.
pub(crate) struct StreamSource<S> {
    pub(crate) name: Arc<str>,
    pub(crate) keys: S,
    pub(crate) priority: Priority,
}

impl<Q: RequestKey, S: Stream<Item = Q> + Send + 'static> QueueKeys<Q> for StreamSource<S> {
    fn join(&self, _: &InformerFactory) {}

    fn informers(&self) -> SourceInformers {
        SourceInformers::Fixed(Vec::new())
    }

    fn is_primary(&self) -> bool {
        false
    }

    fn sharded_informer(&self) -> Option<String> {
        None
    }

    fn wait_for_caches(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn informer_stopped(&self) -> BoxFuture<'static, String> {
        std::future::pending().boxed()
    }

    fn start(
        self: Box<Self>,
        queue: KeyQueue<Q>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown> {
        let Self { name, keys, priority } = *self;
        let source = Arc::clone(&name);
        let sender = queue.clone();
        let forward = async move {
            let reason = Reason { source, group: None, object: None, change: Change::Requested };
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

/// Passes the keys of the owners of an object to `add`. For an update, both states are searched.
pub(crate) fn owners<O: OwnerReferences + Object>(
    event: &Event<O>,
    owner: &OwnerKind,
    owned: OwnerMatch,
    add: impl Fn(ObjectKey),
) {
    let add_owners = |entry: &Entry<O>| {
        let references = entry.owner_references();
        for reference in references.iter().filter(|reference| owner.matches(reference, owned)) {
            let namespace = entry.key().namespace().filter(|_| owner.scope == Scope::Namespaced);
            add(ObjectKey::new(namespace, &reference.name));
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

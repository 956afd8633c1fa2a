//! Where keys come from: events of an informer, mapped to the objects that they concern, and streams.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::Resource;
use kube_informer::{
    Entry, Event, HandlerRegistration, Informer, InformerFactory, Object, ObjectKey, Phase, Scope, handler_fn,
};
use kube_workqueue::{Priority, WorkQueue};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    predicate::Predicate,
    reason::{Change, Reason, Waiting},
};

/// Where the keys of a controller go, with their reasons.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) waiting: Arc<Mutex<Waiting>>,
    /// The first source that has panicked: keys of its are missing.
    pub(crate) broken: watch::Sender<Option<Arc<str>>>,
}

impl Keys {
    /// What was there before the program waits behind what changes.
    pub(crate) fn add(&self, key: ObjectKey, reason: Reason) {
        let priority = match reason.change {
            Change::Listed | Change::Resynced => Priority::LOW,
            _ => Priority::NORMAL,
        };
        // A run that begins in between takes this reason, and begins after what it tells.
        self.waiting.lock().add(key.clone(), reason);
        self.queue.add_with_priority(key, priority);
    }

    fn broke(&self, source: &Arc<str>) {
        self.broken.send_if_modified(|broken| broken.replace(Arc::clone(source)).is_none());
    }
}

/// Something that gives a controller keys. It gives none before it begins, which is when this process leads: what a follower
/// collected would have no bound.
pub(crate) trait Source: Send {
    /// Puts its informer among those of a factory.
    fn join(&self, factory: &InformerFactory);
    /// Starts its informer, and comes when that is cached.
    fn cached(&self) -> BoxFuture<'static, ()>;
    /// Comes when its informer is stopped, with the informer's name: it will tell of nothing any more.
    fn stopped(&self) -> BoxFuture<'static, String>;
    /// Comes when all was queued that is there in the beginning, with what ends the source. If either future is dropped the
    /// source has ended, too.
    fn begin(self: Box<Self>, keys: Keys, stop: CancellationToken) -> BoxFuture<'static, Ending>;
}

/// Comes when nothing more will be queued.
pub(crate) struct Ending(pub(crate) BoxFuture<'static, ()>);

/// Events of an informer for which `keys` names whom they concern.
pub(crate) struct Events<T, F> {
    pub(crate) name: Arc<str>,
    pub(crate) informer: Informer<T>,
    pub(crate) filter: Predicate<T>,
    pub(crate) keys: F,
    /// The objects are those that runs are for.
    pub(crate) are_its_own: bool,
}

impl<T: Object, F> Source for Events<T, F>
where
    F: Fn(&Event<T>, &mut dyn FnMut(ObjectKey)) + Send + 'static,
{
    fn join(&self, factory: &InformerFactory) {
        if let Err(error) = factory.adopt(&self.informer) {
            tracing::warn!(%error, "an informer of a controller does not belong to its manager");
        }
    }

    fn cached(&self) -> BoxFuture<'static, ()> {
        let informer = self.informer.clone();
        let cached = async move {
            informer.start();
            if informer.wait_for_sync(FOR_EVER).await.is_err() {
                std::future::pending::<()>().await; // it is stopped
            }
        };
        cached.boxed()
    }

    fn stopped(&self) -> BoxFuture<'static, String> {
        let mut status = self.informer.reflector_status();
        let name = self.informer.name().to_owned();
        let stopped = async move {
            let _gone = status.wait_for(|status| status.phase == Phase::Stopped).await;
            name
        };
        stopped.boxed()
    }

    fn begin(self: Box<Self>, queue: Keys, stop: CancellationToken) -> BoxFuture<'static, Ending> {
        let Self { name, informer, filter, keys, are_its_own } = *self;
        let begun = async move {
            let registered =
                Registered(Some(informer.add_backpressured_handler(handler_fn(move |event: &Event<T>| {
                    let tell = || {
                        if stop.is_cancelled() || !filter.passes(event) {
                            return;
                        }
                        let object = (!are_its_own).then(|| event.key().clone());
                        let reason =
                            Reason { source: Arc::clone(&name), object, change: Change::from_event(event) };
                        keys(event, &mut |key| queue.add(key, reason.clone()));
                    };
                    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
                        queue.broke(&name);
                    }
                }))));
            registered.shown_all().await;
            Ending(registered.end().boxed())
        };
        begun.boxed()
    }
}

/// A handler that is removed with this, even if nobody waits for it.
struct Registered<T: Object>(Option<HandlerRegistration<T>>);

impl<T: Object> Registered<T> {
    async fn shown_all(&self) {
        let Some(registration) = &self.0 else { return };
        if !registration.wait_for_sync(FOR_EVER).await {
            std::future::pending::<()>().await; // its informer is stopped
        }
    }

    async fn end(mut self) {
        if let Some(registration) = self.0.take() {
            registration.remove().await;
        }
    }
}

impl<T: Object> Drop for Registered<T> {
    fn drop(&mut self) {
        if let Some(registration) = self.0.take() {
            // The first poll removes it.
            let _removed = registration.remove().now_or_never();
        }
    }
}

/// Longer than any program runs.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Keys from anywhere.
pub(crate) struct Asked<S> {
    pub(crate) name: Arc<str>,
    pub(crate) keys: S,
}

impl<S: Stream<Item = ObjectKey> + Send + 'static> Source for Asked<S> {
    fn join(&self, _: &InformerFactory) {}

    fn cached(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn stopped(&self) -> BoxFuture<'static, String> {
        std::future::pending().boxed()
    }

    fn begin(self: Box<Self>, queue: Keys, stop: CancellationToken) -> BoxFuture<'static, Ending> {
        let Self { name, keys } = *self;
        let source = Arc::clone(&name);
        let adding = queue.clone();
        let adds = async move {
            let reason = Reason { source, object: None, change: Change::Requested };
            let mut keys = pin!(keys.take_until(stop.cancelled_owned()));
            while let Some(key) = keys.next().await {
                adding.add(key, reason.clone());
            }
        };
        let task = async move {
            if AssertUnwindSafe(adds).catch_unwind().await.is_err() {
                queue.broke(&name);
            }
        };
        async move { Ending(AbortOnDropHandle::new(tokio::spawn(task)).map(drop).boxed()) }.boxed()
    }
}

/// What an informer's objects are called: their kind, where nobody has named it otherwise.
pub(crate) fn called<T: Object>(informer: &Informer<T>) -> &str {
    let name = informer.name();
    name.split_once(" /").map_or(name, |(kind, _)| kind)
}

/// The objects that own an object now, or owned it before.
pub(crate) fn owners<O: Resource + Object>(
    event: &Event<O>,
    owner: &OwnerKind,
    owned: Owned,
    found: &mut dyn FnMut(ObjectKey),
) {
    let mut tell = |entry: &Entry<O>| {
        let references = entry.meta().owner_references.as_deref().unwrap_or_default();
        for reference in references.iter().filter(|reference| owner.is(reference, owned)) {
            let namespace = entry.key().namespace().filter(|_| owner.scope == Scope::Namespaced);
            found(ObjectKey::new(namespace, &reference.name));
        }
    };
    match event {
        Event::Updated { old, new } => {
            tell(old);
            tell(new);
        }
        Event::Added { object, .. } | Event::Deleted { last: object, .. } => tell(object),
    }
}

/// Whose events lead to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    /// Those of what it controls: who owns without controlling has somebody else to answer for it.
    AsController,
    /// Those of all that refer to it.
    InAnyWay,
}

/// Which references mean an object of the controller's type.
#[derive(Clone, Debug)]
pub(crate) struct OwnerKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) scope: Scope,
}

impl OwnerKind {
    /// Versions of a type are one type.
    fn is(&self, reference: &OwnerReference, owned: Owned) -> bool {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let counts = owned == Owned::InAnyWay || reference.controller == Some(true);
        counts && reference.kind == self.kind && group == self.group
    }
}

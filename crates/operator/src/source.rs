//! Where keys come from: events of an informer, mapped to the objects that they concern, and streams.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::Resource;
use kube_informer::{Entry, Event, Informer, Object, ObjectKey};
use kube_workqueue::{Priority, WorkQueue};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    Predicate, Reason,
    reason::{Change, Waiting},
};

/// Where the keys of a controller go, with their reasons.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) waiting: Arc<Mutex<Waiting>>,
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
}

/// A source before its controller runs.
pub(crate) type Source = Box<dyn FnOnce(Keys, CancellationToken) -> Started + Send>;

/// A source of a controller that runs.
pub(crate) struct Started {
    /// Comes when all was queued that was there in the beginning.
    pub(crate) synced: BoxFuture<'static, ()>,
    /// Ends it: comes when nothing more will be queued.
    pub(crate) end: BoxFuture<'static, ()>,
}

/// Events of this informer for which `keys` names whom they concern.
pub(crate) fn events<T: Object>(
    name: Arc<str>,
    informer: Informer<T>,
    predicate: Predicate<T>,
    keys: impl Fn(&Event<T>, &mut dyn FnMut(ObjectKey)) + Send + 'static,
    names_itself: bool,
) -> Source {
    Box::new(move |queue, stop| {
        let registration = informer.on(move |event| {
            if stop.is_cancelled() || !predicate.passes(event) {
                return;
            }
            let object = (!names_itself).then(|| event.key().clone());
            let reason = Reason { source: Arc::clone(&name), object, change: Change::of(event) };
            keys(event, &mut |key| queue.add(key, reason.clone()));
        });
        informer.start();
        let registration = Arc::new(registration);
        let watched = Arc::clone(&registration);
        let synced = async move {
            let _ended_before = !watched.wait_for_sync(FOR_EVER).await;
        };
        let end = async move {
            if let Some(registration) = Arc::into_inner(registration) {
                registration.remove().await;
            }
        };
        Started { synced: synced.boxed(), end: end.boxed() }
    })
}

/// Longer than any program runs.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Keys from anywhere.
pub(crate) fn stream(name: Arc<str>, keys: impl Stream<Item = ObjectKey> + Send + 'static) -> Source {
    Box::new(move |queue, stop| {
        let task = tokio::spawn(async move {
            let keys = keys.take_until(stop.cancelled_owned());
            let reason = Reason { source: name, object: None, change: Change::Asked };
            let mut keys = pin!(keys);
            while let Some(key) = keys.next().await {
                queue.add(key, reason.clone());
            }
        });
        Started { synced: std::future::ready(()).boxed(), end: task.map(drop).boxed() }
    })
}

/// The objects that control an object now, or controlled it before.
pub(crate) fn owners<O: Resource + Object>(
    event: &Event<O>,
    owner: &OwnerKind,
    found: &mut dyn FnMut(ObjectKey),
) {
    let mut tell = |entry: &Entry<O>| {
        let references = entry.meta().owner_references.as_deref().unwrap_or_default();
        for reference in references.iter().filter(|reference| owner.is(reference)) {
            let namespace = entry.key().namespace().filter(|_| owner.is_namespaced);
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

/// Which references mean an object of the controller's type.
#[derive(Clone, Debug)]
pub(crate) struct OwnerKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) is_namespaced: bool,
}

impl OwnerKind {
    /// Versions of a type are one type; who owns without controlling has somebody else to answer for it.
    fn is(&self, reference: &OwnerReference) -> bool {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        reference.controller == Some(true) && reference.kind == self.kind && group == self.group
    }
}

//! Informers of any type, and the events of their handlers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use kube_informer::{Entry, Event, HandlerRegistration, Informer, InformerStatus, Object, ObjectKey, Uid};
use kube_informer_properties::{Event as HandlerEvent, HandlerId, Key, Mark, Object as Seen};
use parking_lot::Mutex;

use kube_informer_e2e::load::truth::{State, States};

/// Records the events of all handlers in their order. Numbers identify the objects.
#[derive(Default)]
pub(crate) struct Log {
    keys: HashMap<ObjectKey, Key>,
    uids: HashMap<Uid, u64>,
    pub(crate) delivered: Vec<(HandlerId, HandlerEvent)>,
}

/// An informer of any type.
pub(crate) trait Watched: Send {
    fn start(&self);
    fn status(&self) -> InformerStatus;
    /// Returns the objects and the watermark of the cache.
    fn shown(&self) -> (States, Mark);
    fn relist(&self);
    fn join(&self, tell: Tell) -> Box<dyn Joined>;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// A handler of an informer of any type.
pub(crate) trait Joined: Send {
    fn has_synced(&self) -> bool;
    fn remove(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Records the events of a handler.
pub(crate) struct Tell {
    pub(crate) handler: HandlerId,
    pub(crate) log: Arc<Mutex<Log>>,
}

impl<T: Object> Watched for Informer<T> {
    fn start(&self) {
        Informer::start(self);
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn shown(&self) -> (States, Mark) {
        let snapshot = self.lister().snapshot();
        let position = snapshot.watermark();
        let version = position.version.as_ref().and_then(|version| version.to_string().parse().ok());
        let states = snapshot.iter().map(|entry| (entry.key().clone(), state(entry))).collect();
        (states, Mark { epoch: position.epoch, version })
    }

    fn relist(&self) {
        Informer::relist(self);
    }

    fn join(&self, tell: Tell) -> Box<dyn Joined> {
        Box::new(self.on_event(move |event| tell.note(event)))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(Informer::stop(self))
    }
}

impl<T: Object> Joined for HandlerRegistration<T> {
    fn has_synced(&self) -> bool {
        HandlerRegistration::has_synced(self)
    }

    fn remove(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(HandlerRegistration::remove(*self))
    }
}

impl Tell {
    fn note<T: Object>(&self, event: &Event<T>) {
        let mut log = self.log.lock();
        let mut seen = |entry: &Entry<T>| log.seen(entry.key(), &state(entry));
        let delivered = match event {
            Event::Added { object, initial } => {
                HandlerEvent::Added { object: seen(object), initial: *initial }
            }
            Event::Updated { old, new } => HandlerEvent::Updated { old: seen(old), new: seen(new) },
            Event::Deleted { last, removal } => HandlerEvent::Deleted { last: seen(last), removal: *removal },
        };
        log.delivered.push((self.handler, delivered));
    }
}

fn state<T: Object>(entry: &Entry<T>) -> State {
    State::of(entry.id.uid.clone(), entry.id.version.clone(), &*entry.object)
}

impl Log {
    /// Converts an object to the type of the judge.
    pub(crate) fn seen(&mut self, key: &ObjectKey, state: &State) -> Seen {
        let (keys, uids) = (self.keys.len() as Key, self.uids.len() as u64);
        Seen {
            key: *self.keys.entry(key.clone()).or_insert(keys),
            uid: *self.uids.entry(state.uid.clone()).or_insert(uids),
            version: state.version.to_string().parse().unwrap_or_default(),
            value: state.write,
        }
    }
}

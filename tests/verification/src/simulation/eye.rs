//! The eyes on one informer: what a cache shows, as plain data, and a witness of each write of the store.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::StreamExt;
use kube_informer::{Entry, Event, EventStream, Index, Informer, Lister, Snapshot};
use parking_lot::Mutex;

use super::{
    forms::Form,
    history::{Desk, Seen},
    spy::Spy,
    things::number,
};
use crate::properties::{self, CacheView, Key, Mark, Object, Observation, Violation};

/// Looks into the cache of an informer and tells its desk.
pub(super) struct Eye<T> {
    lister: Lister<T>,
    by_key: Index<T, Key>,
    even: Index<T, bool>,
    desk: Arc<Mutex<Desk>>,
}

impl<T> Clone for Eye<T> {
    fn clone(&self) -> Self {
        let (lister, desk) = (self.lister.clone(), Arc::clone(&self.desk));
        Self { lister, by_key: self.by_key.clone(), even: self.even.clone(), desk }
    }
}

impl<T: Form> Eye<T> {
    pub(super) fn new(informer: &Informer<T>, desk: Arc<Mutex<Desk>>) -> Self {
        let key = |object: &T| {
            let id = kube_informer::Object::id(object);
            [number(id.key.namespace(), id.key.name())]
        };
        Self {
            lister: informer.lister(),
            by_key: informer.add_index("key", key).expect("the first of this name"),
            even: informer
                .add_index("even", |object: &T| [object.is_even()])
                .expect("the first of this name"),
            desk,
        }
    }

    pub(super) fn desk(&self) -> &Arc<Mutex<Desk>> {
        &self.desk
    }

    pub(super) fn object(&self, entry: &Entry<T>) -> Object {
        let key = entry.key().as_ref();
        if entry.is_marked() == Some(false) {
            let how = format!("{key:?} is seen before it is transformed");
            self.desk.lock().broken(Violation { property: 17, how });
        }
        Object {
            key: number(key.namespace(), key.name()),
            uid: self.desk.lock().uids.number(&entry.id.uid.to_string()),
            version: entry.id.version.to_string().parse().unwrap_or(0),
            value: entry.value(),
        }
    }

    pub(super) fn event(&self, event: &Event<T>) -> properties::Event {
        match event {
            Event::Added { object, initial } => {
                properties::Event::Added { object: self.object(object), initial: *initial }
            }
            Event::Updated { old, new } => {
                properties::Event::Updated { old: self.object(old), new: self.object(new) }
            }
            Event::Deleted { last, final_state_unknown } => {
                properties::Event::Deleted { last: self.object(last), unknown: *final_state_unknown }
            }
        }
    }

    /// What a handler finds that looks now.
    pub(super) fn view(&self, key: Key) -> CacheView {
        let snapshot = self.lister.snapshot();
        let (namespace, name) = super::things::place(key);
        let cached = snapshot.get(kube_informer::KeyRef::new(Some(namespace), name));
        let cached = cached.map(|entry| self.object(entry));
        let indexed = self.by_key.at(&snapshot).and_then(|index| index.iter(&key).next());
        let indexed = indexed.map(|entry| self.object(entry));
        CacheView { cached, indexed, mark: mark(&snapshot), synced: snapshot.position().synced }
    }

    /// All objects of a snapshot that pass a test, in the order of keys.
    fn objects(&self, entries: impl Iterator<Item = Entry<T>>) -> Vec<Object> {
        let mut objects: Vec<Object> = entries.map(|entry| self.object(&entry)).collect();
        objects.sort_unstable();
        objects
    }

    /// The store was written to, and nobody has been told of it yet.
    fn written(&self, snapshot: &Snapshot<T>) {
        let (cause, exact) = self.desk.lock().cause(self.lister.stats());
        let stale = snapshot.iter().filter(|entry| snapshot.is_stale(entry.key()));
        let seen = Seen {
            objects: self.objects(snapshot.iter().cloned()),
            stale: stale.map(|entry| self.object(entry).key).collect(),
            mark: mark(snapshot),
            synced: snapshot.position().synced,
            cause,
            exact,
        };
        self.desk.lock().written(seen);
    }

    /// The write is judged, which has changed this.
    fn changed(&self, events: &[Event<T>]) {
        let events: Vec<properties::Event> = events.iter().map(|event| self.event(event)).collect();
        self.desk.lock().changed(&events);
    }

    /// The last write is judged, if it was not yet: it has changed no object.
    pub(super) fn look(&self) {
        self.desk.lock().changed(&[]);
    }

    /// Asks an index, and finds the same without it.
    pub(super) fn query(&self, even: bool) {
        let snapshot = self.lister.snapshot();
        let index = self.even.at(&snapshot).expect("the index was there before the start");
        let found = self.objects(index.iter(&even).cloned());
        let expected = self.even_objects(even);
        self.desk.lock().observe(Observation::Query { expected: &expected, found: &found });
    }

    /// What a filtering handler should know.
    pub(super) fn even_objects(&self, even: bool) -> Vec<Object> {
        let snapshot = self.lister.snapshot();
        self.objects(snapshot.iter().filter(|entry| entry.is_even() == even).cloned())
    }
}

fn mark<T: kube_informer::Object>(snapshot: &Snapshot<T>) -> Mark {
    let position = snapshot.position();
    let version = position.version.as_ref().and_then(|version| version.to_string().parse().ok());
    Mark { epoch: position.epoch, version }
}

/// Is woken by each write of the store, and again when the informer tells its handlers of it: so that no two writes are
/// seen as one, and each is seen before any handler is told of it.
pub(super) struct Witness<T: Form> {
    eye: Eye<T>,
    writes: Arc<Spy>,
    changes: Mutex<Option<EventStream<T>>>,
}

impl<T: Form> Witness<T> {
    /// The first member of an informer that has not been started.
    pub(super) fn new(informer: &Informer<T>, eye: Eye<T>) -> Arc<Self> {
        let (lister, looks) = (informer.lister(), eye.clone());
        let mut is_first = true;
        let writes = async move {
            let written = |snapshot: &Snapshot<T>| {
                if !std::mem::replace(&mut is_first, false) {
                    looks.written(snapshot);
                }
                false
            };
            lister.wait_for(Duration::MAX, written).await;
        };
        let changes = Mutex::new(Some(informer.events().named("witness")));
        let witness = Arc::new(Self { eye, writes: Spy::new(writes), changes });
        witness.read_changes();
        witness
    }

    /// What waits and this hold each other until this.
    pub(super) fn end(&self) {
        self.writes.end();
        self.changes.lock().take();
    }

    fn read_changes(self: &Arc<Self>) {
        // What is taken already is ending.
        let Some(mut changes) = self.changes.try_lock() else { return };
        let Some(open) = &mut *changes else { return };
        let waker = Waker::from(Arc::new(AtChange(Arc::clone(self))));
        let mut events = Vec::new();
        while let Poll::Ready(Some(event)) = open.poll_next_unpin(&mut Context::from_waker(&waker)) {
            events.push(event);
        }
        self.eye.changed(&events);
    }
}

struct AtChange<T: Form>(Arc<Witness<T>>);

impl<T: Form> Wake for AtChange<T> {
    fn wake(self: Arc<Self>) {
        self.0.read_changes();
    }
}

/// Shows the desk each phase of the reflector.
pub(super) fn follow<T: Form>(informer: &Informer<T>, desk: Arc<Mutex<Desk>>) -> Arc<Spy> {
    let mut status = informer.reflector_status();
    Spy::new(async move {
        while status.changed().await.is_ok() {
            let phase = status.borrow_and_update().phase;
            desk.lock().does(phase);
        }
    })
}

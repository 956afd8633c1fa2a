//! Observers of one informer: the content of the cache as plain data, and an observer of each write of
//! the store.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use futures_util::StreamExt;
use kube_informer::{Entry, Event, EventStream, Index, Informer, Lister, Snapshot};
use parking_lot::Mutex;

use super::{
    eager_task::EagerTask,
    history::{Recorder, WriteEffect},
    object_forms::ObjectForm,
    opaque_versions::number_of,
    workload::number,
};
use crate::properties::{self, CacheView, Key, Mark, Object, Observation, Violation};

/// Reads the cache of an informer and reports it to the recorder.
pub(super) struct CacheObserver<T> {
    lister: Lister<T>,
    by_key: Index<T, Key>,
    even: Index<T, bool>,
    recorder: Arc<Mutex<Recorder>>,
}

impl<T> Clone for CacheObserver<T> {
    fn clone(&self) -> Self {
        let (lister, recorder) = (self.lister.clone(), Arc::clone(&self.recorder));
        Self { lister, by_key: self.by_key.clone(), even: self.even.clone(), recorder }
    }
}

impl<T: ObjectForm> CacheObserver<T> {
    pub(super) fn new(informer: &Informer<T>, recorder: Arc<Mutex<Recorder>>) -> Self {
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
            recorder,
        }
    }

    pub(super) fn recorder(&self) -> &Arc<Mutex<Recorder>> {
        &self.recorder
    }

    pub(super) fn object(&self, entry: &Entry<T>) -> Object {
        let key = entry.key().as_ref();
        if entry.is_marked() == Some(false) {
            let how = format!("{key:?} is seen before it is transformed");
            self.recorder.lock().broken(Violation { property: 17, how });
        }
        Object {
            key: number(key.namespace(), key.name()),
            uid: self.recorder.lock().uids.number(&entry.id.uid.to_string()),
            version: number_of(&entry.id.version).unwrap_or(0),
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
            Event::Deleted { last, removal } => {
                properties::Event::Deleted { last: self.object(last), removal: *removal }
            }
        }
    }

    /// Returns the state of the cache for a handler that reads it now.
    pub(super) fn view(&self, key: Key) -> CacheView {
        let snapshot = self.lister.snapshot();
        let (namespace, name) = super::workload::place(key);
        let cached = snapshot.get(kube_informer::KeyRef::new(Some(namespace), name));
        let cached = cached.map(|entry| self.object(entry));
        let indexed = self.by_key.at(&snapshot).and_then(|index| index.iter(&key).next());
        let indexed = indexed.map(|entry| self.object(entry));
        let recorder = self.recorder.lock();
        // The cache does not move an opaque watermark. The recorder has seen each write before.
        let mark = if recorder.has_opaque_versions() { recorder.mark() } else { mark(&snapshot) };
        CacheView { cached, indexed, mark, synced: snapshot.watermark().synced }
    }

    /// All objects of a snapshot that pass a test, in the order of keys.
    fn objects(&self, entries: impl Iterator<Item = Entry<T>>) -> Vec<Object> {
        let mut objects: Vec<Object> = entries.map(|entry| self.object(&entry)).collect();
        objects.sort_unstable();
        objects
    }

    /// Records a write of the store before the handlers receive it.
    fn written(&self, snapshot: &Snapshot<T>) {
        for entry in snapshot.iter().filter(|entry| !self.finds(entry)) {
            self.lookup_is_wrong(entry);
        }
        let mark = mark(snapshot);
        let (cause, content) = self.recorder.lock().cause(self.lister.stats(), mark.version);
        let stale = snapshot.iter().filter(|entry| snapshot.is_stale(entry.key()));
        let seen = WriteEffect {
            objects: self.objects(snapshot.iter().cloned()),
            stale: stale.map(|entry| self.object(entry).key).collect(),
            mark,
            synced: snapshot.watermark().synced,
            cause,
            content,
        };
        self.recorder.lock().written(seen);
    }

    /// Returns whether a lookup by key returns the object of this entry.
    fn finds(&self, entry: &Entry<T>) -> bool {
        self.lister.get_by_key(entry.key()).is_some_and(|found| Arc::ptr_eq(&found, &entry.object))
    }

    fn lookup_is_wrong(&self, entry: &Entry<T>) {
        let how = format!("a lookup of {} returns another state than the snapshot", entry.id);
        self.recorder.lock().broken(Violation { property: 6, how });
    }

    /// The write is judged, which has changed this.
    fn changed(&self, events: &[Event<T>]) {
        let deleted = events.iter().filter(|event| matches!(event, Event::Deleted { .. })).map(Event::entry);
        for entry in deleted.filter(|entry| self.finds(entry)) {
            self.lookup_is_wrong(entry);
        }
        let events: Vec<properties::Event> = events.iter().map(|event| self.event(event)).collect();
        self.recorder.lock().changed(&events);
    }

    /// Records the last write if it is not recorded, because it changed no object.
    pub(super) fn look(&self) {
        self.recorder.lock().changed(&[]);
    }

    /// Queries an index and compares the result with a search without the index.
    pub(super) fn query(&self, even: bool) {
        let snapshot = self.lister.snapshot();
        let index = self.even.at(&snapshot).expect("the index was added before the start");
        let found = self.objects(index.iter(&even).cloned());
        let expected = self.even_objects(even);
        self.recorder.lock().observe(Observation::Query { expected: &expected, found: &found });
    }

    /// Returns the expected objects of a filtering handler.
    pub(super) fn even_objects(&self, even: bool) -> Vec<Object> {
        let snapshot = self.lister.snapshot();
        self.objects(snapshot.iter().filter(|entry| entry.is_even() == even).cloned())
    }
}

fn mark<T: kube_informer::Object>(snapshot: &Snapshot<T>) -> Mark {
    let position = snapshot.watermark();
    let version = position.version.as_ref().and_then(number_of);
    Mark { epoch: position.epoch, version }
}

/// Wakes at each write of the store, and when the informer passes the write to its handlers. Each write
/// is therefore observed separately, and before any handler receives it.
pub(super) struct WriteObserver<T: ObjectForm> {
    observer: CacheObserver<T>,
    writes: Arc<EagerTask>,
    changes: Mutex<Option<EventStream<T>>>,
}

impl<T: ObjectForm> WriteObserver<T> {
    /// The first member of an informer that has not been started.
    pub(super) fn new(informer: &Informer<T>, observer: CacheObserver<T>) -> Arc<Self> {
        let (lister, looks) = (informer.lister(), observer.clone());
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
        let changes = Mutex::new(Some(informer.events().named("observer")));
        let writes = Arc::new(Self { observer, writes: EagerTask::new(writes), changes });
        writes.read_changes();
        writes
    }

    /// Breaks the reference cycle between this value and its future.
    pub(super) fn end(&self) {
        self.writes.end();
        self.changes.lock().take();
    }

    fn read_changes(self: &Arc<Self>) {
        // If the lock is held, the future is being dropped.
        let Some(mut changes) = self.changes.try_lock() else { return };
        let Some(open) = &mut *changes else { return };
        let waker = Waker::from(Arc::new(WriteHandler(Arc::clone(self))));
        let mut events = Vec::new();
        while let Poll::Ready(Some(event)) = open.poll_next_unpin(&mut Context::from_waker(&waker)) {
            events.push(event);
        }
        self.observer.changed(&events);
    }
}

struct WriteHandler<T: ObjectForm>(Arc<WriteObserver<T>>);

impl<T: ObjectForm> Wake for WriteHandler<T> {
    fn wake(self: Arc<Self>) {
        self.0.read_changes();
    }
}

/// Reports each phase of the reflector to the recorder.
pub(super) fn follow<T: ObjectForm>(
    informer: &Informer<T>,
    recorder: Arc<Mutex<Recorder>>,
) -> Arc<EagerTask> {
    let mut status = informer.reflector_status();
    EagerTask::new(async move {
        while status.changed().await.is_ok() {
            let phase = status.borrow_and_update().phase;
            recorder.lock().does(phase);
        }
    })
}

//! Connects a store to a simulated server. The server repeats events, sends incomplete lists, and
//! restores an older state. After each write, the checkers of the properties judge the store.

mod common;

use std::collections::BTreeMap;

use common::{Thing, begin, end, id, thing};
use kube_informer_properties::{
    CacheState, Cause, Content, Event as CheckerEvent, Judge, Key, Mark, Object, Observation,
};
use kube_object::{Delta, Entry, Event, Listed, ObjectId, ResourceVersion};
use kube_store::{Index, Store};
use proptest::prelude::*;

const KEYS: Key = 3;

/// The version before the first write.
const FIRST: u64 = 10;

#[derive(Debug, Clone)]
enum Step {
    Put(Key),
    /// Writes a state that clients cannot decode.
    PutUndecodable(Key),
    Delete(Key),
    /// Delivers this number of new events. Consecutive events with different keys form one batch.
    Deliver(usize),
    /// Delivers an old event again, counted back from the last delivered event. Only events of
    /// cached objects are repeated, because a reflector drops other repeats by its position.
    Repeat(usize),
    /// Lists all objects, followed by this number of events. An incomplete list lacks one item.
    List {
        events_after: usize,
        complete: bool,
    },
    Bookmark,
    /// The server loses this number of writes. Then the store receives a list with `without_reuse`.
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..KEYS).prop_map(Step::Put),
        1 => (0..KEYS).prop_map(Step::PutUndecodable),
        3 => (0..KEYS).prop_map(Step::Delete),
        6 => (1..4usize).prop_map(Step::Deliver),
        2 => (0..4usize).prop_map(Step::Repeat),
        2 => (0..3usize, prop::bool::weighted(0.8))
            .prop_map(|(events_after, complete)| Step::List { events_after, complete }),
        1 => Just(Step::Bookmark),
        1 => (1..4usize).prop_map(Step::Restore),
    ]
}

/// A write on the server.
#[derive(Debug, Clone, Copy)]
struct Write {
    object: Object,
    /// Whether the object exists after the write.
    exists: bool,
    decodable: bool,
}

/// A simulated server, and a store that receives its events.
struct PropertyRun {
    judge: Judge,
    store: Store<Thing>,
    index: Index<Thing, Key>,
    /// The history of the server. The version after `n` writes is `FIRST + n`.
    log: Vec<Write>,
    /// The number of all writes, including lost writes.
    written: u64,
    /// The number of writes in `log` that were delivered.
    sent: usize,
    /// Whether the last list was complete.
    exact: bool,
}

impl PropertyRun {
    fn new() -> Self {
        let store = Store::new();
        let index = store.add_index("key", |thing: &Thing| [Key::from(thing.values[0])]).expect("the first");
        let judge = Judge::new();
        Self { judge, store, index, log: Vec::new(), written: 0, sent: 0, exact: false }
    }

    fn observe(&mut self, observation: Observation<'_>) {
        self.judge.observe(observation).unwrap_or_else(|broken| panic!("{broken}"));
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put(key) => self.put(key, true),
            Step::PutUndecodable(key) => self.put(key, false),
            Step::Delete(key) => self.delete(key),
            Step::Deliver(events) => self.deliver(events),
            Step::Repeat(before) => {
                let Some(write) = self.sent.checked_sub(1 + before).map(|at| self.log[at]) else { return };
                if self.store.get(&identity(&write.object).key).is_some() {
                    self.apply(vec![event(&write)], Cause::Changes);
                }
            }
            Step::List { events_after, complete } => self.list(events_after, complete, false),
            Step::Bookmark => {
                self.deliver(usize::MAX);
                self.apply(vec![Delta::Bookmark(version(self.log.len()).into())], Cause::Changes);
            }
            Step::Restore(lost) => self.restore(lost),
        }
    }

    /// Returns the last write of each object that exists.
    fn current(&self) -> BTreeMap<Key, Write> {
        let last = self.log.iter().map(|write| (write.object.key, *write));
        let mut current: BTreeMap<Key, Write> = last.collect();
        current.retain(|_, write| write.exists);
        current
    }

    fn put(&mut self, key: Key, decodable: bool) {
        self.written += 1;
        let uid = self.current().get(&key).map_or(self.written, |before| before.object.uid);
        let object = Object { key, uid, version: version(self.log.len() + 1), value: self.written };
        self.log.push(Write { object, exists: true, decodable });
        self.observe(Observation::Written { object, decodable });
    }

    fn delete(&mut self, key: Key) {
        let Some(before) = self.current().get(&key).copied() else { return };
        self.written += 1;
        let version = version(self.log.len() + 1);
        let object = Object { version, value: self.written, ..before.object };
        self.log.push(Write { object, exists: false, ..before });
        self.observe(Observation::Deleted { key, version });
    }

    fn deliver(&mut self, most: usize) {
        let mut batch: BTreeMap<Key, Write> = BTreeMap::new();
        for _ in 0..most.min(self.log.len() - self.sent.min(self.log.len())) {
            let write = self.log[self.sent];
            if batch.contains_key(&write.object.key) {
                self.apply_changes(&std::mem::take(&mut batch));
            }
            batch.insert(write.object.key, write);
            self.sent += 1;
        }
        self.apply_changes(&batch);
    }

    fn apply_changes(&mut self, batch: &BTreeMap<Key, Write>) {
        let mut writes: Vec<&Write> = batch.values().collect();
        writes.sort_unstable_by_key(|write| write.object.version);
        self.apply(writes.into_iter().map(event).collect(), Cause::Changes);
    }

    /// Applies the parts of a list in separate batches.
    fn list(&mut self, events_after: usize, complete: bool, without_reuse: bool) {
        let items = self.current().into_values().skip(usize::from(!complete));
        let page = items.map(|write| {
            if write.decodable {
                Listed::Object(entry(&write.object))
            } else {
                Listed::Undecodable(identity(&write.object))
            }
        });
        let page = Delta::Page(page.collect());
        self.sent = self.log.len();
        for _ in 0..events_after {
            self.put(self.written as Key % KEYS, true);
        }
        self.apply(vec![begin(without_reuse)], Cause::Changes);
        self.apply(vec![page], Cause::Changes);
        while self.sent < self.log.len() {
            let write = self.log[self.sent];
            self.sent += 1;
            self.apply(vec![event(&write)], Cause::Changes);
        }
        self.exact = complete;
        self.apply(
            vec![end(&version(self.sent).to_string(), complete)],
            Cause::Relist { fresh: without_reuse },
        );
    }

    fn restore(&mut self, lost: usize) {
        self.log.truncate(self.log.len().saturating_sub(lost));
        self.observe(Observation::Restored { version: version(self.log.len()) });
        self.exact = false;
        self.list(0, true, true);
    }

    fn apply(&mut self, batch: Vec<Delta<Thing>>, cause: Cause) {
        let events: Vec<CheckerEvent> = self.store.apply(batch).iter().map(checker_event).collect();
        self.store.check();
        let snapshot = self.store.snapshot();
        let mut objects: Vec<Object> = snapshot.iter().map(object).collect();
        objects.sort_unstable();
        let stale = snapshot.iter().filter(|entry| snapshot.is_stale(entry.key()));
        let mut stale: Vec<Key> = stale.map(|entry| object(entry).key).collect();
        stale.sort_unstable();
        let position = snapshot.watermark();
        let number = |version: &ResourceVersion| version.to_string().parse().expect("a number");
        let mark = Mark { epoch: position.epoch, version: position.version.as_ref().map(number) };
        let content = if self.exact { Content::AtWatermark } else { Content::Unknown };
        self.observe(Observation::Cache(CacheState {
            objects: &objects,
            stale: &stale,
            mark,
            events: Some(&events),
            cause,
            content,
        }));
        let found = (0..KEYS).flat_map(|key| self.index.get(&key));
        let found: Vec<Object> = found.map(|thing| object_of(&thing)).collect();
        self.observe(Observation::Query { expected: &objects, found: &found });
    }
}

/// Returns the version of the server after this number of writes.
fn version(writes: usize) -> u64 {
    FIRST + writes as u64
}

fn identity(object: &Object) -> ObjectId {
    id(&format!("k{}", object.key), &object.uid.to_string(), &object.version.to_string())
}

fn entry(object: &Object) -> Entry<Thing> {
    let value = u8::try_from(object.value).expect("a test case has few writes");
    thing(identity(object), vec![object.key as u8, value])
}

fn event(write: &Write) -> Delta<Thing> {
    match (write.exists, write.decodable) {
        (true, true) => Delta::Put(entry(&write.object)),
        (true, false) => Delta::Undecodable(identity(&write.object)),
        (false, decodable) => {
            Delta::Remove { id: identity(&write.object), last: decodable.then(|| entry(&write.object)) }
        }
    }
}

fn object_of(thing: &Thing) -> Object {
    let number = |text: String| text.parse().expect("a number");
    let (uid, version) = (number(thing.id.uid.to_string()), number(thing.id.version.to_string()));
    Object { key: thing.values[0].into(), uid, version, value: thing.values[1].into() }
}

fn object(entry: &Entry<Thing>) -> Object {
    object_of(&entry.object)
}

fn checker_event(event: &Event<Thing>) -> CheckerEvent {
    match event {
        Event::Added { object: new, initial } => {
            CheckerEvent::Added { object: object(new), initial: *initial }
        }
        Event::Updated { old, new } => CheckerEvent::Updated { old: object(old), new: object(new) },
        Event::Deleted { last, removal } => CheckerEvent::Deleted { last: object(last), removal: *removal },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Properties 1, 2, 3, 4, 13, 16 and 18, with their checkers.
    #[test]
    fn store_satisfies_properties_for_any_history(steps in prop::collection::vec(step(), 0..40)) {
        let mut run = PropertyRun::new();
        run.list(0, true, false);
        steps.iter().for_each(|step| run.step(step));
        run.list(0, true, false);
        run.deliver(usize::MAX);
        run.observe(Observation::Quiet);
    }
}

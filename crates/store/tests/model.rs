//! Compares the store with a naive model. Each history produces the same events and contents in
//! both, and a snapshot never changes.

mod common;
#[path = "common/naive.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};

use common::{Thing, begin, end, id, thing};
use kube_object::{
    CacheProbe, Delta, Digest, Entry, Event, KeyRef, Listed, Object, ObjectId, ObjectIdRef, ObjectKey,
};
use kube_store::{Index, LabelSelector, Snapshot, Store};
use naive::Naive;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<Delta<Thing>>),
    /// Lists the cached object with this key again. The last value is `without_reuse`.
    Relist(ObjectKey, RelistedValue, bool),
    HoldSnapshot,
    ReleaseSnapshots,
    AddIndex,
}

/// The value of a cached object in a relist.
#[derive(Debug, Clone, Copy)]
enum RelistedValue {
    /// The cached `Arc`.
    Same,
    /// A different value with this digest.
    New(Option<Digest>),
}

fn digests() -> impl Strategy<Value = Option<Digest>> {
    prop::option::of((1u64..3).prop_map(Digest::new))
}

fn ids() -> impl Strategy<Value = ObjectId> {
    let keys = prop::sample::select(vec!["a/x", "a/y", "a/z", "b/x", "b/y", "x", "y"]);
    let uids = prop::sample::select(vec!["one", "one", "one", "two", ""]);
    let versions = prop_oneof![8 => (1u32..30).prop_map(|v| v.to_string()), 1 => Just(String::new()), 1 => Just("0".into()), 1 => Just("odd".into())];
    (keys, uids, versions).prop_map(|(key, uid, version)| id(key, uid, &version))
}

fn entries() -> impl Strategy<Value = Entry<Thing>> {
    (ids(), prop::collection::vec(0u8..4, 0..4), digests())
        .prop_map(|(id, values, digest)| Entry { digest, ..thing(id, values) })
}

fn deltas() -> impl Strategy<Value = Delta<Thing>> {
    let listed = prop_oneof![
        5 => entries().prop_map(Listed::Object),
        1 => ids().prop_map(Listed::Undecodable),
    ];
    prop_oneof![
        10 => entries().prop_map(Delta::Put),
        2 => ids().prop_map(|id| Delta::Remove { id, last: None }),
        2 => ids().prop_map(|id| Delta::Remove { last: Some(thing(id.clone(), vec![])), id }),
        2 => ids().prop_map(Delta::Undecodable),
        1 => ids().prop_map(|id| Delta::Bookmark(id.version)),
        1 => Just(Delta::Clear),
        2 => any::<bool>().prop_map(begin),
        4 => prop::collection::vec(listed, 0..8).prop_map(Delta::Page),
        3 => (ids(), prop::bool::weighted(0.7)).prop_map(|(id, complete)| end(&id.version.to_string(), complete)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => prop::collection::vec(deltas(), 1..6).prop_map(Step::Apply),
        1 => (ids(), any::<bool>()).prop_map(|(id, lost)| Step::Relist(id.key, RelistedValue::Same, lost)),
        2 => (ids(), digests(), any::<bool>())
            .prop_map(|(id, digest, lost)| Step::Relist(id.key, RelistedValue::New(digest), lost)),
        2 => Just(Step::HoldSnapshot),
        1 => Just(Step::ReleaseSnapshots),
        1 => Just(Step::AddIndex),
    ];
    prop::collection::vec(step, 0..40)
}

/// The complete contents of a snapshot or of the model.
#[derive(Debug, PartialEq)]
struct Contents {
    objects: BTreeMap<ObjectKey, (Entry<Thing>, bool)>,
    by_value: Option<BTreeMap<u8, BTreeSet<ObjectKey>>>,
    by_namespace: BTreeMap<String, BTreeSet<ObjectKey>>,
    by_label: BTreeSet<ObjectKey>,
    watermark: kube_store::Watermark,
}

fn keys<'a>(entries: impl Iterator<Item = &'a Entry<Thing>>) -> BTreeSet<ObjectKey> {
    let all: Vec<ObjectKey> = entries.map(|entry| entry.key().clone()).collect();
    let distinct: BTreeSet<ObjectKey> = all.iter().cloned().collect();
    assert_eq!(all.len(), distinct.len(), "an object is listed twice");
    distinct
}

fn label_selector() -> LabelSelector {
    LabelSelector::everything().equals("name", "x")
}

fn read(snapshot: &Snapshot<Thing>, index: Option<&Index<Thing, u8>>) -> Contents {
    let objects: BTreeMap<_, _> = (snapshot.iter())
        .map(|entry| (entry.key().clone(), (entry.clone(), snapshot.is_stale(entry.key()))))
        .collect();
    for (key, (entry, _)) in &objects {
        assert_eq!(snapshot.get(key), Some(entry));
    }
    assert_eq!(objects.len(), snapshot.len());
    let by_value = index.and_then(|index| index.at(snapshot)).map(|at| {
        at.values().for_each(|value| assert_eq!(at.iter(value).count(), at.len(value)));
        at.values().map(|value| (*value, keys(at.iter(value)))).collect()
    });
    let by_namespace = ["a", "b"].map(|name| (name.to_owned(), keys(snapshot.namespace(name))));
    let by_label = snapshot.list(&label_selector()).iter().map(|object| object.id.key.clone()).collect();
    let by_namespace = by_namespace.into_iter().collect();
    Contents { objects, by_value, by_namespace, by_label, watermark: snapshot.watermark().clone() }
}

/// Returns the contents of the model, for a comparison with [`read`].
fn expected(naive: &Naive, indexed: bool) -> Contents {
    let entries = || naive.objects.values().map(|(entry, _)| entry);
    let having = |value: u8| keys(entries().filter(|entry| entry.values.contains(&value)));
    let by_value = indexed
        .then(|| (0..4).map(|value| (value, having(value))).filter(|(_, keys)| !keys.is_empty()).collect());
    let in_namespace = |name: &str| keys(entries().filter(|entry| entry.key().namespace() == Some(name)));
    Contents {
        objects: naive.objects.clone(),
        by_value,
        by_namespace: ["a", "b"].map(|name| (name.to_owned(), in_namespace(name))).into(),
        by_label: keys(entries().filter(|entry| entry.key().name() == "x")),
        watermark: naive.watermark.clone(),
    }
}

/// Applies an event to a mirror of the store that depends only on events.
fn replay(mirror: &mut BTreeMap<ObjectKey, Entry<Thing>>, event: &Event<Thing>) {
    let key = event.key().clone();
    match event {
        Event::Added { object, .. } => assert_eq!(mirror.insert(key, object.clone()), None),
        Event::Updated { old, new } => assert_eq!(mirror.insert(key, new.clone()).as_ref(), Some(old)),
        Event::Deleted { last, .. } => {
            let removed = mirror.remove(&key).expect("a deleted object is in the mirror");
            assert!(!removed.id.uid.differs_from(&last.id.uid));
        }
    }
}

#[derive(Default)]
struct ModelRun {
    store: Store<Thing>,
    naive: Naive,
    index: Option<Index<Thing, u8>>,
    mirror: BTreeMap<ObjectKey, Entry<Thing>>,
    /// The held snapshots, each with its contents at the start.
    held: Vec<(Snapshot<Thing>, Contents)>,
}

impl ModelRun {
    fn step(&mut self, step: Step) {
        match step {
            Step::Apply(batch) => self.apply(batch),
            Step::Relist(key, value, without_reuse) => {
                if let Some(held) = self.store.snapshot().get(&key).cloned() {
                    let entry = match value {
                        RelistedValue::Same => held,
                        RelistedValue::New(digest) => Entry { digest, ..thing(held.id.clone(), vec![1]) },
                    };
                    let page = vec![Listed::Object(entry)];
                    self.apply(vec![begin(without_reuse), Delta::Page(page), end("40", false)]);
                }
            }
            Step::HoldSnapshot => {
                let snapshot = self.store.snapshot();
                let contents = read(&snapshot, self.index.as_ref());
                self.held.push((snapshot, contents));
            }
            Step::ReleaseSnapshots => {
                self.check_held();
                self.held.clear();
            }
            Step::AddIndex => {
                if self.index.is_none() {
                    let added = self.store.add_index("values", |thing: &Thing| thing.values.clone());
                    self.index = Some(added.expect("the only index"));
                }
            }
        }
        self.check();
    }

    fn apply(&mut self, batch: Vec<Delta<Thing>>) {
        let events = match self.store.begin_large_write(&batch, 2) {
            Some(mut write) => {
                let events = write.prepare();
                assert!(write.publish());
                events
            }
            None => self.store.apply(batch.clone()),
        };
        assert_eq!(events, self.naive.apply(batch));
        events.iter().for_each(|event| replay(&mut self.mirror, event));
    }

    fn check(&self) {
        self.store.check();
        let contents = read(&self.store.snapshot(), self.index.as_ref());
        assert_eq!(contents, expected(&self.naive, self.index.is_some()));
        assert!(contents.objects.iter().map(|(key, (entry, _))| (key, entry)).eq(self.mirror.iter()));
        assert_eq!(self.store.stats().repeats, self.naive.repeats);
        contents.objects.values().for_each(|(entry, stale)| self.check_probe(entry, *stale));
    }

    fn check_probe(&self, entry: &Entry<Thing>, stale: bool) {
        let id = Object::id(&*entry.object);
        for digest in [None, Some(Digest::new(1)), Some(Digest::new(2))] {
            let unchanged = self.store.find_unchanged(&id, digest);
            let differs = digest.is_some() && entry.digest.is_some() && entry.digest != digest;
            let expected = Some(entry).filter(|entry| !stale && !entry.id.version.is_opaque() && !differs);
            assert_eq!(unchanged.as_ref(), expected);
        }
        assert_eq!(self.store.find_unchanged(&ObjectIdRef { version: 99.into(), ..id.clone() }, None), None);
        assert_eq!(
            self.store.find_unchanged(&ObjectIdRef { key: KeyRef::new(None, "absent"), ..id }, None),
            None
        );
    }

    fn check_held(&self) {
        for (snapshot, contents) in &self.held {
            let index = self.index.as_ref().filter(|_| contents.by_value.is_some());
            assert_eq!(read(snapshot, index), *contents, "a snapshot changed");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Properties 3, 4, 7, 13, 14, 16 and 18, for any history.
    #[test]
    fn any_history_matches_naive_model(steps in steps()) {
        let mut run = ModelRun::default();
        steps.into_iter().for_each(|step| run.step(step));
        run.check_held();
    }
}

/// The store has several chunks at each level. Some writes are in place, and some copy chunks.
#[test]
fn held_snapshots_survive_thousands_of_writes() {
    let mut run = ModelRun::default();
    run.step(Step::AddIndex);
    let mut random = 7u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    for version in 1..=60u32 {
        let batch = (0..next(300)).map(|_| {
            let id = id(&format!("a/{}", next(3000)), "one", &(version * 1000 + next(1000)).to_string());
            match next(4) {
                0 => Delta::Remove { id, last: None },
                _ => Delta::Put(thing(id, vec![next(4) as u8, next(4) as u8])),
            }
        });
        run.apply(batch.collect());
        match next(5) {
            0 => run.step(Step::HoldSnapshot),
            1 => run.step(Step::ReleaseSnapshots),
            _ => {}
        }
    }
    run.check();
    run.check_held();
}

//! The store against a naive model: any history gives the same events and the same answers, and
//! a snapshot taken at any moment of it never changes.

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
    /// Lists what is cached, in a list that is fresh or not.
    Relist(ObjectKey, Again, bool),
    Hold,
    Release,
    AddIndex,
}

/// How a cached object is listed again.
#[derive(Debug, Clone, Copy)]
enum Again {
    /// The very same value, as a list hands it back.
    Same,
    /// Decoded anew.
    New(Option<Digest>),
}

fn digests() -> impl Strategy<Value = Option<Digest>> {
    prop::option::of((1u64..3).prop_map(Digest::new))
}

fn ids() -> impl Strategy<Value = ObjectId> {
    let keys = prop::sample::select(vec!["a/x", "a/y", "a/z", "b/x", "b/y", "x", "y"]);
    let uids = prop::sample::select(vec!["one", "one", "one", "two", ""]);
    let versions = prop_oneof![8 => (1u32..30).prop_map(|v| v.to_string()), 1 => Just(String::new()), 1 => Just("odd".into())];
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
        1 => (ids(), any::<bool>()).prop_map(|(id, fresh)| Step::Relist(id.key, Again::Same, fresh)),
        2 => (ids(), digests(), any::<bool>())
            .prop_map(|(id, digest, fresh)| Step::Relist(id.key, Again::New(digest), fresh)),
        2 => Just(Step::Hold),
        1 => Just(Step::Release),
        1 => Just(Step::AddIndex),
    ];
    prop::collection::vec(step, 0..40)
}

/// Everything that can be read at one moment.
#[derive(Debug, PartialEq)]
struct View {
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

fn read(snapshot: &Snapshot<Thing>, index: Option<&Index<Thing, u8>>) -> View {
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
    View { objects, by_value, by_namespace, by_label, watermark: snapshot.position().clone() }
}

/// The same as [`read`], worked out from the model.
fn expect(naive: &Naive, indexed: bool) -> View {
    let entries = || naive.objects.values().map(|(entry, _)| entry);
    let having = |value: u8| keys(entries().filter(|entry| entry.values.contains(&value)));
    let by_value = indexed
        .then(|| (0..4).map(|value| (value, having(value))).filter(|(_, keys)| !keys.is_empty()).collect());
    let in_namespace = |name: &str| keys(entries().filter(|entry| entry.key().namespace() == Some(name)));
    View {
        objects: naive.objects.clone(),
        by_value,
        by_namespace: ["a", "b"].map(|name| (name.to_owned(), in_namespace(name))).into(),
        by_label: keys(entries().filter(|entry| entry.key().name() == "x")),
        watermark: naive.watermark.clone(),
    }
}

/// What a handler would know that was told of each event.
fn replay(mirror: &mut BTreeMap<ObjectKey, Entry<Thing>>, event: &Event<Thing>) {
    let key = event.key().clone();
    match event {
        Event::Added { object, .. } => assert_eq!(mirror.insert(key, object.clone()), None),
        Event::Updated { old, new } => assert_eq!(mirror.insert(key, new.clone()).as_ref(), Some(old)),
        Event::Deleted { last, .. } => {
            let known = mirror.remove(&key).expect("an unknown object was deleted");
            assert!(!known.id.uid.differs_from(&last.id.uid));
        }
    }
}

#[derive(Default)]
struct Run {
    store: Store<Thing>,
    naive: Naive,
    index: Option<Index<Thing, u8>>,
    mirror: BTreeMap<ObjectKey, Entry<Thing>>,
    /// Snapshots beside what was read from them when they were taken.
    held: Vec<(Snapshot<Thing>, View)>,
}

impl Run {
    fn step(&mut self, step: Step) {
        match step {
            Step::Apply(batch) => self.apply(batch),
            Step::Relist(key, again, fresh) => {
                if let Some(held) = self.store.snapshot().get(&key).cloned() {
                    let entry = match again {
                        Again::Same => held,
                        Again::New(digest) => Entry { digest, ..thing(held.id.clone(), vec![1]) },
                    };
                    let page = vec![Listed::Object(entry)];
                    self.apply(vec![begin(fresh), Delta::Page(page), end("40", false)]);
                }
            }
            Step::Hold => {
                let snapshot = self.store.snapshot();
                let view = read(&snapshot, self.index.as_ref());
                self.held.push((snapshot, view));
            }
            Step::Release => {
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
        let events = self.store.apply(batch.clone());
        assert_eq!(events, self.naive.apply(batch));
        events.iter().for_each(|event| replay(&mut self.mirror, event));
    }

    fn check(&self) {
        self.store.check();
        let view = read(&self.store.snapshot(), self.index.as_ref());
        assert_eq!(view, expect(&self.naive, self.index.is_some()));
        assert!(view.objects.iter().map(|(key, (entry, _))| (key, entry)).eq(self.mirror.iter()));
        assert_eq!(self.store.stats().repeats, self.naive.repeats);
        view.objects.values().for_each(|(entry, stale)| self.check_known(entry, *stale));
    }

    fn check_known(&self, entry: &Entry<Thing>, stale: bool) {
        let id = Object::id(&*entry.object);
        for digest in [None, Some(Digest::new(1)), Some(Digest::new(2))] {
            let known = self.store.unchanged(&id, digest);
            let differs = digest.is_some() && entry.digest.is_some() && entry.digest != digest;
            let expected = Some(entry).filter(|entry| !stale && !entry.id.version.is_opaque() && !differs);
            assert_eq!(known.as_ref(), expected);
        }
        assert_eq!(self.store.unchanged(&ObjectIdRef { version: 99.into(), ..id.clone() }, None), None);
        assert_eq!(
            self.store.unchanged(&ObjectIdRef { key: KeyRef::new(None, "unheard-of"), ..id }, None),
            None
        );
    }

    fn check_held(&self) {
        for (snapshot, view) in &self.held {
            let index = self.index.as_ref().filter(|_| view.by_value.is_some());
            assert_eq!(read(snapshot, index), *view, "a snapshot has changed");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Properties 3, 4, 7, 13, 14, 16 and 18, for any history.
    #[test]
    fn any_history_gives_what_the_naive_model_gives(steps in steps()) {
        let mut run = Run::default();
        steps.into_iter().for_each(|step| run.step(step));
        run.check_held();
    }
}

/// Enough objects for several chunks at every level, so that writes in place and to copies of
/// chunks mix.
#[test]
fn thousands_of_objects_come_and_go_under_held_snapshots() {
    let mut run = Run::default();
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
            0 => run.step(Step::Hold),
            1 => run.step(Step::Release),
            _ => {}
        }
    }
    run.check();
    run.check_held();
}

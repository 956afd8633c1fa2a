//! Compares `Backlog` with a naive model that stores complete histories. A mirror of the handler
//! applies the delivered events and rejects inconsistent events.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use kube_delta_fifo::{Backlog, Delivery, EventList};
use kube_object::{Entry, Event, ObjectKey, Removal};
use proptest::prelude::*;

use crate::{
    property_observer::PropertyObserver,
    world::{Change, World},
};

const KEYS: usize = 5;

#[derive(Debug, Clone)]
enum Step {
    /// One write to the store, with at most one change per key.
    Write(BTreeMap<usize, Change>),
    /// The handler completes its delivery and takes the next delivery.
    Take,
    Resync,
}

fn removal() -> impl Strategy<Value = Removal> {
    prop_oneof![Just(Removal::Deleted), Just(Removal::FinalStateUnknown), Just(Removal::Left)]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => Just(Change::Put),
        2 => removal().prop_map(|removal| Change::Delete { removal }),
        1 => Just(Change::Recreate),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::collection::btree_map(0..KEYS, change(), 0..4).prop_map(Step::Write),
        4 => Just(Step::Take),
        1 => Just(Step::Resync),
    ]
}

/// Returns the shortest history with the same start and end as this history. These are the rules of
/// `coalesce`, for complete histories instead of pairs.
fn shortest(history: &[Event<()>]) -> Vec<Event<()>> {
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return vec![] };
    let known_before = !matches!(first, Event::Added { .. });
    let alive_after = !matches!(last, Event::Deleted { .. });
    let delete = history.iter().find(|event| matches!(event, Event::Deleted { .. }));
    let object = last.entry().clone();
    match (known_before, alive_after, delete) {
        (false, false, _) => vec![],
        (false, true, _) => vec![Event::Added { object, initial: is_initial(first) }],
        (true, true, None) => match first {
            Event::Updated { old, .. } => vec![Event::Updated { old: old.clone(), new: object }],
            _ => unreachable!("without a delete, the first event of a known object is an Update"),
        },
        (true, true, Some(delete)) => vec![delete.clone(), Event::Added { object, initial: false }],
        (true, false, delete) => delete.cloned().into_iter().collect(),
    }
}

fn is_initial(event: &Event<()>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}

#[derive(Default)]
struct Naive {
    threshold: usize,
    batches: VecDeque<Vec<Event<()>>>,
    /// The events of each key since its last delivery or cancellation, oldest key first.
    histories: VecDeque<Vec<Event<()>>>,
}

impl Naive {
    fn push(&mut self, events: &[Event<()>]) {
        if self.histories.is_empty() && self.batches.iter().map(Vec::len).sum::<usize>() < self.threshold {
            self.batches.extend((!events.is_empty()).then(|| events.to_vec()));
            return;
        }
        for event in events {
            match self.histories.iter_mut().find(|history| history[0].key() == event.key()) {
                Some(history) => history.push(event.clone()),
                None => self.histories.push_back(vec![event.clone()]),
            }
            self.histories.retain(|history| !shortest(history).is_empty());
        }
    }

    fn resync(&mut self, world: &World) {
        let queued: BTreeSet<ObjectKey> = self.queued().iter().map(|event| event.key().clone()).collect();
        let entries = world.alive.values().filter(|entry| !queued.contains(entry.key()));
        let resync: Vec<_> =
            entries.map(|entry| Event::Updated { old: entry.clone(), new: entry.clone() }).collect();
        self.push(&resync);
    }

    fn take(&mut self) -> Option<Vec<Event<()>>> {
        self.batches.pop_front().or_else(|| self.histories.pop_front().map(|history| shortest(&history)))
    }

    fn queued(&self) -> Vec<Event<()>> {
        let coalesced = self.histories.iter().flat_map(|history| shortest(history));
        self.batches.iter().flatten().cloned().chain(coalesced).collect()
    }
}

/// The state of a handler that only applies its events.
#[derive(Default)]
struct Mirror(BTreeMap<ObjectKey, Entry<()>>);

impl Mirror {
    /// Checks properties 5, 15 and 18: each event is consistent with the earlier events.
    fn apply(&mut self, event: &Event<()>) {
        let key = event.key().clone();
        match event {
            Event::Added { object, .. } => {
                assert_eq!(
                    self.0.insert(key, object.clone()),
                    None,
                    "the handler received an Add of a known object"
                );
            }
            Event::Updated { old, new } => {
                let before = self.0.insert(key, new.clone());
                assert_eq!(before.as_ref(), Some(old), "the old state of an Update was not delivered");
                assert!(new.id.version >= old.id.version, "an Update contains an older version than before");
                assert_eq!(new.id.uid, old.id.uid, "the uid of an Update changed");
            }
            Event::Deleted { last, .. } => {
                let before = self.0.remove(&key).expect("a Delete contains a known object");
                assert_eq!(before.id.uid, last.id.uid, "a Delete contains another uid");
                assert!(
                    last.id.version >= before.id.version,
                    "the last state is older than the delivered state"
                );
            }
        }
    }
}

/// One handler with its backlog, the naive model, and the mirror.
struct Handler {
    backlog: Backlog<()>,
    naive: Naive,
    mirror: Mirror,
    out: Option<Delivery<()>>,
    largest_batch: usize,
    /// The number of pushed batches. Each second one is pushed as a list.
    pushes: usize,
    observer: PropertyObserver,
}

impl Handler {
    fn new(threshold: usize, world: &World) -> Self {
        Self {
            observer: PropertyObserver::new(threshold, world),
            backlog: Backlog::new(threshold),
            naive: Naive { threshold, ..Naive::default() },
            mirror: Mirror::default(),
            out: None,
            largest_batch: 0,
            pushes: 0,
        }
    }

    /// Pushes the snapshot at the registration of the handler.
    fn start(&mut self, snapshot: &Arc<[Event<()>]>) {
        self.push(snapshot);
        self.observer.synced(self.backlog.initial_pending() == 0);
    }

    /// Pushes the events of one write. `world` is the cache after the write.
    fn write(&mut self, events: &Arc<[Event<()>]>, world: &World) {
        self.observer.report_changes(events, world);
        self.push(events);
    }

    fn push(&mut self, events: &Arc<[Event<()>]>) {
        self.largest_batch = self.largest_batch.max(events.len());
        self.naive.push(events);
        self.pushes += 1;
        if self.pushes.is_multiple_of(2) {
            self.backlog.push_list(&EventList::new(events.to_vec()));
        } else {
            self.backlog.push(Arc::clone(events));
        }
    }

    fn resync(&mut self, world: &World) {
        self.largest_batch = self.largest_batch.max(world.alive.len());
        self.naive.resync(world);
        self.observer.resynced();
        self.backlog.push_resync(world.alive.values().cloned());
    }

    /// Checks property 8: the backlog and the naive model return equal deliveries.
    fn take(&mut self) {
        if let Some(mut delivery) = self.out.take() {
            self.backlog.acknowledge(&mut delivery);
            self.observer.returned();
        }
        self.observer.synced(self.backlog.initial_pending() == 0);
        self.out = self.backlog.take();
        assert_eq!(self.out.as_deref().map(<[_]>::to_vec), self.naive.take());
        for event in self.out.iter().flat_map(|delivery| delivery.iter()) {
            self.mirror.apply(event);
            self.observer.called(event);
        }
        if self.out.is_none() {
            self.observer.drained();
        }
    }

    fn check(&self, world: &World) {
        self.backlog.check();
        self.check_bound(world);
        let queued = self.naive.queued();
        let out = self.out.iter().flat_map(|delivery| delivery.iter());
        // Property 11.
        let initial = queued.iter().chain(out).filter(|event| is_initial(event)).count();
        assert_eq!(self.backlog.initial_pending(), initial);
        assert_eq!(self.backlog.is_empty(), queued.is_empty());
        // After the queued events, the state of the handler equals the state of the cache.
        let mut final_state = Mirror(self.mirror.0.clone());
        queued.iter().for_each(|event| final_state.apply(event));
        assert_eq!(final_state.0, world.alive);
    }

    fn check_bound(&self, world: &World) {
        let mut seen = Mirror(self.mirror.0.clone());
        self.naive.batches.iter().flatten().for_each(|event| seen.apply(event));
        let keys: BTreeSet<_> = seen.0.keys().chain(world.alive.keys()).collect();
        let coalesced = self.naive.histories.len();
        assert!(coalesced <= keys.len(), "a change remains for an unknown key");
        assert_eq!(self.backlog.is_coalescing(), coalesced > 0);
        let batched = self.backlog.pending() - coalesced;
        assert!(
            batched < self.naive.threshold + self.largest_batch || batched == 0,
            "more than one batch above the threshold"
        );
    }
}

proptest! {
    /// Properties 3, 5, 8, 9, 11, 12, 15 and 18, with their checkers and with the model.
    #[test]
    fn handler_reaches_true_state_by_consistent_events(
        threshold in 0..8usize,
        first in prop::collection::btree_set(0..KEYS, 0..=KEYS),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::default();
        let snapshot: Arc<[_]> = first.iter().flat_map(|key| world.apply(*key, Change::Put, true)).collect();
        let mut handler = Handler::new(threshold, &world);
        handler.start(&snapshot);
        handler.check(&world);
        for step in steps {
            match step {
                Step::Write(changes) => {
                    let events: Arc<[_]> =
                        changes.iter().flat_map(|(key, change)| world.apply(*key, *change, false)).collect();
                    handler.write(&events, &world);
                }
                Step::Take => handler.take(),
                Step::Resync => handler.resync(&world),
            }
            handler.check(&world);
        }
        while !handler.backlog.is_empty() {
            handler.take();
        }
        handler.take();
        handler.check(&world);
        prop_assert_eq!(handler.backlog.initial_pending(), 0);
        prop_assert_eq!(handler.mirror.0, world.alive);
    }

    /// Property 8: a slow handler does not affect a fast handler.
    #[test]
    fn handlers_with_different_thresholds_reach_same_state(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::default();
        let mut slow = Handler::new(0, &world);
        let mut fast = Handler::new(usize::MAX, &world);
        for step in steps {
            if let Step::Write(changes) = step {
                let events: Arc<[_]> =
                    changes.iter().flat_map(|(key, change)| world.apply(*key, *change, false)).collect();
                for handler in [&mut slow, &mut fast] {
                    handler.write(&events, &world);
                }
            }
            fast.take();
            prop_assert!(fast.backlog.is_empty(), "the fast handler has received each write");
            prop_assert_eq!(&fast.mirror.0, &world.alive);
        }
        while !slow.backlog.is_empty() {
            slow.take();
        }
        prop_assert_eq!(slow.mirror.0, world.alive);
    }
}

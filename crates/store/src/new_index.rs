//! `NewIndex`: an index that is filled before it becomes a part of the store.
//!
//! The store is written while the index is filled. The index then follows the changes: it compares the
//! objects that it contains with the present objects, and skips the shared chunks of both.

use std::{hash::Hash, sync::Arc};

use kube_object::Entry;

use crate::{
    erased::IndexState, index_functions::IndexFunction, postings::Postings, root::Root, slots::Slots,
};

/// The number of objects of one evaluation of the index function.
const BATCH: usize = 256;

pub(crate) struct NewIndex<T, V> {
    name: &'static str,
    function: IndexFunction<T, V>,
    postings: Postings<V>,
    /// The objects that the index contains.
    objects: Slots<Entry<T>>,
    /// The number of panics of the index function.
    panics: u64,
}

impl<T: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> NewIndex<T, V> {
    pub(crate) fn new(name: &'static str, function: IndexFunction<T, V>) -> Self {
        Self { name, function, postings: Postings::default(), objects: Slots::default(), panics: 0 }
    }

    /// Returns whether at most this number of slots can differ from the objects of the index.
    pub(crate) fn differs_at_most(&self, root: &Root<T>, slots: usize) -> bool {
        root.objects.changed(&self.objects, slots).is_some()
    }

    /// Changes the index to the objects of a root.
    pub(crate) fn follow(&mut self, root: &Root<T>) {
        let changed = root.objects.changed(&self.objects, usize::MAX).unwrap_or_default();
        let is_changed = |slot: &u32| match (self.objects.get(*slot), root.objects.get(*slot)) {
            (Some(before), Some(now)) => !Arc::ptr_eq(&before.object, &now.object),
            (before, now) => before.is_some() || now.is_some(),
        };
        let changed: Vec<u32> = changed.into_iter().filter(is_changed).collect();
        for slots in changed.chunks(BATCH) {
            let objects: Vec<&Entry<T>> = slots.iter().filter_map(|slot| root.objects.get(*slot)).collect();
            let (mut values, panics) = self.function.evaluate(&objects);
            self.panics += panics;
            let mut at = 0;
            for slot in slots {
                if root.objects.get(*slot).is_some() {
                    self.postings.set(*slot, values.values_at(at));
                    at += 1;
                } else {
                    self.postings.clear(*slot);
                }
            }
        }
        self.objects = root.objects.clone();
    }

    /// Returns the index function, the index, and the number of panics of the function.
    pub(crate) fn finish(self) -> (IndexFunction<T, V>, IndexState<V>, u64) {
        (self.function, IndexState::new(self.name, self.postings), self.panics)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

    use k8s_openapi::api::core::v1::Pod;
    use proptest::prelude::*;

    use super::*;
    use crate::{Store, testing::*};

    const WITHIN: Duration = Duration::from_secs(60);

    /// The index function waits for a write of another thread. A write that waited for the function would
    /// never return.
    #[test]
    fn writers_do_not_wait_while_index_is_filled() {
        let store = listed("5", &[("a/x", "u", "3")]);
        let (started, has_started) = mpsc::channel();
        let (written, is_written) = mpsc::channel();
        let is_written = parking_lot::Mutex::new(is_written);
        let writer = store.clone();
        let other = thread::spawn(move || {
            has_started.recv_timeout(WITHIN).unwrap();
            writer.apply(vec![put("a/y", "u", "6"), remove("a/x", "u", "7"), put("a/z", "u", "8")]);
            written.send(()).unwrap();
        });
        let names = move |pod: &Pod| {
            if pod.metadata.name.as_deref() == Some("x") {
                started.send(()).unwrap();
                is_written.lock().recv_timeout(WITHIN).unwrap();
            }
            pod.metadata.name.clone()
        };
        let by_name = store.add_index("name", names).unwrap();
        other.join().unwrap();
        store.check();
        assert_eq!(["x", "y", "z"].map(|name| by_name.len(name)), [0, 1, 1]);
        assert_eq!(store.stats().index_panics, 0);
    }

    /// All objects change during each round of the fill. The last round runs under the lock of the writers,
    /// so the change waits for it.
    #[test]
    fn index_of_busy_store_is_filled_in_limited_rounds() {
        const OBJECTS: usize = 3000;
        const ROUNDS: usize = crate::store::MAX_FILL_ROUNDS as usize;
        const { assert!(OBJECTS > crate::store::MAX_MISSING_SLOTS) };
        let store = Store::<Pod>::new();
        let change_all = |store: &Store<Pod>, round: usize| {
            let changed = |n: usize| put(&format!("a/{n}"), "u", &(round * OBJECTS + n + 1).to_string());
            store.apply((0..OBJECTS).map(changed).collect());
        };
        change_all(&store, 0);
        let (start, starts) = mpsc::channel::<usize>();
        let (end, ends) = mpsc::channel();
        let writer = store.clone();
        let other = thread::spawn(move || {
            for round in starts {
                change_all(&writer, round);
                _ = end.send(());
            }
        });
        let calls = Arc::new(AtomicUsize::new(0));
        let (counter, ends) = (Arc::clone(&calls), Arc::new(parking_lot::Mutex::new(ends)));
        let changed = Arc::clone(&ends);
        let start = parking_lot::Mutex::new(start);
        let versions = move |pod: &Pod| {
            let call = counter.fetch_add(1, Ordering::Relaxed);
            let round = call / OBJECTS + 1;
            if call % OBJECTS == 0 && round <= ROUNDS + 1 {
                start.lock().send(round).unwrap();
                let within = if round <= ROUNDS { WITHIN } else { Duration::from_millis(100) };
                assert_eq!(changed.lock().recv_timeout(within).is_ok(), round <= ROUNDS);
            }
            pod.metadata.resource_version.clone()
        };
        let by_version = store.add_index("version", versions).unwrap();
        ends.lock().recv_timeout(WITHIN).expect("the last change waits only for the last round");
        store.check();
        assert_eq!(store.stats().index_panics, 0, "only the last round delays the change");
        let rounds_and_last_change = ROUNDS + 2;
        assert_eq!(calls.load(Ordering::Relaxed), rounds_and_last_change * OBJECTS);
        assert_eq!(by_version.len(&((ROUNDS + 1) * OBJECTS + 1).to_string()), 1);
        store.close();
        other.join().unwrap();
    }

    proptest! {
        /// Invariant: after `follow`, the index contains the objects of the root.
        #[test]
        fn index_follows_any_changes(
            steps in prop::collection::vec((0..40u8, 0..3u8, any::<bool>(), prop::bool::weighted(0.3)), 0..80),
        ) {
            let store = Store::<Pod>::new();
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let mut index = NewIndex::new("node", IndexFunction::new("node", node));
            let follow = |index: &mut NewIndex<Pod, String>| {
                let root = store.snapshot().root;
                index.follow(&root);
                assert!(index.differs_at_most(&root, 0));
                index.postings.check(root.objects.iter().map(|(slot, _)| slot));
                for (slot, entry) in root.objects.iter() {
                    let node = entry.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap();
                    assert!(index.postings.slots(node).any(|other| other == slot));
                }
                let posted: usize = index.postings.values().map(|node| index.postings.len(node)).sum();
                assert_eq!(posted, root.objects.len());
            };
            for (version, (name, node, exists, follows)) in (1..).zip(steps) {
                let (key, version) = (format!("a/{name}"), u64::to_string(&version));
                let delta = match exists {
                    true => kube_object::Delta::Put(pod_on(&format!("node-{node}"), &key, "u", &version)),
                    false => remove(&key, "u", &version),
                };
                store.apply(vec![delta]);
                if follows {
                    follow(&mut index);
                }
            }
            follow(&mut index);
        }
    }
}

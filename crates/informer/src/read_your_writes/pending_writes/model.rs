//! Compares `PendingWrites` with a list of all writes, while a cache follows a server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_object::{Delta, Entry};
use kube_store::Store;
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// A write whose response was received.
enum Recorded {
    Change { key: usize, uid: String, version: u64 },
    Deletion { key: usize, uid: String },
}

/// A server with a history, a cache that follows it, and the writes of a program.
struct World {
    /// The uid of each existing object.
    server: [Option<String>; KEYS.len()],
    /// The events that the cache has not applied.
    events: std::collections::VecDeque<Delta<ConfigMap>>,
    version: u64,
    cache: Store<ConfigMap>,
    recorded: Vec<Recorded>,
    pending: PendingWrites,
}

fn object(key: usize, uid: &str, version: u64) -> Entry<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(KEYS[key].into());
    map.metadata.uid = Some(uid.into());
    map.metadata.resource_version = Some(version.to_string());
    Entry::from_object(map)
}

fn key(key: usize) -> ObjectKey {
    ObjectKey::new(None, KEYS[key])
}

impl World {
    fn new() -> Self {
        let cache = Store::new();
        cache.replace([], "10".into());
        Self {
            server: Default::default(),
            events: Default::default(),
            version: 10,
            cache,
            recorded: Vec::new(),
            pending: PendingWrites::default(),
        }
    }

    /// Creates or updates an object. `own` is true for a write of the program.
    fn write(&mut self, at: usize, own: bool) {
        self.version += 1;
        let uid = self.server[at].get_or_insert_with(|| format!("u{}", self.version)).clone();
        let entry = object(at, &uid, self.version);
        if own {
            self.pending.record_write(&entry.id, Some(true), &self.cache.snapshot());
            self.recorded.push(Recorded::Change { key: at, uid, version: self.version });
        }
        self.events.push_back(Delta::Put(entry));
    }

    fn delete(&mut self, at: usize, own: bool) {
        let Some(uid) = self.server[at].take() else { return };
        self.version += 1;
        // The cache can receive an object of another client after its deletion. No response shows the
        // version of a deletion, so such a deletion does not remain pending.
        let is_known = self.is_cached(at, |cached| cached == uid) || self.is_change_pending(&uid);
        if own {
            self.pending.record_delete(key(at), uid.as_str().into(), &self.cache.snapshot());
            if is_known {
                self.recorded.push(Recorded::Deletion { key: at, uid: uid.clone() });
            }
        }
        self.events.push_back(Delta::Remove { id: object(at, &uid, self.version).id, last: None });
    }

    fn has_applied(&self, version: u64) -> bool {
        self.cache.snapshot().has_applied(&version.into())
    }

    fn is_cached(&self, at: usize, uid: impl Fn(&str) -> bool) -> bool {
        self.cache.snapshot().get(&key(at)).is_some_and(|entry| uid(&entry.id.uid.to_string()))
    }

    /// Returns whether the cache does not contain a recorded change of this object yet.
    fn is_change_pending(&self, uid: &str) -> bool {
        self.recorded.iter().any(|write| match write {
            Recorded::Change { uid: other, version, .. } => other == uid && !self.has_applied(*version),
            Recorded::Deletion { .. } => false,
        })
    }

    /// Returns whether a read of this object, or of all objects, must wait for an earlier write.
    fn must_wait(&self, read: Option<usize>) -> bool {
        self.recorded.iter().any(|write| match write {
            Recorded::Change { key, version, .. } => {
                read.is_none_or(|read| read == *key) && !self.has_applied(*version)
            }
            Recorded::Deletion { key, uid } => {
                read.is_none_or(|read| read == *key)
                    && (self.is_change_pending(uid) || self.is_cached(*key, |cached| cached == uid))
            }
        })
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { key: usize, own: bool },
    Delete { key: usize, own: bool },
    Apply,
}

fn step() -> impl Strategy<Value = Step> {
    let target = || (0..KEYS.len(), prop::bool::weighted(0.7));
    prop_oneof![
        3 => target().prop_map(|(key, own)| Step::Write { key, own }),
        2 => target().prop_map(|(key, own)| Step::Delete { key, own }),
        4 => Just(Step::Apply),
    ]
}

proptest! {
    /// Invariant: a write is pending exactly while the cache does not contain it. Both indexes of the changes
    /// contain the same changes.
    #[test]
    fn reads_wait_for_exactly_the_writes_that_are_not_visible(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Write { key, own } => world.write(key, own),
                Step::Delete { key, own } => world.delete(key, own),
                Step::Apply => {
                    world.cache.apply(world.events.pop_front().into_iter().collect());
                }
            }
            for read in (0..KEYS.len()).map(Some).chain([None]) {
                let cache = world.cache.snapshot();
                let key = read.map(key);
                let barrier = world.pending.barrier(key.as_ref(), &cache);
                let waits = world.pending.not_visible(&barrier, key.as_ref(), &cache);
                prop_assert_eq!(waits.is_some(), world.must_wait(read), "{:?} of {:?}", waits, read);
            }
            world.pending.changes.check();
        }
        while let Some(event) = world.events.pop_front() {
            world.cache.apply(vec![event]);
        }
        let cache = world.cache.snapshot();
        let barrier = world.pending.barrier(None, &cache);
        prop_assert_eq!(world.pending.not_visible(&barrier, None, &cache), None);
        prop_assert!(world.pending.changes.is_empty());
        prop_assert_eq!(world.pending.deletions.len(), 0);
    }
}

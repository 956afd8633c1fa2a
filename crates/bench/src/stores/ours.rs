//! This project's store: batches in; lists, or snapshots, out.

use std::hint::black_box;
use std::mem::take;
use std::sync::Arc;

use anyhow::Result;
use kube_object::{Delta, Entry, Listed, Object as _, ObjectId, ObjectKey, ResourceVersion};
use kube_store::{Index, Store};

use super::objects::{Objects, SmallPod};
use super::program::{Reader, Subject};

/// How its readers see all objects.
#[derive(Clone, Copy)]
pub(super) enum Seen {
    /// As a list that holds each.
    Listed,
    /// By a walk through a snapshot.
    InSnapshot,
}

pub(super) struct Ours {
    reader: OurReader,
    /// The version that was given last.
    version: u64,
}

#[derive(Clone)]
pub(super) struct OurReader {
    store: Store<SmallPod>,
    by_node: Index<SmallPod, String>,
    /// In the order in which they are looked up.
    keys: Arc<[ObjectKey]>,
    seen: Seen,
}

impl Ours {
    /// A store with an index and these objects, which came as a list.
    pub(super) fn new(objects: &Objects, seen: Seen) -> Result<Self> {
        let store = Store::new();
        let by_node = store.add_index("node", |pod: &SmallPod| Some(pod.node.clone()))?;
        let entry = |pod: &Arc<SmallPod>| Entry::new(pod.id().into(), Arc::clone(pod));
        let items = objects.first().iter().map(entry).map(Listed::Object).collect();
        let version = objects.len() as u64;
        drop(store.apply(vec![
            Delta::Begin { fresh: false },
            Delta::Page(items),
            Delta::End { version: ResourceVersion::from(version), complete: true },
        ]));
        let keys = objects.looked_up().map(|pod| pod.id().key.to_key()).collect();
        Ok(Self { reader: OurReader { store, by_node, keys, seen }, version })
    }
}

impl Subject for Ours {
    type Batch = Vec<Delta<SmallPod>>;
    type Reader = OurReader;

    fn reader(&self) -> OurReader {
        self.reader.clone()
    }

    /// Each write has a version of its own, as otherwise it would be a repeat.
    fn prepare(&mut self, writes: impl Iterator<Item = Arc<SmallPod>>) -> Self::Batch {
        let put = |pod: Arc<SmallPod>| {
            self.version += 1;
            let version = ResourceVersion::from(self.version);
            Delta::Put(Entry::new(ObjectId { version, ..pod.id().into() }, pod))
        };
        writes.map(put).collect()
    }

    /// The events that it leads to are made and dropped as part of the write.
    fn write(&mut self, batch: &mut Self::Batch) {
        black_box(self.reader.store.apply(take(batch)));
    }
}

impl Reader for OurReader {
    fn get(&self, turn: usize) -> bool {
        black_box(self.store.get(&self.keys[turn % self.keys.len()])).is_some()
    }

    fn all(&self) -> usize {
        match self.seen {
            Seen::Listed => black_box(self.store.list()).len(),
            Seen::InSnapshot => self.store.snapshot().iter().map(black_box).count(),
        }
    }

    fn on_node(&self, node: &str) -> usize {
        black_box(self.by_node.get(node)).len()
    }
}

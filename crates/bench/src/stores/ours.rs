//! The store of this project, with batches, and with lists or snapshots.

use std::hint::black_box;
use std::mem::take;
use std::sync::Arc;

use anyhow::Result;
use kube_object::{Delta, Entry, Listed, Object as _, ObjectId, ObjectKey, ResourceVersion};
use kube_store::{Index, Store};

use super::objects::{Objects, SmallPod};
use super::program::{Reader, Subject};

/// The way in which readers read all objects.
#[derive(Clone, Copy)]
pub(super) enum ReadBy {
    /// A list of all objects.
    List,
    /// Iteration over a snapshot.
    Snapshot,
}

pub(super) struct Ours {
    reader: OurReader,
    /// The last resourceVersion.
    version: u64,
}

#[derive(Clone)]
pub(super) struct OurReader {
    store: Store<SmallPod>,
    by_node: Index<SmallPod, String>,
    /// The keys in the order of the lookups.
    keys: Arc<[ObjectKey]>,
    read_by: ReadBy,
}

impl Ours {
    /// Creates a store with an index and an initial list.
    pub(super) fn new(objects: &Objects, read_by: ReadBy) -> Result<Self> {
        let store = Store::new();
        let by_node = store.add_index("node", |pod: &SmallPod| Some(pod.node.clone()))?;
        let entry = |pod: &Arc<SmallPod>| Entry::new(pod.id().into(), Arc::clone(pod));
        let items = objects.first().iter().map(entry).map(Listed::Object).collect();
        let version = objects.len() as u64;
        drop(store.apply(vec![
            Delta::Begin { without_reuse: false },
            Delta::Page(items),
            Delta::End { version: ResourceVersion::from(version), complete: true },
        ]));
        let keys = objects.looked_up().map(|pod| pod.id().key.to_key()).collect();
        Ok(Self { reader: OurReader { store, by_node, keys, read_by }, version })
    }
}

impl Subject for Ours {
    type Batch = Vec<Delta<SmallPod>>;
    type Reader = OurReader;

    fn reader(&self) -> OurReader {
        self.reader.clone()
    }

    /// Assigns a new resourceVersion to each write. The store would ignore a repeated
    /// resourceVersion.
    fn prepare(&mut self, writes: impl Iterator<Item = Arc<SmallPod>>) -> Self::Batch {
        let put = |pod: Arc<SmallPod>| {
            self.version += 1;
            let version = ResourceVersion::from(self.version);
            Delta::Put(Entry::new(ObjectId { version, ..pod.id().into() }, pod))
        };
        writes.map(put).collect()
    }

    /// Applies a batch. Creating and dropping the events is part of the write.
    fn write(&mut self, batch: &mut Self::Batch) {
        black_box(self.reader.store.apply(take(batch)));
    }
}

impl Reader for OurReader {
    fn get(&self, turn: usize) -> bool {
        black_box(self.store.get(&self.keys[turn % self.keys.len()])).is_some()
    }

    fn all(&self) -> usize {
        match self.read_by {
            ReadBy::List => black_box(self.store.list()).len(),
            ReadBy::Snapshot => self.store.snapshot().iter().map(black_box).count(),
        }
    }

    fn on_node(&self, node: &str) -> usize {
        black_box(self.by_node.get(node)).len()
    }
}

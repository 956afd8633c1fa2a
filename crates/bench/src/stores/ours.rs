//! The store of this project, with batches, and with lists or snapshots.

use std::hint::black_box;
use std::mem::take;
use std::sync::Arc;

use anyhow::Result;
use kube_object::{Delta, Entry, Listed, Object as _, ObjectId, ObjectKey, ResourceVersion};
use kube_store::{Index, Store};

use super::objects::{LookupKeys, LookupOrder, Objects, SmallPod};
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
    keys: Arc<LookupKeys<ObjectKey>>,
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
        let keys = Arc::new(LookupKeys::new(objects, |pod| pod.id().key.to_key()));
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
    fn get(&self, order: LookupOrder, turn: usize) -> bool {
        black_box(self.store.get(self.keys.get(order, turn))).is_some()
    }

    fn look(&self, order: LookupOrder, turn: usize) -> usize {
        self.store.get(self.keys.get(order, turn)).map_or(0, |pod| pod.node.len())
    }

    fn all(&self) -> usize {
        match self.read_by {
            ReadBy::List => black_box(self.store.list()).len(),
            ReadBy::Snapshot => self.store.snapshot().iter().map(black_box).count(),
        }
    }

    fn visit(&self) -> usize {
        self.store.lister().list_all().iter().map(|pod| pod.node.len()).sum()
    }

    fn on_node(&self, node: &str) -> usize {
        black_box(self.by_node.get(node)).len()
    }
}

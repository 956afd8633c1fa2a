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
    ids: Vec<ObjectId>,
    /// The version that was given last.
    version: u64,
}

#[derive(Clone)]
pub(super) struct OurReader {
    store: Store<SmallPod>,
    by_node: Index<SmallPod, String>,
    keys: Arc<[ObjectKey]>,
    seen: Seen,
}

impl Ours {
    /// A store with an index and these objects, which came as a list.
    pub(super) fn new(objects: &Objects, seen: Seen) -> Result<Self> {
        let store = Store::new();
        let by_node = store.add_index("node", |pod: &SmallPod| Some(pod.node.clone()))?;
        let ids: Vec<ObjectId> = objects.first().iter().map(|pod| pod.id().into()).collect();
        let entry = |(id, pod): (&ObjectId, &Arc<SmallPod>)| Entry::new(id.clone(), Arc::clone(pod));
        let items = ids.iter().zip(objects.first()).map(entry).map(Listed::Object).collect();
        let version = objects.len() as u64;
        drop(store.apply(vec![
            Delta::Begin { fresh: false },
            Delta::Page(items),
            Delta::End { version: ResourceVersion::from(version), complete: true },
        ]));
        let keys = ids.iter().map(|id| id.key.clone()).collect();
        Ok(Self { reader: OurReader { store, by_node, keys, seen }, ids, version })
    }
}

impl Subject for Ours {
    type Batch = Vec<Delta<SmallPod>>;
    type Reader = OurReader;

    fn reader(&self) -> OurReader {
        self.reader.clone()
    }

    /// Each write has a version of its own, as otherwise it would be a repeat.
    fn prepare(&mut self, writes: impl Iterator<Item = (usize, Arc<SmallPod>)>) -> Self::Batch {
        let put = |(number, pod): (usize, Arc<SmallPod>)| {
            self.version += 1;
            let version = ResourceVersion::from(self.version);
            Delta::Put(Entry::new(ObjectId { version, ..self.ids[number].clone() }, pod))
        };
        writes.map(put).collect()
    }

    /// The events that it leads to are made and dropped as part of the write.
    fn write(&mut self, batch: &mut Self::Batch) {
        black_box(self.reader.store.apply(take(batch)));
    }
}

impl Reader for OurReader {
    fn get(&self, number: usize) -> bool {
        black_box(self.store.get(&self.keys[number])).is_some()
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

//! The store of kube-runtime. It has no indexes and no batches, and clones objects.

use std::hint::black_box;
use std::sync::Arc;

use kube_runtime::reflector::{self, ObjectRef, Store, store::Writer};
use kube_runtime::watcher::Event;

use super::objects::{LookupKeys, LookupOrder, Objects, SmallPod};
use super::program::{Reader, Subject};

pub(super) struct KubeRuntime {
    writer: Writer<SmallPod>,
    reader: KubeReader,
}

#[derive(Clone)]
pub(super) struct KubeReader {
    store: Store<SmallPod>,
    keys: Arc<LookupKeys<ObjectRef<SmallPod>>>,
}

impl KubeRuntime {
    /// Creates a store with an initial list.
    pub(super) fn new(objects: &Objects) -> Self {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&Event::Init);
        for pod in objects.first() {
            writer.apply_watcher_event(&Event::InitApply(SmallPod::clone(pod)));
        }
        writer.apply_watcher_event(&Event::InitDone);
        let keys = Arc::new(LookupKeys::new(objects, ObjectRef::from_obj));
        Self { writer, reader: KubeReader { store, keys } }
    }
}

impl Subject for KubeRuntime {
    type Batch = Vec<Event<SmallPod>>;
    type Reader = KubeReader;

    fn reader(&self) -> KubeReader {
        self.reader.clone()
    }

    fn prepare(&mut self, writes: impl Iterator<Item = Arc<SmallPod>>) -> Self::Batch {
        writes.map(|pod| Event::Apply(SmallPod::clone(&pod))).collect()
    }

    fn write(&mut self, batch: &mut Self::Batch) {
        batch.iter().for_each(|event| self.writer.apply_watcher_event(event));
    }
}

impl Reader for KubeReader {
    fn get(&self, order: LookupOrder, turn: usize) -> bool {
        black_box(self.store.get(self.keys.get(order, turn))).is_some()
    }

    fn look(&self, order: LookupOrder, turn: usize) -> usize {
        self.store.get(self.keys.get(order, turn)).map_or(0, |pod| pod.node.len())
    }

    fn all(&self) -> usize {
        black_box(self.store.state()).len()
    }

    /// Visits a Vec of all objects, because the store has no other call.
    fn visit(&self) -> usize {
        self.store.state().iter().map(|pod| pod.node.len()).sum()
    }

    /// Filters all objects, because there is no index.
    fn on_node(&self, node: &str) -> usize {
        black_box(self.store.state_filter(|pod| pod.node == node)).len()
    }
}

//! The Pods of the stores. They are small, so that cache misses of large objects do not dominate
//! the measurement.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use fastrand::Rng;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Resource;
use kube_client::core::ObjectMeta;

/// The number of Pods per node, and per index value.
const PODS_PER_NODE: usize = 100;
const NAMESPACES: usize = 20;

/// A Pod with only its metadata and its node.
#[derive(Clone, Debug)]
pub(super) struct SmallPod {
    pub(super) metadata: ObjectMeta,
    pub(super) node: String,
}

impl Resource for SmallPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The Pods, each in two states that writes alternate.
pub(super) struct Objects {
    states: [Vec<Arc<SmallPod>>; 2],
    /// The shuffled numbers of the Pods: the order of writes and of most lookups.
    order: Vec<usize>,
    /// The numbers of the Pods, shuffled in another way.
    scattered: Vec<usize>,
}

/// The keys of lookups, in two orders.
pub(super) struct LookupKeys<K> {
    as_written: Vec<K>,
    scattered: Vec<K>,
}

/// The order of lookups.
#[derive(Clone, Copy, Debug)]
pub(super) enum LookupOrder {
    /// The order of the writes. Objects that were written together are also close in memory.
    AsWritten,
    /// Another order.
    Scattered,
}

impl<K> LookupKeys<K> {
    pub(super) fn new(objects: &Objects, key: impl Fn(&SmallPod) -> K) -> Self {
        let keys = |order: &[usize]| order.iter().map(|number| key(&objects.states[0][*number])).collect();
        Self { as_written: keys(&objects.order), scattered: keys(&objects.scattered) }
    }

    /// Returns the key of the `turn`th lookup.
    pub(super) fn get(&self, order: LookupOrder, turn: usize) -> &K {
        let keys = match order {
            LookupOrder::AsWritten => &self.as_written,
            LookupOrder::Scattered => &self.scattered,
        };
        &keys[turn % keys.len()]
    }
}

impl Objects {
    /// Creates `count` Pods. The result depends only on `count`.
    pub(super) fn new(count: usize) -> Self {
        let state = |version: u64| (0..count).map(|number| Arc::new(pod(number, count, version))).collect();
        let shuffled = |seed| {
            let mut order: Vec<usize> = (0..count).collect();
            Rng::with_seed(seed).shuffle(&mut order);
            order
        };
        Self { states: [state(1), state(2)], order: shuffled(7), scattered: shuffled(8) }
    }

    /// Returns the number of Pods.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns all Pods in their first state.
    pub(super) fn first(&self) -> &[Arc<SmallPod>] {
        &self.states[0]
    }

    /// Returns the Pod of the `turn`th write. After all Pods are written, the state changes. Reads
    /// the Pod, so that it is in the CPU cache like a Pod that was just decoded.
    pub(super) fn written(&self, turn: usize) -> Arc<SmallPod> {
        let state = 1 - turn / self.len() % 2;
        let pod = &self.states[state][self.order[turn % self.len()]];
        black_box(SmallPod::clone(pod));
        Arc::clone(pod)
    }

    /// Returns the nodes of the Pods.
    pub(super) fn nodes(&self) -> Vec<String> {
        (0..nodes(self.len())).map(node).collect()
    }
}

fn nodes(count: usize) -> usize {
    count.div_ceil(PODS_PER_NODE)
}

fn node(number: usize) -> String {
    format!("node-{number:05}")
}

fn pod(number: usize, count: usize, version: u64) -> SmallPod {
    let metadata = ObjectMeta {
        name: Some(format!("web-7d4b9c6f5-{number:07}")),
        namespace: Some(format!("team-{:02}", number % NAMESPACES)),
        uid: Some(format!("8f14e45f-ceea-467f-a0e6-{number:012}")),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    SmallPod { metadata, node: node(number % nodes(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_is_written_once_before_any_is_written_again_in_another_state() {
        let objects = Objects::new(250);
        let names = |turns: std::ops::Range<usize>| {
            let mut names: Vec<_> =
                turns.map(|turn| objects.written(turn).metadata.name.clone().unwrap()).collect();
            names.sort();
            names.dedup();
            names.len()
        };
        assert_eq!((names(0..250), names(250..500)), (250, 250));
        let version = |turn| objects.written(turn).metadata.resource_version.clone().unwrap();
        assert_eq!([version(0), version(250), version(500)], ["2", "1", "2"]);
        assert_eq!(objects.nodes(), ["node-00000", "node-00001", "node-00002"]);
    }
}

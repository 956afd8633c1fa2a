//! `ClusterSharding`: the slots of the objects of many clusters.

use kube_informer::ObjectKey;
use kube_object::{ObjectIdRef, Shard, ShardKey, Slot, SlotSet};
use serde::{Deserialize, Serialize};

/// Selects how the slots of a shard group divide the objects of many clusters. See
/// [`Manager::clusters`](crate::Manager::clusters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterSharding {
    /// All objects of a cluster have the same slot, which depends on the name of the cluster. A process
    /// engages only the clusters in its slots, so its connections and caches are its share of all clusters.
    #[default]
    ByCluster,
    /// The slot depends on the name of the cluster and on the [`ShardKey`], so each slot contains a part of
    /// each cluster. Each process engages all clusters, and caches all their objects.
    ByKey,
}

impl ClusterSharding {
    /// Returns the slots of the objects of a cluster.
    pub(crate) fn slots_of(self, division: &Shard, cluster: &str) -> SlotSet {
        match self {
            Self::ByCluster => [slot_of_name(division, cluster, "")].into_iter().collect(),
            Self::ByKey => SlotSet::all(division.count),
        }
    }

    /// Returns the slot of an object of a cluster. `division` contains the key and the number of slots.
    pub(crate) fn slot_of(self, division: &Shard, cluster: &str, object: &ObjectKey) -> Slot {
        let text;
        let name = match (self, division.key, object.namespace()) {
            (Self::ByCluster, ..) => "",
            (Self::ByKey, ShardKey::Namespace, Some(namespace)) => namespace,
            (Self::ByKey, _, None) => object.name(),
            (Self::ByKey, _, Some(_)) => {
                text = object.to_string();
                &text
            }
        };
        slot_of_name(division, cluster, name)
    }
}

fn slot_of_name(division: &Shard, cluster: &str, name: &str) -> Slot {
    let by_name = Shard { key: ShardKey::Name, ..*division };
    by_name.slot_of(&ObjectIdRef::new(Some(cluster), name, "", ""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube_object::SlotCount;

    use super::*;

    /// Returns the number of slots of these objects.
    fn slots(sharding: ClusterSharding, key: ShardKey, objects: &[(&str, &str)]) -> usize {
        let division = Shard { key, count: SlotCount::default(), slots: SlotSet::default() };
        let slot = |(cluster, object): &(&str, &str)| {
            sharding.slot_of(&division, cluster, &object.parse::<ObjectKey>().unwrap())
        };
        objects.iter().map(slot).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn slot_depends_on_the_cluster_and_on_the_key() {
        let east = [("east", "a/x"), ("east", "a/y"), ("east", "b/x"), ("east", "node")];
        assert_eq!(slots(ClusterSharding::ByCluster, ShardKey::Name, &east), 1);
        assert_eq!(slots(ClusterSharding::ByKey, ShardKey::Namespace, &east), 3);
        assert_eq!(slots(ClusterSharding::ByKey, ShardKey::Name, &east), 4);
        for sharding in [ClusterSharding::ByCluster, ClusterSharding::ByKey] {
            let clusters = ["east", "west", "north"].map(|cluster| (cluster, "a/x"));
            assert_eq!(slots(sharding, ShardKey::Namespace, &clusters), 3);
        }
    }
}

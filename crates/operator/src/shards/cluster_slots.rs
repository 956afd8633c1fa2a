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

    /// Returns the mean number of clusters of the replica with most clusters, for many fleets. Each of the
    /// replicas owns the same number of slots, except for a remainder.
    fn mean_largest_share(clusters: usize, replicas: usize) -> f64 {
        const FLEETS: usize = 500;
        let division = Shard { key: ShardKey::Name, count: SlotCount::default(), slots: SlotSet::default() };
        let largest = |fleet: usize| {
            let mut counts = vec![0; replicas];
            for cluster in 0..clusters {
                let slot = slot_of_name(&division, &format!("fleet-{fleet}-cluster-{cluster}"), "");
                counts[usize::from(slot.0) % replicas] += 1;
            }
            counts.into_iter().max().unwrap_or(0)
        };
        (0..FLEETS).map(largest).sum::<usize>() as f64 / FLEETS as f64
    }

    /// `docs/clusters.md` contains these numbers.
    #[test]
    fn largest_share_of_three_replicas_is_13_of_30_and_38_of_100_clusters() {
        let shares = [30, 100].map(|clusters| mean_largest_share(clusters, 3).round());
        assert_eq!(shares, [13.0, 38.0]);
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

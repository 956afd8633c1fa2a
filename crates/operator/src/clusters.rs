//! Many clusters: keys that carry their cluster, and clusters that are added and removed while the program
//! runs.

mod cluster;
mod controller;
mod gate;
mod informer;
mod kubeconfig;
mod name;
mod provider;
mod registry;
mod run;
mod secrets;
mod source;
mod status;

pub(crate) use self::gate::ClusterShards;
pub use self::{
    cluster::Cluster,
    controller::{ClusterController, ClusterRequest},
    informer::{ClusterHandlerRegistration, ClusterIndex, ClusterInformer},
    kubeconfig::{ClusterConfigError, KubeconfigProvider},
    name::{ClusterKey, ClusterName, InvalidClusterName, ParseClusterKeyError},
    provider::{ClusterEngager, ClusterProvider},
    registry::Clusters,
    secrets::SecretProvider,
    status::{ClusterState, ClusterStatus},
};

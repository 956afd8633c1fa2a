//! An operator that reports the ConfigMaps of many clusters.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_operator::{
    Action, ClusterController, ClusterProvider, ClusterRequest, Failure, Manager, ManagerError,
    ManagerOptions,
};

/// Creates the operator. `client` belongs to the cluster of the operator, and `provider` reports the clusters
/// of the ConfigMaps. `print` receives a line for each reconcile, and for each cluster that leaves.
///
/// # Errors
///
/// Returns the errors of [`Manager::new`].
///
/// # Panics
///
/// Panics outside of a Tokio runtime.
pub fn operator(
    client: Client,
    provider: impl ClusterProvider,
    print: impl Fn(String) + Clone + Send + Sync + 'static,
) -> Result<Manager, ManagerError> {
    let mut manager =
        Manager::new(client, ManagerOptions { bind_address: None, ..ManagerOptions::default() })?;
    let clusters = manager.clusters(provider);
    let print_left = print.clone();
    clusters.on_disengage(move |cluster| print_left(format!("left      : {}", cluster.name())));
    let controller = ClusterController::new(&clusters.informer::<ConfigMap>());
    manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        let word = if request.object.is_present() { "found" } else { "deleted" };
        print(format!("{word:<10}: {} in cluster {}", request.key, request.cluster.name()));
        async { Ok::<_, Failure>(Action::AwaitChange) }
    });
    Ok(manager)
}

//! The operator cluster-names on kube-operator.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::Client;
use kube_operator::{
    Action, ClusterController, ClusterRequest, ElectionOptions, Failure, Manager, ManagerOptions,
    SecretProvider, shutdown_signal,
};
use tracing_subscriber::EnvFilter;

async fn reconcile(request: ClusterRequest<Deployment>) -> Result<Action, Failure> {
    let Some(deployment) = request.object.present() else { return Ok(Action::AwaitChange) };
    let mut map = ConfigMap::default();
    map.metadata.name = deployment.metadata.name.clone();
    map.metadata.namespace = deployment.metadata.namespace.clone();
    map.data = Some([("cluster".to_owned(), request.cluster.name().to_string())].into());
    let client = request.cluster.cached_client("cluster-names").force();
    client.apply_owned(&*deployment, map).await?;
    Ok(Action::Done)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let client = Client::try_default().await?;
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(client.default_namespace(), "cluster-names")),
        bind_address: None,
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options)?;
    let secrets = manager.factory().select::<Secret>().namespace("fleet").labels("example.com/cluster=true");
    let clusters = manager.clusters(SecretProvider::new(&secrets.informer()?));
    let controller = ClusterController::new(&clusters.informer::<Deployment>())
        .owns(&clusters.informer::<ConfigMap>())
        .concurrency(4);
    manager.add_cluster_controller(controller, reconcile);
    manager.run_and_exit(shutdown_signal()).await
}

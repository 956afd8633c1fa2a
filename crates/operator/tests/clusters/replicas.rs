//! Several replicas of an operator with many clusters.

use kube_operator::{ElectionOptions, Leadership};

use super::*;

/// Returns a replica on this hub, the record of its reconciles, and its leadership.
fn replica(hub: &Server, identity: &str) -> (World, Record, Leadership) {
    let mut election = ElectionOptions::new("default", "operator");
    election.identity = identity.to_owned();
    let options =
        ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
    let mut world = World::on(hub.clone(), options);
    let record = Record::default();
    let recorded = Arc::clone(&record);
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>());
    world.manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        let recorded = Arc::clone(&recorded);
        async move {
            let metadata = json!({"name": request.key.name(), "namespace": request.key.namespace()});
            let seen: ConfigMap =
                serde_json::from_value(json!({"metadata": metadata, "data": {"seen": "yes"}}))?;
            request.cluster.cached_client("test").force().apply(&seen).await?;
            recorded.lock().push(format!("{}/{}", request.cluster.name(), request.key));
            Ok::<_, Failure>(Action::Done)
        }
    });
    let leadership = world.manager.leadership();
    (world, record, leadership)
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_reconciles_and_followers_have_warm_caches() {
    let (hub, east) = (Server::new(), server("east"));
    let (first, of_first, leads) = replica(&hub, "first");
    let maps = first.clusters.informer::<ConfigMap>();
    let first = first.run().await;
    leads.acquired().await;
    first.engage("east", &east);
    let (second, of_second, _) = replica(&hub, "second");
    let warm = second.clusters.informer::<ConfigMap>();
    let clusters = second.clusters.clone();
    let second = second.run().await;
    second.engage("east", &east);
    sleep(30 * SECOND).await;
    assert!(!of_first.lock().is_empty());
    assert_eq!((take(&of_second).len(), warm.len(), maps.len()), (0, 1, 1));
    // A follower must not write.
    let api = kube_client::Api::<ConfigMap>::default_namespaced(clusters.get("east").unwrap().client());
    let refused = api.delete("web", &kube_client::api::DeleteParams::default()).await;
    assert!(refused.is_err(), "{refused:?}");
    first.stop().await;
    sleep(60 * SECOND).await;
    assert_eq!(of_second.lock().first().map(String::as_str), Some("east/default/web"));
    second.stop().await;
}

//! The log of a manager with a cluster that fails. Each test starts with [`Logged::begin`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Client;
use kube_operator::{
    Action, ClusterController, ClusterEngager, ClusterName, ClusterRequest, ClusterState, Failure, Manager,
    ManagerOptions,
};
use kube_testserver::{Fault, RequestMatch, Server, Status};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

const SECOND: Duration = Duration::from_secs(1);

fn log(logged: &Logged) -> String {
    logged.text_of(|name| name.starts_with("kube_") && name != "kube_client")
}

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

/// The token of a cluster is invalid for an hour, before its first list or while it is watched.
#[tokio::test(start_paused = true)]
async fn cluster_that_is_unauthorized_for_an_hour_is_reported_once() {
    for is_synced_before in [false, true] {
        let logged = Logged::begin();
        let (bad, good) = (Server::new(), Server::new());
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let mut manager = Manager::new(Client::new(Server::new().service(), "default"), options).unwrap();
        let engaged = [("bad", &bad), ("good", &good)].map(|(name, server)| {
            (ClusterName::new(name).unwrap(), Client::new(server.service(), "default"))
        });
        let clusters = manager.clusters(async move |clusters: ClusterEngager, _| {
            engaged.into_iter().for_each(|(name, client)| clusters.engage(&name, client));
            Ok::<_, Failure>(())
        });
        let maps = clusters.informer::<ConfigMap>();
        let controller = ClusterController::new(&maps).owns(&clusters.informer::<Secret>());
        let reconciles = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reconciles);
        manager.add_cluster_controller(controller, move |_: ClusterRequest<ConfigMap>| {
            count.fetch_add(1, SeqCst);
            async { Ok::<_, Failure>(Action::Done) }
        });
        let unauthorized = || bad.faults().always(RequestMatch::any(), Fault::Status(Status::unauthorized()));
        let mut fault = (!is_synced_before).then(unauthorized);
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        sleep(20 * SECOND).await;
        fault.get_or_insert_with(unauthorized);
        bad.close_watches();
        let requests = bad.journal().requests().len();
        sleep(3600 * SECOND).await;
        clusters.check_initial().unwrap();
        let states: Vec<_> = clusters.status().into_iter().map(|cluster| cluster.state).collect();
        assert_eq!(states, [ClusterState::Failing, ClusterState::Synced]);
        let requests = bad.journal().requests().len() - requests;
        assert!((100..400).contains(&requests), "{requests} requests of two informers");
        let text = log(&logged);
        assert_eq!(text.matches("level=").count(), 1, "{text}");
        for expected in ["message=cluster fails; retrying; other", "cluster=bad", "401"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        create(&good, "a");
        create(&bad, "b");
        sleep(SECOND).await;
        assert_eq!(reconciles.load(SeqCst), 1, "the good cluster works");
        drop(fault);
        sleep(120 * SECOND).await;
        assert_eq!(reconciles.load(SeqCst), 2, "the cluster works again");
        let text = log(&logged);
        assert!(text.contains("message=cluster works again"), "{text}");
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

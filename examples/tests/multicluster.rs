//! Tests of the `multicluster` operator on API servers in memory, under a paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube_client::Client;
use kube_informer_examples::multicluster::operator;
use kube_operator::{ClusterEngager, ClusterName, Failure};
use kube_testserver::Server;
use serde_json::json;
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_leaves_and_returns() {
    let (sender, set) = oneshot::channel();
    let provider = async move |clusters: ClusterEngager, stop: CancellationToken| {
        sender.send(clusters).unwrap();
        stop.cancelled().await;
        Ok::<_, Failure>(())
    };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let printed = Arc::clone(&lines);
    let print = move |line: String| printed.lock().unwrap().push(line);
    let take = || {
        let mut taken = std::mem::take(&mut *lines.lock().unwrap());
        taken.sort_unstable();
        taken
    };
    let manager = operator(client(&Server::new()), provider, print).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let clusters = set.await.unwrap();
    let [(east, east_server), (west, west_server)] =
        ["east", "west"].map(|name| (ClusterName::new(name).unwrap(), Server::new()));
    let second = Duration::from_secs(1);

    create(&east_server, "a");
    create(&west_server, "b");
    clusters.engage(&east, client(&east_server));
    clusters.engage(&west, client(&west_server));
    sleep(second).await;
    assert_eq!(take(), ["found     : default/a in cluster east", "found     : default/b in cluster west"]);

    clusters.disengage(&west);
    sleep(second).await;
    create(&west_server, "c");
    create(&east_server, "d");
    sleep(second).await;
    assert_eq!(take(), ["found     : default/d in cluster east", "left      : west"]);

    clusters.engage(&west, client(&west_server));
    sleep(second).await;
    assert_eq!(take(), ["found     : default/b in cluster west", "found     : default/c in cluster west"]);
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(take().is_empty());
}

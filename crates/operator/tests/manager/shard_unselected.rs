//! Tests of objects that leave the selection of their informer while their slot has no owner or moves.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_operator::{
    Action, Cleanup, Controller, Failure, Finalizer, Manager, ManagerOptions, Request, ShardOptions,
};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::shards::{NAMESPACES, Process, SECOND, client, run, server, wait_until};

const FINALIZER: &str = "example.com/maps";

/// Starts a process that manages the ConfigMaps with the label `app=web`. It adds a finalizer, and removes it
/// after the label was removed.
fn start(server: &Server) -> Process {
    let shards = ShardOptions::new("default", "operator");
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    let mut manager = Manager::new(client(server), options).unwrap();
    let client = manager.cached_client("maps");
    client.use_informer(&manager.factory().select::<ConfigMap>().labels("app=web").informer().unwrap());
    let maps = client.api::<ConfigMap>().unwrap();
    let controller = Controller::new(&maps).reconcile_unselected(&maps, FINALIZER).unwrap();
    let finalizer = Arc::new(Finalizer::new(FINALIZER));
    let reconcile = move |request: Request<ConfigMap>| {
        let finalizer = Arc::clone(&finalizer);
        let maps = maps.namespace(request.key.namespace().unwrap_or_default());
        async move {
            let apply = async |map: Arc<ConfigMap>| {
                if map.data.as_ref().is_some_and(|data| data.contains_key("slow")) {
                    sleep(10 * SECOND).await;
                }
                Ok::<_, Failure>(Action::Done)
            };
            let clean_up = async |_| Ok::<_, Failure>(Cleanup::Done);
            finalizer.reconcile(&maps, request.object, apply, clean_up).await
        }
    };
    manager.add_controller(controller.concurrency(NAMESPACES), reconcile);
    run(manager)
}

fn label(server: &Server, value: Option<&str>) {
    patch(server, &json!({"metadata": {"labels": {"app": value}}}));
}

fn patch(server: &Server, patch: &Value) {
    for number in 0..NAMESPACES {
        server.patch_untyped("v1", "ConfigMap", Some(&format!("team-{number}")), "first", patch).unwrap();
    }
}

/// Returns the number of ConfigMaps with the finalizer.
fn managed(server: &Server) -> usize {
    let maps = server.list_untyped("v1", "ConfigMap", None).unwrap();
    maps.iter().filter(|map| map["metadata"]["finalizers"] == json!([FINALIZER])).count()
}

/// Starts a server with labelled ConfigMaps, and a process that has added its finalizer to all of them.
async fn start_first() -> (Server, Process) {
    let server = server();
    label(&server, Some("web"));
    let first = start(&server);
    wait_until(|| managed(&server) == NAMESPACES).await;
    (server, first)
}

/// Waits for two minutes. A lease expires after 15 s.
async fn wait_until_unmanaged(server: &Server) {
    timeout(120 * SECOND, wait_until(|| managed(server) == 0)).await.expect("objects keep their finalizers");
}

#[tokio::test(start_paused = true)]
async fn object_that_left_the_selection_without_an_owner_is_reconciled() {
    let (server, first) = start_first().await;
    first.task.abort();
    label(&server, None);
    let second = start(&server);
    wait_until_unmanaged(&server).await;
    second.task.abort();
}

#[tokio::test(start_paused = true)]
async fn object_that_left_the_selection_during_a_move_is_reconciled() {
    let (server, first) = start_first().await;
    let second = start(&server);
    // When the slots are about to move, long reconciles start.
    wait_until(|| !second.slots.wanted().is_empty()).await;
    sleep(4 * SECOND).await;
    patch(&server, &json!({"data": {"slow": "true"}}));
    // The slots wait for these reconciles. The first process starts no further reconciles in them.
    sleep(4 * SECOND).await;
    assert!(second.slots.get().len() < 32, "slots with running reconciles do not move");
    label(&server, None);
    wait_until_unmanaged(&server).await;
    first.task.abort();
    second.task.abort();
}

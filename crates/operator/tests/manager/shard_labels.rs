//! Tests of owned objects with a label that contains their slot, so that the server filters them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Api;
use kube_informer::{CachedApi, Lister};
use kube_operator::{
    Action, Applier, CachedSlots, Controller, Failure, Manager, ManagerOptions, Request, ShardOptions,
};
use kube_testserver::{Server, Verb};
use serde_json::json;
use tokio::time::sleep;

use super::shards::{NAMESPACES, Process, SECOND, client, run, server, wait_until};

const LABEL: &str = "example.com/slot";

/// Starts a process that applies a Secret for each ConfigMap.
fn start(server: &Server, shards: ShardOptions) -> (Process, Lister<Secret>) {
    let applier = Arc::new(Applier::new("operator").force().slot_label(LABEL, &shards));
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    let mut manager = Manager::new(client(server), options).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let secrets = manager.factory().select::<Secret>().slot_label(LABEL).informer().unwrap();
    let (cached, client) = (secrets.clone(), manager.client());
    let reconcile = move |request: Request<ConfigMap>| {
        let (applier, cached, client) = (Arc::clone(&applier), cached.clone(), client.clone());
        async move {
            let Some(map) = request.object.present() else { return Ok(Action::Done) };
            let namespace = request.key.namespace().unwrap();
            let api = CachedApi::new(Api::namespaced(client, namespace), &cached);
            let mut secret = Secret::default();
            secret.metadata.name = Some(request.key.name().to_owned());
            secret.metadata.namespace = Some(namespace.to_owned());
            applier.apply_owned(&api, &*map, secret).await?;
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).owns(&secrets).concurrency(4), reconcile);
    (run(manager), secrets.lister())
}

/// Returns the queries of the lists and watches of Secrets, and the number of writes of Secrets.
fn secret_requests(server: &Server) -> (Vec<String>, usize) {
    let requests = server.journal().requests();
    let of_secrets = requests.iter().filter(|request| request.info.resource == "secrets");
    let of_secrets = of_secrets.filter(|request| request.info.verb != Verb::Get);
    let is_read = |verb| matches!(verb, Verb::List | Verb::Watch);
    let (reads, writes): (Vec<_>, Vec<_>) = of_secrets.partition(|request| is_read(request.info.verb));
    (reads.into_iter().map(|request| request.query.clone()).collect(), writes.len())
}

#[tokio::test(start_paused = true)]
async fn server_sends_only_owned_objects_of_the_own_slots() {
    let server = server();
    // Another program created an object without the label.
    let metadata = json!({"name": "other", "namespace": "team-0"});
    server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
    let shards = || ShardOptions { caches: CachedSlots::Own, ..ShardOptions::new("default", "operator") };
    let (first, first_secrets) = start(&server, shards());
    let (second, second_secrets) = start(&server, shards());
    wait_until(|| first.slots.get().len() == 32 && second.slots.get().len() == 32).await;
    wait_until(|| first_secrets.len() + second_secrets.len() == NAMESPACES).await;
    sleep(30 * SECOND).await;
    assert_eq!(first_secrets.len() + second_secrets.len(), NAMESPACES, "each Secret is in one cache");
    let (reads, writes) = secret_requests(&server);
    assert_eq!(writes, NAMESPACES, "each Secret is created once");
    assert!(reads.iter().all(|query| query.starts_with("labelSelector=example.com%2Fslot")), "{reads:?}");
    let selects_slots = |query: &&String| query.contains("example.com%2Fslot+in+%28");
    assert!(reads.iter().filter(selects_slots).count() >= 2, "the list and the watch of 32 slots: {reads:?}");

    first.task.abort();
    wait_until(|| second_secrets.len() == NAMESPACES).await;
    sleep(30 * SECOND).await;
    assert_eq!(secret_requests(&server).1, NAMESPACES, "the new owner finds the Secrets of the slots");

    // A deleted Secret is created again with its label.
    server.delete_untyped("v1", "Secret", Some("team-7"), "first").unwrap();
    wait_until(|| second_secrets.len() == NAMESPACES).await;
    wait_until(|| secret_requests(&server).1 == NAMESPACES + 1).await;
    let secret = server.get_untyped("v1", "Secret", Some("team-7"), "first").unwrap();
    assert!(secret["metadata"]["labels"][LABEL].is_string(), "{secret}");
    second.task.abort();
}

/// An object without its label is not cached, so the operator cannot check its owner before the apply.
#[tokio::test(start_paused = true)]
async fn changed_label_is_restored() {
    let server = server();
    let shards = ShardOptions { caches: CachedSlots::Own, ..ShardOptions::new("default", "operator") };
    let (process, secrets) = start(&server, shards);
    wait_until(|| secrets.len() == NAMESPACES).await;
    let label = || {
        server.get_untyped("v1", "Secret", Some("team-7"), "first").unwrap()["metadata"]["labels"][LABEL]
            .take()
    };
    let expected = label();
    for changed in [json!(null), json!("77")] {
        let patch = json!({"metadata": {"labels": {LABEL: changed}}});
        server.patch_untyped("v1", "Secret", Some("team-7"), "first", &patch).unwrap();
        sleep(600 * SECOND).await;
        assert_eq!((label(), secrets.len()), (expected.clone(), NAMESPACES), "{changed}");
    }
    process.task.abort();
}

/// Without shards, the label has no effect on the requests.
#[tokio::test(start_paused = true)]
async fn caches_of_all_slots_ignore_the_label() {
    let server = server();
    let (process, secrets) = start(&server, ShardOptions::new("default", "operator"));
    wait_until(|| secrets.len() == NAMESPACES).await;
    let (reads, _) = secret_requests(&server);
    assert!(!reads.is_empty() && reads.iter().all(|query| !query.contains("labelSelector")), "{reads:?}");
    process.task.abort();
}

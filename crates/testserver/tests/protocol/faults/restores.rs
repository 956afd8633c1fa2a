//! etcd restored from a backup, in both ways.

use std::time::Duration;

use kube_testserver::{Disruption, Fault, RequestMatch, Server};
use serde_json::json;
use tokio::time::timeout;

use crate::ask::{Lines, R, configmaps, get, seen, server};

#[tokio::test(start_paused = true)]
async fn below_the_clients_version_a_watch_is_silent_and_a_list_too_large() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b", "c"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    server.restore(backup).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let mut resumed = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    let list = get(&server, &format!("{R}?resourceVersion={client}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!((list.code, &list.json()["reason"]), (504, &"Timeout".into()));
    assert_eq!(get(&server, R).await.names(), ["a"]);
    configmaps(&server, &["x"]);
    assert!(timeout(Duration::from_secs(60), resumed.line()).await.is_err());
    let passed = configmaps(&server, &["y", "z"]);
    assert_eq!(passed, client + 1);
    assert_eq!(resumed.event().await, seen("ADDED", "z", passed));
}

#[tokio::test(start_paused = true)]
async fn with_bumped_revisions_all_that_was_is_expired() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={client}")).await;
    server.restore_bumped(backup, 1_000_000_000).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let resumed = get(&server, &format!("{R}?watch=1&resourceVersion={client}&timeoutSeconds=1")).await;
    assert!(resumed.text.contains("\"code\":410"), "{}", resumed.text);
    let exact = get(&server, &format!("{R}?resourceVersion={client}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 410);
    let list = get(&server, &format!("{R}?resourceVersion={client}")).await;
    assert_eq!(list.names(), ["a"]);
    let version = backup + 1_000_000_000;
    assert_eq!(list.json()["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(list.json()["items"][0]["metadata"]["resourceVersion"], backup.to_string());
    assert_eq!(configmaps(&server, &["c"]), version + 1);
    assert_eq!(server.restore(backup - 1).unwrap_err().code(), 410);
}

#[tokio::test]
async fn a_restore_within_a_fault_loses_as_much_as_there_is() {
    let server = Server::builder().history(2).build();
    configmaps(&server, &["a", "b", "c", "d"]);
    server.faults().next(RequestMatch::any(), Fault::Disrupt(Disruption::Restore { back: 1 }));
    assert_eq!(get(&server, R).await.names(), ["a", "b", "c"]);
    server.disrupt(Disruption::RestoreBumped { back: 100, bump: 50 });
    assert_eq!(get(&server, R).await.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_restore_to_the_future_loses_nothing() {
    let server = server();
    let now = configmaps(&server, &["a"]);
    server.restore(u64::MAX).unwrap();
    assert_eq!(server.resource_version(), now);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={now}")).await;
    let next = configmaps(&server, &["b"]);
    assert_eq!(watch.event().await, seen("ADDED", "b", next));
}

#[tokio::test(start_paused = true)]
async fn a_bump_leaves_room_for_writes() {
    let server = server();
    let now = configmaps(&server, &["a"]);
    server.restore_bumped(now, u64::MAX).unwrap();
    configmaps(&server, &["b"]);
    assert_eq!(get(&server, R).await.names().len(), 2);
    server.restore_bumped(server.resource_version(), u64::MAX).unwrap();
    configmaps(&server, &["c"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_back_beyond_the_new_server() {
    let server = server();
    configmaps(&server, &["a"]);
    assert_eq!(server.restore(0).unwrap_err().code(), 410);
    server.disrupt(Disruption::Restore { back: u64::MAX });
    assert_eq!(server.resource_version(), Server::new().resource_version());
    assert!(server.get("v1", "Namespace", None, "default").is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_crds_of_then_are_served_after_a_restore() {
    let server = server();
    let before = configmaps(&server, &["a"]);
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    server.create(crd).unwrap();
    server
        .create(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}))
        .unwrap();
    let then = server.resource_version();
    server
        .delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
        .unwrap();
    assert!(server.get("example.com/v1", "Widget", None, "w").is_err());
    server.restore(then).unwrap();
    assert!(
        server
            .get("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
            .is_ok()
    );
    assert!(server.get("example.com/v1", "Widget", None, "w").is_ok());
    let path = format!("/apis/example.com/v1/widgets?watch=1&resourceVersion={then}");
    let mut watch = Lines::open(&server, &path).await;
    server
        .create(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}}))
        .unwrap();
    assert_eq!(watch.event().await.1, "x");
    server.restore(before).unwrap();
    assert!(server.get("example.com/v1", "Widget", None, "w").is_err());
    assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_guard_heals_its_own_damage_only() {
    let server = server();
    let then = configmaps(&server, &["a"]);
    let one = server.corrupt("v1", "ConfigMap", Some("r"), "a").unwrap();
    server.restore(then).unwrap();
    let two = server.corrupt("v1", "ConfigMap", Some("r"), "a").unwrap();
    assert_eq!(one.resource_version(), two.resource_version());
    drop(one);
    assert_eq!(get(&server, &format!("{R}/a")).await.code, 500);
    drop(two);
    assert_eq!(get(&server, &format!("{R}/a")).await.code, 200);
}

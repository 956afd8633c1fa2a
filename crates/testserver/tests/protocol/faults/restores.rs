//! Restores of etcd from a backup, with and without a version bump.

use std::time::Duration;

use kube_testserver::{Disruption, Fault, RequestMatch, Server};
use serde_json::json;
use tokio::time::timeout;

use crate::client::{CONFIGMAPS, Lines, configmaps, event, get, server};

#[tokio::test(start_paused = true)]
async fn restore_makes_newer_watches_silent_and_lists_too_large() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b", "c"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={client}")).await;
    server.restore(backup).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let mut resumed = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={client}")).await;
    let list =
        get(&server, &format!("{CONFIGMAPS}?resourceVersion={client}&resourceVersionMatch=NotOlderThan"))
            .await;
    assert_eq!((list.code, &list.json()["reason"]), (504, &"Timeout".into()));
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a"]);
    configmaps(&server, &["x"]);
    assert!(timeout(Duration::from_secs(60), resumed.line()).await.is_err());
    let passed = configmaps(&server, &["y", "z"]);
    assert_eq!(passed, client + 1);
    assert_eq!(resumed.event().await, event("ADDED", "z", passed));
}

#[tokio::test(start_paused = true)]
async fn bumped_restore_expires_all_older_versions() {
    let server = server();
    let backup = configmaps(&server, &["a"]);
    let client = configmaps(&server, &["b"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={client}")).await;
    server.restore_bumped(backup, 1_000_000_000).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    let resumed =
        get(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={client}&timeoutSeconds=1")).await;
    assert!(resumed.text.contains("\"code\":410"), "{}", resumed.text);
    let exact =
        get(&server, &format!("{CONFIGMAPS}?resourceVersion={client}&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 410);
    let list = get(&server, &format!("{CONFIGMAPS}?resourceVersion={client}")).await;
    assert_eq!(list.names(), ["a"]);
    let version = backup + 1_000_000_000;
    assert_eq!(list.json()["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(list.json()["items"][0]["metadata"]["resourceVersion"], backup.to_string());
    assert_eq!(configmaps(&server, &["c"]), version + 1);
    assert_eq!(server.restore(backup - 1).unwrap_err().code(), 410);
}

#[tokio::test]
async fn restore_fault_is_limited_by_the_history() {
    let server = Server::builder().history(2).build();
    configmaps(&server, &["a", "b", "c", "d"]);
    server.faults().next(RequestMatch::any(), Fault::Disrupt(Disruption::Restore { back: 1 }));
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a", "b", "c"]);
    server.disrupt(Disruption::RestoreBumped { back: 100, bump: 50 });
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn restore_to_a_future_version_keeps_all_writes() {
    let server = server();
    let now = configmaps(&server, &["a"]);
    server.restore(u64::MAX).unwrap();
    assert_eq!(server.resource_version(), now);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={now}")).await;
    let next = configmaps(&server, &["b"]);
    assert_eq!(watch.event().await, event("ADDED", "b", next));
}

#[tokio::test(start_paused = true)]
async fn maximum_bump_still_permits_writes() {
    let server = server();
    let now = configmaps(&server, &["a"]);
    server.restore_bumped(now, u64::MAX).unwrap();
    configmaps(&server, &["b"]);
    assert_eq!(get(&server, CONFIGMAPS).await.names().len(), 2);
    server.restore_bumped(server.resource_version(), u64::MAX).unwrap();
    configmaps(&server, &["c"]);
}

#[tokio::test(start_paused = true)]
async fn restore_before_the_first_version_is_rejected() {
    let server = server();
    configmaps(&server, &["a"]);
    assert_eq!(server.restore(0).unwrap_err().code(), 410);
    server.disrupt(Disruption::Restore { back: u64::MAX });
    assert_eq!(server.resource_version(), Server::new().resource_version());
    assert!(server.get_untyped("v1", "Namespace", None, "default").is_ok());
}

#[tokio::test(start_paused = true)]
async fn restore_serves_the_crds_of_the_restored_version() {
    let server = server();
    let before = configmaps(&server, &["a"]);
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    server.create(&crd).unwrap();
    server
        .create(&json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}))
        .unwrap();
    let then = server.resource_version();
    server
        .delete_untyped("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
        .unwrap();
    assert!(server.get_untyped("example.com/v1", "Widget", None, "w").is_err());
    server.restore(then).unwrap();
    assert!(
        server
            .get_untyped("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
            .is_ok()
    );
    assert!(server.get_untyped("example.com/v1", "Widget", None, "w").is_ok());
    let path = format!("/apis/example.com/v1/widgets?watch=1&resourceVersion={then}");
    let mut watch = Lines::open(&server, &path).await;
    server
        .create(&json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}}))
        .unwrap();
    assert_eq!(watch.event().await.1, "x");
    server.restore(before).unwrap();
    assert!(server.get_untyped("example.com/v1", "Widget", None, "w").is_err());
    assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn continue_token_of_lost_version_is_rejected() {
    let server = server();
    let before = configmaps(&server, &["a", "b"]);
    configmaps(&server, &["c"]);
    let page = get(&server, &format!("{CONFIGMAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    server.restore(before).unwrap();
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?limit=1&continue={token}")).await.code, 504);
}

#[tokio::test(start_paused = true)]
async fn corruption_guard_repairs_only_its_object_version() {
    let server = server();
    let then = configmaps(&server, &["a"]);
    let one = server.corrupt("v1", "ConfigMap", Some("r"), "a").unwrap();
    server.restore(then).unwrap();
    let two = server.corrupt("v1", "ConfigMap", Some("r"), "a").unwrap();
    assert_eq!(one.resource_version(), two.resource_version());
    drop(one);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.code, 500);
    drop(two);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.code, 200);
}

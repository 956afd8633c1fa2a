//! Deletion: finalizers, grace periods, collections and namespaces.

use serde_json::json;

use crate::client::{CONFIGMAPS, Lines, configmaps, delete, event, get, merge, post, server};

#[tokio::test]
async fn delete_returns_a_status_and_checks_preconditions() {
    let server = server();
    let version = configmaps(&server, &["c1"]);
    let c1 = format!("{CONFIGMAPS}/c1");
    let uid = get(&server, &c1).await.json()["metadata"]["uid"].as_str().unwrap().to_owned();
    let wrong = delete(&server, &c1, r#"{"preconditions":{"resourceVersion":"1"}}"#).await;
    assert_eq!(
        wrong.message(),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"c1\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )
    );
    let wrong = delete(&server, &c1, r#"{"preconditions":{"uid":"x"}}"#).await;
    assert_eq!((wrong.code, wrong.json()["details"]["kind"].as_str()), (409, Some("ConfigMap")));
    let done = delete(&server, &c1, "").await;
    let details = json!({"name": "c1", "kind": "configmaps", "uid": uid});
    assert_eq!(
        done.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    );
    let again = delete(&server, &c1, "").await;
    assert_eq!((again.code, again.message().as_str()), (404, "configmaps \"c1\" not found"));
}

#[tokio::test]
async fn finalizers_block_deletion_until_the_last_is_removed() {
    let server = server();
    configmaps(&server, &["fin"]);
    let fin = format!("{CONFIGMAPS}/fin");
    merge(&server, &fin, json!({"metadata": {"finalizers": ["example.com/f"]}})).await;
    let marked = delete(&server, &fin, "").await.json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let version = server.resource_version();
    assert_eq!(delete(&server, &fin, "").await.code, 200);
    assert_eq!(server.resource_version(), version);
    let more =
        merge(&server, &fin, json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}})).await;
    assert_eq!(
        more.message(),
        "ConfigMap \"fin\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}"
    );
    let removed = merge(&server, &fin, json!({"metadata": {"finalizers": null}})).await.json();
    assert_eq!(removed["metadata"]["resourceVersion"], version.to_string());
    assert_eq!(removed["metadata"].get("finalizers"), None);
    assert_eq!(get(&server, &fin).await.code, 404);
    assert_eq!(server.resource_version(), version + 1);
}

#[tokio::test]
async fn only_scheduled_pods_have_a_deletion_grace_period() {
    let server = server();
    configmaps(&server, &[]);
    let pods = "/api/v1/namespaces/r/pods";
    for (name, spec) in [
        ("p1", json!({"containers": [{"name": "c", "image": "i"}]})),
        ("p4", json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"})),
    ] {
        post(&server, pods, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{pods}?watch=1&resourceVersion={start}")).await;
    let unbound = delete(&server, &format!("{pods}/p1"), "").await.json();
    assert_eq!(unbound["kind"], "Pod");
    let bound = delete(&server, &format!("{pods}/p4"), "").await.json();
    assert_eq!(bound["metadata"]["deletionTimestamp"], "2026-11-21T02:26:10Z");
    assert_eq!(bound["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(bound["metadata"]["generation"], 2);
    delete(&server, &format!("{pods}/p4"), "").await;
    delete(&server, &format!("{pods}/p4?gracePeriodSeconds=0"), "").await;
    for expected in [
        event("MODIFIED", "p1", start + 1),
        event("DELETED", "p1", start + 2),
        event("MODIFIED", "p4", start + 3),
        event("MODIFIED", "p4", start + 4),
        event("DELETED", "p4", start + 5),
    ] {
        assert_eq!(watch.event().await, expected);
    }
}

#[tokio::test]
async fn namespace_is_terminating_then_emptied_then_deleted() {
    let server = server();
    let start = configmaps(&server, &["x"]);
    let path = format!("/api/v1/namespaces?watch=1&resourceVersion={start}");
    let mut namespaces = Lines::open(&server, &path).await;
    let mut maps = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let response = delete(&server, "/api/v1/namespaces/r", "").await.json();
    assert_eq!(response["status"]["phase"], "Terminating");
    assert_eq!(namespaces.event().await, event("MODIFIED", "r", start + 1));
    assert_eq!(maps.event().await, event("DELETED", "x", start + 2));
    assert_eq!(namespaces.event().await, event("DELETED", "r", start + 3));
    assert_eq!(get(&server, "/api/v1/namespaces/r").await.code, 404);
    let kept = delete(&server, "/api/v1/namespaces/default", "").await;
    assert_eq!(kept.message(), "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

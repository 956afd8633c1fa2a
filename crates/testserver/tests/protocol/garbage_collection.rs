//! The garbage collector: deletion of dependents, orphans, and the order of deletions.

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::client::{CONFIGMAPS, Lines, configmaps, delete, get, merge, post};

fn server() -> Server {
    let server = Server::builder().garbage_collector(true).build();
    configmaps(&server, &[]);
    server
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true
    })
}

async fn owned(server: &Server, name: &str, owners: &[Value]) -> Value {
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
    let created = post(server, CONFIGMAPS, body).await;
    assert_eq!(created.code, 201, "{}", created.text);
    created.json()
}

async fn names(server: &Server) -> Vec<String> {
    get(server, CONFIGMAPS).await.names()
}

async fn one(server: &Server, name: &str) -> Value {
    get(server, &format!("{CONFIGMAPS}/{name}")).await.json()
}

async fn remove(server: &Server, name: &str, policy: &str) -> Value {
    delete(server, &format!("{CONFIGMAPS}/{name}?propagationPolicy={policy}"), "").await.json()
}

#[tokio::test]
async fn dependents_remain_without_garbage_collector() {
    let server = Server::new();
    configmaps(&server, &[]);
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", &[a]).await;
    remove(&server, "a", "Background").await;
    assert_eq!(names(&server).await, ["b"]);
}

#[tokio::test]
async fn deletion_of_a_crd_removes_the_dependents_of_its_objects() {
    let server = server();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    server.create(&crd).unwrap();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "r"}});
    let widget = server.create(&widget).unwrap();
    let unknown =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "uid": "u"}});
    let a = owned(&server, "a", std::slice::from_ref(&widget)).await;
    owned(&server, "b", &[a]).await;
    owned(&server, "c", &[unknown]).await;
    server
        .delete_untyped("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "widgets.example.com")
        .unwrap();
    assert_eq!(names(&server).await, ["c"]);
}

#[tokio::test]
async fn background_delete_removes_all_transitive_dependents() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    let c = owned(&server, "c", &[b]).await;
    let other = owned(&server, "other", &[]).await;
    owned(&server, "d", &[c.clone(), other.clone()]).await;
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    assert_eq!(remove(&server, "a", "Background").await["status"], "Success");
    assert_eq!(names(&server).await, ["d", "other"]);
    assert_eq!(one(&server, "d").await["metadata"]["ownerReferences"], json!([reference(&other)]));
    for (kind, name) in [("DELETED", "a"), ("DELETED", "b"), ("DELETED", "c"), ("MODIFIED", "d")] {
        let (event, object, _) = watch.event().await;
        assert_eq!((event.as_str(), object.as_str()), (kind, name));
    }
}

#[tokio::test]
async fn foreground_delete_removes_blocking_dependents_first() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    owned(&server, "c", &[b]).await;
    merge(&server, &format!("{CONFIGMAPS}/c"), json!({"metadata": {"finalizers": ["x.test/f"]}})).await;
    let marked = remove(&server, "a", "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(names(&server).await, ["a", "b", "c"]);
    assert_eq!(one(&server, "b").await["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(one(&server, "c").await["metadata"]["deletionTimestamp"].is_string());
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    merge(&server, &format!("{CONFIGMAPS}/c"), json!({"metadata": {"finalizers": null}})).await;
    assert!(names(&server).await.is_empty());
    for name in ["c", "b", "a"] {
        let (event, object, _) = watch.event().await;
        assert_eq!((event.as_str(), object.as_str()), ("DELETED", name));
    }
}

#[tokio::test]
async fn non_blocking_dependent_is_deleted_after_its_owner() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let mut loose = reference(&a);
    loose["blockOwnerDeletion"] = false.into();
    let body = json!({"metadata": {"name": "b", "finalizers": ["x.test/f"], "ownerReferences": [loose]}});
    post(&server, CONFIGMAPS, body).await;
    remove(&server, "a", "Foreground").await;
    assert_eq!(names(&server).await, ["b"]);
    assert!(one(&server, "b").await["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn orphan_delete_keeps_dependents_and_removes_the_reference() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let z = owned(&server, "z", &[]).await;
    owned(&server, "b", std::slice::from_ref(&a)).await;
    owned(&server, "c", &[a.clone(), z.clone()]).await;
    let marked = remove(&server, "a", "Orphan").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(names(&server).await, ["b", "c", "z"]);
    assert_eq!(one(&server, "b").await["metadata"].get("ownerReferences"), None);
    assert_eq!(one(&server, "c").await["metadata"]["ownerReferences"], json!([reference(&z)]));
}

#[tokio::test]
async fn object_with_unknown_owner_uid_is_deleted_immediately() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let mut stranger = a.clone();
    stranger["metadata"]["uid"] = "another".into();
    let created = owned(&server, "b", std::slice::from_ref(&stranger)).await;
    assert_eq!(created["metadata"]["name"], "b");
    assert_eq!(names(&server).await, ["a"]);
    owned(&server, "c", &[stranger, a.clone()]).await;
    assert_eq!(one(&server, "c").await["metadata"]["ownerReferences"], json!([reference(&a)]));
}

#[tokio::test]
async fn owner_must_be_in_the_same_namespace_or_cluster_scoped() {
    let server = server();
    let node = post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.json();
    owned(&server, "of-the-node", std::slice::from_ref(&node)).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}});
    let far = server.create(&body).expect("a ConfigMap in the namespace default");
    owned(&server, "of-another-namespace", std::slice::from_ref(&far)).await;
    let unknown =
        json!({"apiVersion": "x.test/v1", "kind": "Unknown", "metadata": {"name": "u", "uid": "u"}});
    owned(&server, "of-an-unknown-kind", &[unknown]).await;
    assert_eq!(names(&server).await, ["of-an-unknown-kind", "of-the-node"]);
    // A namespaced object cannot own a cluster-scoped object, so the collector does not delete the
    // volume.
    let spec =
        json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}});
    let volume = json!({"metadata": {"name": "v", "ownerReferences": [reference(&far)]}, "spec": spec});
    post(&server, "/api/v1/persistentvolumes", volume).await;
    assert_eq!(get(&server, "/api/v1/persistentvolumes/v").await.code, 200);
    delete(&server, "/api/v1/nodes/n", "").await;
    assert_eq!(names(&server).await, ["of-an-unknown-kind"]);
}

#[tokio::test]
async fn owner_cycles_are_deleted() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    merge(&server, &format!("{CONFIGMAPS}/a"), json!({"metadata": {"ownerReferences": [reference(&b)]}}))
        .await;
    assert_eq!(names(&server).await, ["a", "b"]);
    remove(&server, "a", "Foreground").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn long_owner_chain_is_deleted_without_recursion() {
    let server = server();
    let first = owned(&server, "o0", &[]).await;
    let mut last = first;
    for n in 1..2_000 {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("o{n}"), "namespace": "r", "ownerReferences": [reference(&last)]}
        });
        last = server.create(&object).expect("a ConfigMap");
    }
    remove(&server, "o0", "Foreground").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn collector_respects_the_grace_period_of_pods() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let pods = "/api/v1/namespaces/r/pods";
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "n"});
    let pod = json!({"metadata": {"name": "p", "ownerReferences": [reference(&a)]}, "spec": spec});
    post(&server, pods, pod).await;
    remove(&server, "a", "Foreground").await;
    let pod = get(&server, &format!("{pods}/p")).await.json();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(names(&server).await, ["a"]);
    delete(&server, &format!("{pods}/p?gracePeriodSeconds=0"), "").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn restore_also_restores_the_owner_graph() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", &[a]).await;
    let then = server.resource_version();
    remove(&server, "a", "Background").await;
    assert!(names(&server).await.is_empty());
    server.restore(then).expect("a version in the history");
    assert_eq!(names(&server).await, ["a", "b"]);
    remove(&server, "a", "Background").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn unblocked_dependent_is_deleted_in_one_step() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", std::slice::from_ref(&a)).await;
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    remove(&server, "a", "Foreground").await;
    for (kind, name) in [("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")] {
        let (event, object, _) = watch.event().await;
        assert_eq!((event.as_str(), object.as_str()), (kind, name));
    }
}

#[tokio::test]
async fn collected_object_with_orphan_finalizer_keeps_its_dependents() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    owned(&server, "c", &[b]).await;
    merge(&server, &format!("{CONFIGMAPS}/b"), json!({"metadata": {"finalizers": ["orphan"]}})).await;
    remove(&server, "a", "Background").await;
    assert_eq!(names(&server).await, ["c"]);
    assert_eq!(one(&server, "c").await["metadata"]["ownerReferences"], Value::Null);
}

//! The garbage collector: what goes with its owners, what outlives them, and in which order.

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::ask::{Lines, R, configmaps, delete, get, merge, post};

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
    let created = post(server, R, body).await;
    assert_eq!(created.code, 201, "{}", created.text);
    created.json()
}

async fn names(server: &Server) -> Vec<String> {
    get(server, R).await.names()
}

async fn one(server: &Server, name: &str) -> Value {
    get(server, &format!("{R}/{name}")).await.json()
}

async fn remove(server: &Server, name: &str, policy: &str) -> Value {
    delete(server, &format!("{R}/{name}?propagationPolicy={policy}"), "").await.json()
}

#[tokio::test]
async fn without_a_collector_dependents_stay() {
    let server = Server::new();
    configmaps(&server, &[]);
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", &[a]).await;
    remove(&server, "a", "Background").await;
    assert_eq!(names(&server).await, ["b"]);
}

#[tokio::test]
async fn what_has_lost_all_its_owners_goes_in_the_background_down_to_the_last() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    let c = owned(&server, "c", &[b]).await;
    let other = owned(&server, "other", &[]).await;
    owned(&server, "d", &[c.clone(), other.clone()]).await;
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    assert_eq!(remove(&server, "a", "Background").await["status"], "Success");
    assert_eq!(names(&server).await, ["d", "other"]);
    assert_eq!(one(&server, "d").await["metadata"]["ownerReferences"], json!([reference(&other)]));
    for (kind, name) in [("DELETED", "a"), ("DELETED", "b"), ("DELETED", "c"), ("MODIFIED", "d")] {
        let (told, about, _) = watch.event().await;
        assert_eq!((told.as_str(), about.as_str()), (kind, name));
    }
}

#[tokio::test]
async fn in_the_foreground_an_owner_goes_after_the_dependents_that_hold_it() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    owned(&server, "c", &[b]).await;
    merge(&server, &format!("{R}/c"), json!({"metadata": {"finalizers": ["x.test/f"]}})).await;
    let marked = remove(&server, "a", "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(names(&server).await, ["a", "b", "c"]);
    assert_eq!(one(&server, "b").await["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(one(&server, "c").await["metadata"]["deletionTimestamp"].is_string());
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    merge(&server, &format!("{R}/c"), json!({"metadata": {"finalizers": null}})).await;
    assert!(names(&server).await.is_empty());
    for name in ["c", "b", "a"] {
        let (told, about, _) = watch.event().await;
        assert_eq!((told.as_str(), about.as_str()), ("DELETED", name));
    }
}

#[tokio::test]
async fn a_dependent_that_holds_nothing_back_goes_after_its_owner() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let mut loose = reference(&a);
    loose["blockOwnerDeletion"] = false.into();
    let body = json!({"metadata": {"name": "b", "finalizers": ["x.test/f"], "ownerReferences": [loose]}});
    post(&server, R, body).await;
    remove(&server, "a", "Foreground").await;
    assert_eq!(names(&server).await, ["b"]);
    assert!(one(&server, "b").await["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn orphans_outlive_their_owner_and_no_longer_name_it() {
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
async fn what_is_born_without_an_owner_goes_at_once() {
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
async fn owners_are_looked_for_where_they_can_be() {
    let server = server();
    let node = post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.json();
    owned(&server, "of-the-node", std::slice::from_ref(&node)).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far"}});
    let far = server.create(body).expect("a ConfigMap in the namespace default");
    owned(&server, "of-another-namespace", std::slice::from_ref(&far)).await;
    let unknown =
        json!({"apiVersion": "x.test/v1", "kind": "Unknown", "metadata": {"name": "u", "uid": "u"}});
    owned(&server, "of-an-unknown-kind", &[unknown]).await;
    assert_eq!(names(&server).await, ["of-an-unknown-kind", "of-the-node"]);
    // An object outside of namespaces can't be owned from within one: it is left alone.
    let volume = json!({"metadata": {"name": "v", "ownerReferences": [reference(&far)]}});
    post(&server, "/api/v1/persistentvolumes", volume).await;
    assert_eq!(get(&server, "/api/v1/persistentvolumes/v").await.code, 200);
    delete(&server, "/api/v1/nodes/n", "").await;
    assert_eq!(names(&server).await, ["of-an-unknown-kind"]);
}

#[tokio::test]
async fn owners_in_a_circle_do_not_wait_for_each_other_for_ever() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    merge(&server, &format!("{R}/a"), json!({"metadata": {"ownerReferences": [reference(&b)]}})).await;
    assert_eq!(names(&server).await, ["a", "b"]);
    remove(&server, "a", "Foreground").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn a_long_chain_of_owners_is_no_deep_recursion() {
    let server = server();
    let first = owned(&server, "o0", &[]).await;
    let mut last = first;
    for n in 1..2_000 {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("o{n}"), "namespace": "r", "ownerReferences": [reference(&last)]}
        });
        last = server.create(object).expect("a ConfigMap");
    }
    remove(&server, "o0", "Foreground").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn pods_are_given_their_time_by_the_collector_too() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let pods = "/api/v1/namespaces/r/pods";
    let spec = json!({"containers": [], "nodeName": "n"});
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
async fn after_time_went_back_owners_are_known_again() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", &[a]).await;
    let then = server.resource_version();
    remove(&server, "a", "Background").await;
    assert!(names(&server).await.is_empty());
    server.restore(then).expect("history reaches back");
    assert_eq!(names(&server).await, ["a", "b"]);
    remove(&server, "a", "Background").await;
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn what_waits_for_nothing_goes_in_one_step_though_its_owner_waits() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    owned(&server, "b", std::slice::from_ref(&a)).await;
    let start = server.resource_version();
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    remove(&server, "a", "Foreground").await;
    for (kind, name) in [("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")] {
        let (told, about, _) = watch.event().await;
        assert_eq!((told.as_str(), about.as_str()), (kind, name));
    }
}

#[tokio::test]
async fn what_is_collected_orphans_its_dependents_where_its_finalizer_says_so() {
    let server = server();
    let a = owned(&server, "a", &[]).await;
    let b = owned(&server, "b", std::slice::from_ref(&a)).await;
    owned(&server, "c", &[b]).await;
    merge(&server, &format!("{R}/b"), json!({"metadata": {"finalizers": ["orphan"]}})).await;
    remove(&server, "a", "Background").await;
    assert_eq!(names(&server).await, ["c"]);
    assert_eq!(one(&server, "c").await["metadata"]["ownerReferences"], Value::Null);
}

//! Field ownership that needs a clock or a server of its own.

use jiff::Timestamp;
use kube_testserver::{Clock, Server};
use serde_json::json;

use crate::ask::{R, ask, configmaps, get, post, server};

const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

fn config(data: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}).to_string()
}

#[tokio::test]
async fn who_names_no_manager_is_known_by_its_user_agent() {
    let server = server();
    configmaps(&server, &[]);
    let agent = ("user-agent", "kubectl/v1.36 (linux)");
    let json = ("content-type", "application/json");
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}}).to_string();
    let created = ask(&server, "POST", R, &[agent, json], &body).await.json();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "kubectl");
}

#[tokio::test]
async fn without_field_ownership_nothing_is_tracked_until_the_first_apply() {
    let server = Server::builder().clock(Clock::Fixed(Timestamp::UNIX_EPOCH)).field_ownership(false).build();
    configmaps(&server, &[]);
    let created = post(&server, R, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await.json();
    assert_eq!(created["metadata"].get("managedFields"), None);
    let path = format!("{R}/a?fieldManager=one");
    let applied = ask(&server, "PATCH", &path, &[APPLY], &config(&json!({"l": "1"}))).await.json();
    let managers: Vec<&str> = applied["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|owner| owner["manager"].as_str())
        .collect();
    assert_eq!(managers, ["one", "before-first-apply"]);
}

#[tokio::test]
async fn an_apply_that_changes_nothing_is_no_event() {
    let server = server();
    configmaps(&server, &[]);
    let path = format!("{R}/a?fieldManager=one");
    let created = ask(&server, "PATCH", &path, &[APPLY], &config(&json!({"k": "1"}))).await;
    assert_eq!(created.code, 201);
    let version = server.resource_version();
    let again = ask(&server, "PATCH", &path, &[APPLY], &config(&json!({"k": "1"}))).await;
    assert_eq!((again.code, server.resource_version()), (200, version));
    assert_eq!(get(&server, &format!("{R}/a")).await.json(), created.json());
}

#[tokio::test]
async fn the_servers_own_objects_are_owned_by_it() {
    let server = server();
    let namespace = get(&server, "/api/v1/namespaces/default").await.json();
    let owner = &namespace["metadata"]["managedFields"][0];
    assert_eq!(owner["manager"], "kube-apiserver");
    assert_eq!(
        owner["fieldsV1"],
        json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}})
    );
}

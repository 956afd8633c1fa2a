//! Field ownership.

use jiff::Timestamp;
use kube_testserver::{Clock, Server};
use serde_json::json;

use crate::client::{CONFIGMAPS, configmaps, get, post, send, server};

const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

fn config(data: &serde_json::Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}).to_string()
}

#[tokio::test]
async fn default_field_manager_is_the_user_agent() {
    let server = server();
    configmaps(&server, &[]);
    let agent = ("user-agent", "kubectl/v1.36 (linux)");
    let json = ("content-type", "application/json");
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}}).to_string();
    let created = send(&server, "POST", CONFIGMAPS, &[agent, json], &body).await.json();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "kubectl");
}

#[tokio::test]
async fn disabled_field_ownership_starts_with_the_first_apply() {
    let server = Server::builder().clock(Clock::Fixed(Timestamp::UNIX_EPOCH)).field_ownership(false).build();
    configmaps(&server, &[]);
    let created =
        post(&server, CONFIGMAPS, json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await.json();
    assert_eq!(created["metadata"].get("managedFields"), None);
    let path = format!("{CONFIGMAPS}/a?fieldManager=one");
    let applied = send(&server, "PATCH", &path, &[APPLY], &config(&json!({"l": "1"}))).await.json();
    let managers: Vec<&str> = applied["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|owner| owner["manager"].as_str())
        .collect();
    assert_eq!(managers, ["one", "before-first-apply"]);
}

#[tokio::test]
async fn apply_without_a_change_creates_no_event() {
    let server = server();
    configmaps(&server, &[]);
    let path = format!("{CONFIGMAPS}/a?fieldManager=one");
    let created = send(&server, "PATCH", &path, &[APPLY], &config(&json!({"k": "1"}))).await;
    assert_eq!(created.code, 201);
    let version = server.resource_version();
    let again = send(&server, "PATCH", &path, &[APPLY], &config(&json!({"k": "1"}))).await;
    assert_eq!((again.code, server.resource_version()), (200, version));
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.json(), created.json());
}

#[tokio::test]
async fn default_objects_are_managed_by_kube_apiserver() {
    let server = server();
    let namespace = get(&server, "/api/v1/namespaces/default").await.json();
    let owner = &namespace["metadata"]["managedFields"][0];
    assert_eq!(owner["manager"], "kube-apiserver");
    assert_eq!(
        owner["fieldsV1"],
        json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}})
    );
}

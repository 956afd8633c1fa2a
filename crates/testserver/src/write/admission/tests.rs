//! Webhooks with handlers in the process of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::{Body, Server};

/// Returns a server with a webhook configuration for ConfigMaps.
fn server(kind: &str, webhooks: &[Value]) -> Server {
    let server = Server::new();
    let webhooks: Vec<Value> = webhooks
        .iter()
        .map(|webhook| {
            let mut whole = json!({
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"],
                }],
            });
            whole.as_object_mut().unwrap().extend(webhook.as_object().unwrap().clone());
            whole
        })
        .collect();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": "w"}, "webhooks": webhooks,
    });
    server.create(&configuration).unwrap();
    server
}

async fn send(server: &Server, method: &str, path: &str, body: Value) -> (u16, Value) {
    let path = format!("/api/v1/namespaces/default/configmaps{path}");
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.body(Full::from(body)).unwrap();
    let response: Response<Body> = server.service().respond(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

fn respond(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test]
async fn handler_changes_objects_without_owning_the_fields() {
    let server = server("MutatingWebhookConfiguration", &[json!({"name": "m.test.io"})]);
    server.webhook_handler("m.test.io", async |review: Value| {
        let patch = json!([{"op": "add", "path": "/data/b", "value": "2"}]).to_string();
        let is_delete = review["request"]["operation"] == "DELETE";
        let patch = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch.into_bytes()});
        respond(&review, if is_delete { json!({"allowed": true}) } else { patch })
    });
    let (code, created) = send(&server, "POST", "?fieldManager=x", config_map("a")).await;
    assert_eq!((code, &created["data"]), (201, &json!({"a": "1", "b": "2"})), "{created}");
    assert_eq!(created["metadata"]["managedFields"][0]["fieldsV1"]["f:data"], json!({".": {}, "f:a": {}}));
    let patch = json!({"data": {"a": "3", "b": null}});
    let (_, patched) = send(&server, "PATCH", "/a?fieldManager=x", patch).await;
    assert_eq!(patched["data"], json!({"a": "3", "b": "2"}));
    assert_eq!(send(&server, "DELETE", "/a", Value::Null).await.0, 200);
}

#[tokio::test]
async fn rejected_patch_is_reviewed_once() {
    let server = server("MutatingWebhookConfiguration", &[json!({"name": "m.test.io"})]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    server.create(&config_map("a")).unwrap();
    server.webhook_handler("m.test.io", move |review: Value| {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::ready(respond(&review, json!({"allowed": false, "status": {"code": 422}})))
    });
    assert_eq!(send(&server, "PATCH", "/a", json!({"data": {"a": "2"}})).await.0, 422);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn handler_reviews_the_request() {
    let server = server("ValidatingWebhookConfiguration", &[json!({"name": "v.test.io"})]);
    server.webhook_handler("v.test.io", async |review: Value| {
        let message = review["request"].to_string();
        respond(&review, json!({"allowed": false, "status": {"message": message, "code": 409}}))
    });
    server.create(&config_map("b")).unwrap();
    for (method, path, body, operation) in [
        ("POST", "?dryRun=All", config_map("c"), "CREATE"),
        ("PUT", "/b", config_map("b"), "UPDATE"),
        ("DELETE", "/b", Value::Null, "DELETE"),
    ] {
        let (code, status) = send(&server, method, path, body).await;
        let message = status["message"].as_str().unwrap();
        let message = message.strip_prefix("admission webhook \"v.test.io\" denied the request: ").unwrap();
        let request: Value = serde_json::from_str(message).unwrap();
        assert_eq!((code, &request["operation"]), (409, &json!(operation)), "{request}");
        assert_eq!(request["object"].is_null(), operation == "DELETE");
        assert_eq!(request["oldObject"].is_null(), operation == "CREATE");
        assert_eq!(request["dryRun"], operation == "CREATE");
        assert_eq!(request["namespace"], "default");
        assert_eq!(request["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    }
}

#[tokio::test]
async fn webhook_without_handler_fails_by_its_policy() {
    let fail = json!({"name": "fail.test.io", "matchConditions": [{"name": "c", "expression": "object.metadata.name == 'f'"}]});
    let ignore = json!({"name": "ignore.test.io", "failurePolicy": "Ignore"});
    let server = server("ValidatingWebhookConfiguration", &[fail, ignore]);
    assert_eq!(send(&server, "POST", "", config_map("i")).await.0, 201);
    let (code, status) = send(&server, "POST", "", config_map("f")).await;
    assert_eq!(code, 500);
    let start = "Internal error occurred: failed calling webhook \"fail.test.io\": failed to call webhook: ";
    assert!(status["message"].as_str().unwrap().starts_with(start), "{status}");
}

#[tokio::test]
async fn panic_of_a_handler_fails_the_webhook() {
    let server = server("ValidatingWebhookConfiguration", &[json!({"name": "v.test.io"})]);
    server.webhook_handler("v.test.io", |review: Value| async move {
        assert_ne!(review["request"]["name"], "bad", "a test fails");
        respond(&review, json!({"allowed": true}))
    });
    let (code, status) = send(&server, "POST", "", config_map("bad")).await;
    assert_eq!(code, 500);
    assert!(status["message"].as_str().unwrap().contains("the handler panicked"), "{status}");
    assert_eq!(send(&server, "POST", "", config_map("good")).await.0, 201);
}

//! Webhooks over HTTP: limits, and invalid requests.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_operator::{
    axum::{
        body::{Body, to_bytes},
        http::Request,
    },
    webhook::{AdmissionRequest, Denied, Webhooks},
};
use serde_json::json;
use tower::ServiceExt as _;

fn webhooks() -> Webhooks {
    Webhooks::new()
        .validate("/validate", |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) })
        .validate("/slow", |_: AdmissionRequest<ConfigMap>| std::future::pending::<Result<(), Denied>>())
}

fn review() -> Vec<u8> {
    let request = json!({
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a", "operation": "CREATE", "userInfo": {}, "object": {}
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into()
}

async fn send(request: axum_builder::Builder, body: impl Into<Body>) -> (u16, String) {
    let request = request.body(body.into()).unwrap();
    let response = webhooks().router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

use kube_operator::axum::http::request as axum_builder;

fn post(path: &str) -> axum_builder::Builder {
    Request::post(path).header("content-type", "application/json")
}

#[tokio::test]
async fn response_to_a_valid_review_is_json() {
    let (code, body) = send(post("/validate?timeout=10s"), review()).await;
    let review: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &review["response"]["allowed"]), (200, &json!(true)));
    assert_eq!(send(Request::get("/healthz"), Body::empty()).await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn invalid_requests_are_rejected_with_the_reason() {
    let large = vec![b' '; (7 << 20) + 1];
    let long_kind = json!({"apiVersion": "v1", "kind": "x".repeat(1 << 20)}).to_string().into_bytes();
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    for (request, body, code, reason) in [
        (Request::get("/validate"), review(), 405, "a webhook supports only POST"),
        (Request::post("/validate"), review(), 415, "the Content-Type of a review must be application/json"),
        (post("/validate"), b"{\"a\":".to_vec(), 400, "the body is not JSON: EOF while parsing"),
        (post("/validate"), b"[]".to_vec(), 400, "expected a admission.k8s.io/v1/AdmissionReview"),
        (post("/validate"), long_kind, 400, "expected a admission.k8s.io/v1/AdmissionReview"),
        (post("/validate"), deep, 400, "the body is not JSON: recursion limit exceeded"),
        (post("/validate"), large, 413, "cannot read the body, which may have at most 7340032 bytes"),
        (
            post("/absent"),
            review(),
            404,
            "there is no webhook with the path /absent, only /slow, /validate; correct `clientConfig`",
        ),
    ] {
        let (found, text) = send(request, body).await;
        assert_eq!(found, code, "{text}");
        assert!(text.starts_with(reason) && text.chars().count() <= 513, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_handler_is_dropped_at_the_time_limit_of_the_server() {
    for (path, limit) in [("/slow?timeout=2s", 2), ("/slow", 30), ("/slow?timeout=99s", 30)] {
        let start = tokio::time::Instant::now();
        let (code, text) = send(post(path), review()).await;
        assert_eq!((code, text), (504, format!("the webhook did not respond within {limit}s")));
        assert_eq!(start.elapsed(), Duration::from_secs(limit));
    }
}

//! Serves webhooks over HTTP: the limits of requests, and the responses to invalid ones.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use bytes::Bytes;
use http_body::Body as _;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    Handler, WebhookError, WebhookKind, Webhooks,
    budget::{BodyBudget, BodyBudgets, BodyShare, DEFAULT_BYTES_IN_PROGRESS},
};
use crate::{log_throttle::LogThrottle, redact::single_line};

/// The maximum size of an AdmissionReview, as in controller-runtime. The review contains up to two objects.
/// In kube-apiserver, the maximum size of an object is 3 MiB.
pub(crate) const MAX_ADMISSION_BYTES: usize = 7 << 20;

/// The maximum size of a ConversionReview. The review contains all objects of a list.
pub(crate) const MAX_CONVERSION_BYTES: usize = 256 << 20;

/// The maximum length of the reason for a rejection, in characters.
const MAX_REASON_CHARS: usize = 512;

/// The maximum length of an unknown path in a response and in the log, in characters.
const MAX_PATH_CHARS: usize = 128;

/// The time limit of a request without a time limit. kube-apiserver sends at most this limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit for a body. kube-apiserver sends the body at once.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

impl Webhooks {
    /// Returns a router that serves the webhooks, and `/healthz`, over HTTP. The bodies of admissions in
    /// progress have at most 256 MiB in total, and so do the bodies of conversions.
    pub fn router(&self) -> Router {
        self.router_within(&BodyBudgets::new(DEFAULT_BYTES_IN_PROGRESS))
    }

    /// Returns a router whose bodies in progress are within these budgets.
    pub(crate) fn router_within(&self, budgets: &BodyBudgets) -> Router {
        let mut router = Router::new();
        for (path, (kind, handler)) in &self.handlers {
            let budget = match kind {
                WebhookKind::Admission => &budgets.admissions,
                WebhookKind::Conversion => &budgets.conversions,
            };
            let (handler, budget) = (Arc::clone(handler), budget.clone());
            let route = Arc::new(Route { path: path.clone(), kind: *kind, handler, budget });
            router = router.route(path, any(serve).with_state(route));
        }
        let unknown = Arc::new(UnknownPaths { webhooks: self.clone(), throttle: Mutex::default() });
        router.route("/healthz", get(async || "ok")).fallback_service(any(unknown_path).with_state(unknown))
    }
}

/// A webhook with its path.
struct Route {
    path: String,
    kind: WebhookKind,
    handler: Handler,
    budget: BodyBudget,
}

/// Responds to requests for paths without a webhook.
struct UnknownPaths {
    webhooks: Webhooks,
    throttle: Mutex<LogThrottle>,
}

/// The text of a response. It holds its share of the memory until it is written to the connection.
struct SharedText {
    text: String,
    _share: BodyShare,
}

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// A response without a call of a handler.
struct Rejection(StatusCode, String);

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Self(code, text) = self;
        (code, text).into_response()
    }
}

async fn unknown_path(State(unknown): State<Arc<UnknownPaths>>, request: Request) -> Rejection {
    // The client selects the path, which can have any length.
    let path = single_line(request.uri().path(), MAX_PATH_CHARS);
    let reason = unknown.webhooks.unknown_path(&path).to_string();
    let allowed = unknown.throttle.lock().allow(Instant::now());
    if let Some(suppressed) = allowed {
        tracing::warn!(code = 404, reason, suppressed, "webhook call failed");
    }
    Rejection(StatusCode::NOT_FOUND, reason)
}

async fn serve(State(route): State<Arc<Route>>, request: Request) -> Response {
    match respond(&route, request).await {
        Ok(review) => ([(CONTENT_TYPE, "application/json")], review).into_response(),
        Err(Rejection(code, reason)) => {
            // The reason can repeat a long text of the client.
            let reason = single_line(&reason, MAX_REASON_CHARS);
            tracing::warn!(webhook = %route.path, code = code.as_u16(), reason, "webhook call failed");
            Rejection(code, reason).into_response()
        }
    }
}

async fn respond(route: &Route, request: Request) -> Result<Bytes, Rejection> {
    let limit = time_limit(request.uri().query().unwrap_or_default());
    let late = |_| {
        let text = format!("the webhook did not respond within {limit:?}");
        Rejection(StatusCode::GATEWAY_TIMEOUT, text)
    };
    timeout(limit, handle(route, request, limit)).await.map_err(late)?
}

async fn handle(route: &Route, request: Request, time_limit: Duration) -> Result<Bytes, Rejection> {
    if request.method() != axum::http::Method::POST {
        return Err(Rejection(StatusCode::METHOD_NOT_ALLOWED, "a webhook supports only POST".to_owned()));
    }
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_none_or(|value| !value.starts_with("application/json")) {
        let text = "the Content-Type of a review must be application/json".to_owned();
        return Err(Rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let (body, share) = read(route, request.into_body(), time_limit).await?;
    let review = share.run(move |_| serde_json::from_slice(&body)).await.map_err(|error| {
        // The text of a syntax error contains only its position.
        Rejection(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
    })?;
    let bad_request = |error: WebhookError| Rejection(StatusCode::BAD_REQUEST, error.to_string());
    let response = (route.handler)(review, share.clone()).await.map_err(bad_request)?;
    let text = share.run(move |_| response.to_string()).await;
    Ok(Bytes::from_owner(SharedText { text, _share: share }))
}

/// Reads a body after there is memory for it.
async fn read(route: &Route, body: Body, time_limit: Duration) -> Result<(Bytes, BodyShare), Rejection> {
    let limit = match route.kind {
        WebhookKind::Admission => MAX_ADMISSION_BYTES,
        WebhookKind::Conversion => MAX_CONVERSION_BYTES,
    };
    let limit = limit.min(route.budget.total());
    let too_large = |reason: String| {
        let text = format!("cannot read the body, which may have at most {limit} bytes: {reason}");
        Rejection(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    // kube-apiserver sends the size. Another client may not, and then needs memory for the largest body.
    let size = body.size_hint().upper().unwrap_or(limit as u64);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > limit {
        return Err(too_large(format!("it has {size} bytes")));
    }
    // kube-apiserver still waits after half of the limit, so it receives the reason.
    let wait = time_limit / 2;
    let share = timeout(wait, route.budget.share(size)).await.map_err(|_| {
        let total = route.budget.total();
        let text = format!(
            "no memory for a body of {size} bytes within {wait:?}: bodies in progress may have {total} bytes in \
             total; increase `WebhookOptions::max_bytes_in_progress`, or add replicas"
        );
        Rejection(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    // A client that sends its body slowly must not hold the memory.
    let body = timeout(BODY_TIMEOUT, to_bytes(body, limit)).await.map_err(|_| {
        let text = format!("the body did not arrive within {BODY_TIMEOUT:?}");
        Rejection(StatusCode::REQUEST_TIMEOUT, text)
    })?;
    // axum does not distinguish a large body from a broken connection, which receives no response.
    Ok((body.map_err(|error| too_large(error.to_string()))?, share))
}

/// Returns the time limit of a request. kube-apiserver sends it as `?timeout=10s`.
fn time_limit(query: &str) -> Duration {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = value.and_then(|value| value.strip_suffix('s')?.parse().ok());
    seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(DEFAULT_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_core::admission::AdmissionRequest;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;
    use crate::webhook::Denied;

    /// Returns the review of an object with this number of bytes.
    fn review(bytes: usize) -> String {
        let request = json!({
            "uid": "1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "name": "a",
            "operation": "CREATE", "userInfo": {}, "object": {"data": {"key": "x".repeat(bytes)}}
        });
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
    }

    async fn send(router: &Router, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let response = router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let code = response.status();
        (code, String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().into()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn body_without_memory_is_rejected_and_small_bodies_are_served() {
        let webhooks = Webhooks::new()
            .validate("/slow", |_: AdmissionRequest<ConfigMap>| pending::<Result<(), Denied>>())
            .validate("/fast", |_: AdmissionRequest<ConfigMap>| ready(Ok::<_, Denied>(())));
        let budgets = BodyBudgets::new(1 << 20);
        let (router, budget) = (webhooks.router_within(&budgets), &budgets.admissions);
        let too_large = send(&router, "/fast", review(1 << 20)).await;
        assert_eq!(too_large.0, StatusCode::PAYLOAD_TOO_LARGE, "larger than the total limit");
        let slow = tokio::spawn({
            let router = router.clone();
            async move { send(&router, "/slow?timeout=30s", review(900 << 10)).await.0 }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(budget.free_bytes() < 1 << 20, "the slow request holds its share");
        let (code, text) = send(&router, "/fast?timeout=10s", review(200 << 10)).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        let size = review(200 << 10).len();
        let expected = format!(
            "no memory for a body of {size} bytes within 5s: bodies in progress may have 1048576 bytes in total; \
             increase `WebhookOptions::max_bytes_in_progress`, or add replicas"
        );
        assert_eq!(text, expected);
        let unsized_body =
            Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(review(1))]));
        assert_eq!(send(&router, "/fast", unsized_body).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(send(&router, "/fast", review(1)).await.0, StatusCode::OK);
        assert_eq!(slow.await.unwrap(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(send(&router, "/fast", review(200 << 10)).await.0, StatusCode::OK);
        budgets.idle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_does_not_arrive_releases_its_memory() {
        let webhooks =
            Webhooks::new().validate("/a", |_: AdmissionRequest<ConfigMap>| ready(Ok::<_, Denied>(())));
        let budgets = BodyBudgets::new(1 << 20);
        let router = webhooks.router_within(&budgets);
        let silent = futures_util::stream::pending::<std::io::Result<String>>();
        let (code, text) = send(&router, "/a", Body::from_stream(silent)).await;
        assert_eq!((code, &*text), (StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10s"));
        assert_eq!(budgets.admissions.free_bytes(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn large_conversion_does_not_delay_admissions() {
        let webhooks =
            Webhooks::new().validate("/a", |_: AdmissionRequest<ConfigMap>| ready(Ok::<_, Denied>(())));
        let budgets = BodyBudgets::new(1 << 20);
        let router = webhooks.router_within(&budgets);
        let _conversion = budgets.conversions.share(1 << 20).await;
        assert_eq!(send(&router, "/a", review(200 << 10)).await.0, StatusCode::OK);
    }
}

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
use serde_json::Value;
use tokio::time::timeout;

use super::{Handler, WebhookError, WebhookKind, Webhooks};
use crate::redact::single_line;

/// The maximum size of an AdmissionReview, as in controller-runtime. The review contains up to two objects.
/// In kube-apiserver, the maximum size of an object is 3 MiB.
const MAX_ADMISSION_BYTES: usize = 7 << 20;

/// The maximum size of a ConversionReview. The review contains all objects of a list.
const MAX_CONVERSION_BYTES: usize = 256 << 20;

/// The maximum length of the reason for a rejection, in characters.
const MAX_REASON_CHARS: usize = 512;

/// The time limit of a request without a time limit. kube-apiserver sends at most this limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

impl Webhooks {
    /// Returns a router that serves the webhooks, and `/healthz`, over HTTP.
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for (path, (kind, handler)) in &self.handlers {
            let route = Arc::new(Route { path: path.clone(), kind: *kind, handler: Arc::clone(handler) });
            router = router.route(path, any(serve).with_state(route));
        }
        router.route("/healthz", get(async || "ok")).fallback(unknown_path)
    }
}

/// A webhook with its path.
struct Route {
    path: String,
    kind: WebhookKind,
    handler: Handler,
}

/// A response without a call of a handler.
struct Rejection(StatusCode, String);

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let Self(code, text) = self;
        (code, text).into_response()
    }
}

async fn unknown_path(request: Request) -> Rejection {
    Rejection(StatusCode::NOT_FOUND, WebhookError::UnknownPath(request.uri().path().to_owned()).to_string())
}

async fn serve(State(route): State<Arc<Route>>, request: Request) -> Response {
    match respond(&route, request).await {
        Ok(review) => ([(CONTENT_TYPE, "application/json")], review.to_string()).into_response(),
        Err(Rejection(code, reason)) => {
            // The reason can repeat a text of the client, of any length.
            let reason = single_line(&reason, MAX_REASON_CHARS);
            tracing::warn!(webhook = %route.path, code = code.as_u16(), reason, "webhook call failed");
            Rejection(code, reason).into_response()
        }
    }
}

async fn respond(route: &Route, request: Request) -> Result<Value, Rejection> {
    let limit = time_limit(request.uri().query().unwrap_or_default());
    let late = |_| {
        let text = format!("the webhook did not respond within {limit:?}");
        Rejection(StatusCode::GATEWAY_TIMEOUT, text)
    };
    timeout(limit, handle(route, request)).await.map_err(late)?
}

async fn handle(route: &Route, request: Request) -> Result<Value, Rejection> {
    if request.method() != axum::http::Method::POST {
        return Err(Rejection(StatusCode::METHOD_NOT_ALLOWED, "a webhook supports only POST".to_owned()));
    }
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_none_or(|value| !value.starts_with("application/json")) {
        let text = "the Content-Type of a review must be application/json".to_owned();
        return Err(Rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let review = read(route.kind, request.into_body()).await?;
    let bad_request = |error: WebhookError| Rejection(StatusCode::BAD_REQUEST, error.to_string());
    (route.handler)(review).await.map_err(bad_request)
}

async fn read(kind: WebhookKind, body: Body) -> Result<Value, Rejection> {
    let limit = match kind {
        WebhookKind::Admission => MAX_ADMISSION_BYTES,
        WebhookKind::Conversion => MAX_CONVERSION_BYTES,
    };
    let body = to_bytes(body, limit).await.map_err(|error| {
        // axum does not distinguish a large body from a broken connection, which receives no response.
        let text = format!("cannot read the body, which may have at most {limit} bytes: {error}");
        Rejection(StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    serde_json::from_slice(&body).map_err(|error| {
        // The text of a syntax error contains only its position.
        Rejection(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
    })
}

/// Returns the time limit of a request. kube-apiserver sends it as `?timeout=10s`.
fn time_limit(query: &str) -> Duration {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = value.and_then(|value| value.strip_suffix('s')?.parse().ok());
    seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(DEFAULT_TIMEOUT)
}

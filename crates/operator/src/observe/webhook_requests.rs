//! `WebhookMetrics`: requests to webhooks, with the names of controller-runtime.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

type Label = (&'static str, Cow<'static, str>);

/// The default buckets of Prometheus, as in controller-runtime.
const BUCKETS_SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The label of requests to a path without a webhook. Clients select the paths, so the paths cannot be
/// labels.
const UNKNOWN_PATH: &str = "<unknown>";

/// Counts the requests to webhooks. The label `webhook` contains the path.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    requests: Family<[Label; 2], Counter>,
    in_flight: Family<[Label; 1], Gauge>,
    seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS_SECONDS)) as fn() -> Histogram);
        Self { requests: Family::default(), in_flight: Family::default(), seconds }
    }
}

impl WebhookMetrics {
    /// Registers the metrics under their names.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { requests, in_flight, seconds } = self.clone();
        let help = "Requests to webhooks, by path and status code";
        registry.register("controller_runtime_webhook_requests", help, requests);
        let help = "Requests to webhooks without a response yet, by path";
        registry.register("controller_runtime_webhook_requests_in_flight", help, in_flight);
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "Duration of a request to a webhook",
            seconds,
        );
    }

    /// Returns a router that counts its requests to these paths, and to unknown paths.
    pub(crate) fn count(&self, router: Router, paths: impl Iterator<Item = String>) -> Router {
        let (metrics, paths): (_, Arc<BTreeSet<String>>) = (self.clone(), Arc::new(paths.collect()));
        router.layer(middleware::from_fn(move |request: Request, next: Next| {
            let path = request.uri().path();
            let label = paths.get(path).map_or(UNKNOWN_PATH, String::as_str);
            let mut pending =
                (path != "/healthz").then(|| PendingRequest::new(metrics.clone(), label.to_owned()));
            async move {
                let response = next.run(request).await;
                if let Some(pending) = &mut pending {
                    pending.code = response.status().as_str().to_owned().into();
                }
                response
            }
        }))
    }
}

/// A request without a response. The drop counts it, so aborted requests are also counted.
struct PendingRequest {
    metrics: WebhookMetrics,
    path: String,
    received: Instant,
    code: Cow<'static, str>,
}

impl PendingRequest {
    fn new(metrics: WebhookMetrics, path: String) -> Self {
        let pending = Self { metrics, path, received: Instant::now(), code: Cow::Borrowed("<error>") };
        pending.metrics.in_flight.get_or_create_owned(&pending.label()).inc();
        pending
    }

    fn label(&self) -> [Label; 1] {
        [("webhook", self.path.clone().into())]
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let label = self.label();
        let [path] = label.clone();
        self.metrics.in_flight.get_or_create_owned(&label).dec();
        let seconds = self.received.elapsed().as_secs_f64();
        self.metrics.seconds.get_or_create_owned(&label).observe(seconds);
        let code = ("code", std::mem::take(&mut self.code));
        self.metrics.requests.get_or_create_owned(&[code, path]).inc();
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use prometheus_client::encoding::text;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn unknown_paths_have_one_label_and_health_checks_are_not_counted() {
        let (metrics, mut registry) = (WebhookMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let router =
            Router::new().route("/validate", get(async || "ok")).route("/healthz", get(async || "ok"));
        let router = metrics.count(router, ["/validate".to_owned()].into_iter());
        for path in ["/validate", "/healthz", "/a", "/b"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap();
        }
        let mut pages = String::new();
        text::encode(&mut pages, &registry).unwrap();
        let total = "controller_runtime_webhook_requests_total";
        let counts: Vec<_> = pages.lines().filter_map(|line| line.strip_prefix(total)).collect();
        assert_eq!(counts.len(), 2, "{pages}");
        assert!(counts.contains(&"{code=\"404\",webhook=\"<unknown>\"} 2"), "{pages}");
        assert!(counts.contains(&"{code=\"200\",webhook=\"/validate\"} 1"), "{pages}");
    }
}

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

    /// Returns a router that counts its requests to these paths.
    pub(crate) fn count(&self, router: Router, paths: impl Iterator<Item = String>) -> Router {
        let (metrics, paths): (_, Arc<BTreeSet<String>>) = (self.clone(), Arc::new(paths.collect()));
        router.layer(middleware::from_fn(move |request: Request, next: Next| {
            let path = paths.get(request.uri().path()).cloned();
            let mut pending = path.map(|path| PendingRequest::new(metrics.clone(), path));
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

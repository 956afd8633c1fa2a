//! `RequestMetrics`: requests to the API server, with the names of client-go.

use std::borrow::Cow;

use http::{Method, Request};
use kube_client::{Client, client::Body};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;
use tower::BoxError;

use super::calls::ApiCalls;

type Label = (&'static str, Cow<'static, str>);

/// The buckets of client-go, so that its dashboards work.
const BUCKETS_SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Counts the requests of clients.
#[derive(Clone)]
pub(crate) struct RequestMetrics {
    requests: Family<[Label; 2], Counter>,
    seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        let seconds = Family::new_with_constructor((|| Histogram::new(BUCKETS_SECONDS)) as fn() -> Histogram);
        Self { requests: Family::default(), seconds }
    }
}

impl RequestMetrics {
    /// Registers the metrics under their names.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { requests, seconds } = self.clone();
        let help = "Requests to the API server, by method and status code";
        registry.register("rest_client_requests", help, requests);
        let help = "Time until the head of the response, by method";
        registry.register("rest_client_request_duration_seconds", help, seconds);
    }

    /// Returns a client that counts its requests.
    pub(crate) fn count_requests(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let metrics = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, metrics) = (client.clone(), metrics.clone());
            async move {
                let _call = ApiCalls::start(request.method());
                let mut pending = PendingRequest::new(metrics, request.method());
                let result = client.send(request).await;
                if let Ok(response) = &result {
                    pending.code = response.status().as_str().to_owned().into();
                }
                result.map_err(BoxError::from)
            }
        });
        Client::new(send, namespace)
    }
}

/// A request without a response. It is counted when it is dropped, so that timeouts and cancelled requests
/// are also counted.
struct PendingRequest {
    metrics: RequestMetrics,
    method: &'static str,
    sent: Instant,
    code: Cow<'static, str>,
}

impl PendingRequest {
    fn new(metrics: RequestMetrics, method: &Method) -> Self {
        // The text of client-go for a request without a response.
        let code = Cow::Borrowed("<error>");
        Self { metrics, method: method_name(method), sent: Instant::now(), code }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Self { metrics, method, sent, code } = self;
        let seconds = metrics.seconds.get_or_create_owned(&[("verb", (*method).into())]);
        seconds.observe(sent.elapsed().as_secs_f64());
        let labels = [("code", std::mem::take(code)), ("method", (*method).into())];
        metrics.requests.get_or_create_owned(&labels).inc();
    }
}

/// Returns the name of a method as a static text. kube-client sends only these methods.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_without_response_is_counted_when_it_is_dropped() {
        let metrics = RequestMetrics::default();
        let hanging = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, BoxError>>()
        });
        let client = metrics.count_requests(Client::new(hanging, "default"));
        let request = Request::get("/version").body(Body::empty()).unwrap();
        timeout(Duration::from_secs(3), client.send(request)).await.unwrap_err();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry).unwrap();
        for line in [
            "rest_client_requests_total{code=\"<error>\",method=\"GET\"} 1\n",
            "rest_client_request_duration_seconds_sum{verb=\"GET\"} 3.0\n",
        ] {
            assert!(encoded.contains(line), "{line} is missing in\n{encoded}");
        }
    }
}

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
                let (method, sent) = (method_name(request.method()), Instant::now());
                let result = client.send(request).await;
                metrics
                    .seconds
                    .get_or_create(&[("verb", method.into())])
                    .observe(sent.elapsed().as_secs_f64());
                // The text of client-go for a request without a response.
                let code = result.as_ref().map_or(Cow::Borrowed("<error>"), |response| {
                    response.status().as_str().to_owned().into()
                });
                metrics.requests.get_or_create(&[("code", code), ("method", method.into())]).inc();
                result.map_err(BoxError::from)
            }
        });
        Client::new(send, namespace)
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

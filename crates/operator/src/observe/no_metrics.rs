//! Replaces `metrics` in a build without the feature `metrics`. It does not count events.

use std::{sync::Arc, time::Duration};

use http::Request;
use kube_client::{Client, client::Body};
use kube_workqueue::Observer;
use tower::BoxError;

use super::{ReconcileResult, calls::ApiCalls, changes::ChangeLog};

/// Counts nothing.
#[derive(Clone, Default)]
pub(crate) struct Metrics {
    /// The changes of objects, if the manager logs them.
    pub(crate) changes: Option<ChangeLog>,
}

impl Metrics {
    /// Returns a client that measures the requests of reconciles.
    pub(crate) fn count_requests(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let send = tower::service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                let _call = ApiCalls::start(request.method());
                client.send(request).await.map_err(BoxError::from)
            }
        });
        Client::new(send, namespace)
    }

    pub(crate) fn remove_controller(&self, _: &Arc<str>) {}

    pub(crate) fn for_controller(&self, _: &Arc<str>) -> ControllerMetrics {
        ControllerMetrics
    }
}

/// Counts nothing.
#[derive(Clone)]
pub(crate) struct ControllerMetrics;

impl ControllerMetrics {
    pub(crate) fn record_duration(&self, _: Duration) {}

    pub(crate) fn record_result(&self, _: ReconcileResult) {}
}

impl Observer for ControllerMetrics {
    fn observe_queue_duration(&self, _: Duration) {}

    fn observe_work_duration(&self, _: Duration) {}
}

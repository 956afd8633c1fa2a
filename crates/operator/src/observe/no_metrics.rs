//! Replaces `metrics` in a build without the feature `metrics`. It does not count events.

use std::{sync::Arc, time::Duration};

use kube_client::Client;
use kube_workqueue::Observer;

use super::ReconcileResult;

/// Counts nothing.
#[derive(Clone, Default)]
pub(crate) struct Metrics {}

impl Metrics {
    pub(crate) fn count_requests(&self, client: Client) -> Client {
        client
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

//! `Metrics`: counters and histograms for Prometheus, with the names of controller-runtime.
//!
//! This module counts events when they happen. `collector` reads the current state when Prometheus scrapes.

use std::{sync::Arc, time::Duration};

use kube_client::Client;
use kube_workqueue::Observer;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

#[cfg(feature = "webhooks")]
use super::webhook_requests::WebhookMetrics;
use super::{ReconcileResult, changes::ChangeLog, requests::RequestMetrics};

type ControllerName = Arc<str>;
type Labels<const N: usize> = [(&'static str, ControllerName); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// Holds the metrics of all controllers and of the requests.
#[derive(Clone)]
pub(crate) struct Metrics {
    requests: RequestMetrics,
    reconciles: Counters<2>,
    errors: Counters<1>,
    terminal_errors: Counters<1>,
    panics: Counters<1>,
    timeouts: Counters<1>,
    reconcile_seconds: Histograms<1>,
    queue_seconds: Histograms<2>,
    work_seconds: Histograms<2>,
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: WebhookMetrics,
    /// The changes of objects, if the manager logs them.
    pub(crate) changes: Option<ChangeLog>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: RequestMetrics::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            reconcile_seconds: Family::new_with_constructor(|| Histogram::new(RECONCILE_BUCKETS_SECONDS)),
            queue_seconds: Family::new_with_constructor(work_queue_histogram),
            work_seconds: Family::new_with_constructor(work_queue_histogram),
            #[cfg(feature = "webhooks")]
            webhooks: WebhookMetrics::default(),
            changes: None,
        }
    }
}

/// The values of the label `result`.
const RESULTS: [&str; 3] = ["success", "requeue_after", "error"];

/// The buckets of controller-runtime, so that its dashboards work.
const RECONCILE_BUCKETS_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// Returns a histogram with the buckets of controller-runtime: powers of ten, from 10 ns.
fn work_queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

impl Metrics {
    /// Registers the metrics under their names.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self {
            requests,
            reconciles,
            errors,
            terminal_errors,
            panics,
            timeouts,
            reconcile_seconds,
            queue_seconds,
            work_seconds,
            #[cfg(feature = "webhooks")]
            webhooks,
            changes: _,
        } = self.clone();
        #[cfg(feature = "webhooks")]
        webhooks.register(registry);
        requests.register(registry);
        registry.register("controller_runtime_reconcile", "Reconciles, by result", reconciles);
        registry.register("controller_runtime_reconcile_errors", "Failed reconciles", errors);
        let help = "Failed reconciles that are not retried until a change";
        registry.register("controller_runtime_terminal_reconcile_errors", help, terminal_errors);
        registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", panics);
        registry.register("controller_runtime_reconcile_timeouts", "Reconciles that timed out", timeouts);
        let help = "Duration of a reconcile";
        registry.register("controller_runtime_reconcile_time_seconds", help, reconcile_seconds);
        let help = "Time that a key waits in the work queue";
        registry.register("workqueue_queue_duration_seconds", help, queue_seconds);
        let help = "Time that a worker takes to process a key";
        registry.register("workqueue_work_duration_seconds", help, work_seconds);
    }

    /// Returns a client that counts its requests.
    pub(crate) fn count_requests(&self, client: Client) -> Client {
        self.requests.count_requests(client)
    }

    /// Returns the metrics of one controller. All counters start at zero.
    pub(crate) fn for_controller(&self, name: &ControllerName) -> ControllerMetrics {
        let controller = controller_labels(name);
        let queue = queue_labels(name);
        let reconciles = |result: &str| {
            let labels = [("controller", Arc::clone(name)), ("result", ControllerName::from(result))];
            self.reconciles.get_or_create_owned(&labels)
        };
        let [success, requeue_after, error] = RESULTS.map(reconciles);
        ControllerMetrics {
            success,
            requeue_after,
            error,
            errors: self.errors.get_or_create_owned(&controller),
            terminal_errors: self.terminal_errors.get_or_create_owned(&controller),
            panics: self.panics.get_or_create_owned(&controller),
            timeouts: self.timeouts.get_or_create_owned(&controller),
            reconcile_seconds: self.reconcile_seconds.get_or_create_owned(&controller),
            queue_seconds: self.queue_seconds.get_or_create_owned(&queue),
            work_seconds: self.work_seconds.get_or_create_owned(&queue),
        }
    }
}

impl Metrics {
    /// Removes the series of a controller that was removed from its manager.
    pub(crate) fn remove_controller(&self, name: &ControllerName) {
        for result in RESULTS {
            let labels = [("controller", Arc::clone(name)), ("result", ControllerName::from(result))];
            self.reconciles.remove(&labels);
        }
        let (controller, queue) = (controller_labels(name), queue_labels(name));
        for counters in [&self.errors, &self.terminal_errors, &self.panics, &self.timeouts] {
            counters.remove(&controller);
        }
        self.reconcile_seconds.remove(&controller);
        self.queue_seconds.remove(&queue);
        self.work_seconds.remove(&queue);
    }
}

/// Returns the labels of a controller.
pub(crate) fn controller_labels(name: &ControllerName) -> Labels<1> {
    [("controller", Arc::clone(name))]
}

/// Returns the labels of the work queue of a controller.
pub(crate) fn queue_labels(name: &ControllerName) -> Labels<2> {
    [("name", Arc::clone(name)), ("controller", Arc::clone(name))]
}

/// Holds the metrics of one controller.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    success: Counter,
    requeue_after: Counter,
    /// The `result` label "error". It counts the same reconciles as `errors`.
    error: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    reconcile_seconds: Histogram,
    queue_seconds: Histogram,
    work_seconds: Histogram,
}

impl ControllerMetrics {
    /// Records how long a reconcile took.
    pub(crate) fn record_duration(&self, duration: Duration) {
        self.reconcile_seconds.observe(duration.as_secs_f64());
    }

    /// Counts a reconcile by its result.
    pub(crate) fn record_result(&self, result: ReconcileResult) {
        let special = match result {
            ReconcileResult::Success => {
                self.success.inc();
                return;
            }
            ReconcileResult::RequeueAfter => {
                self.requeue_after.inc();
                return;
            }
            ReconcileResult::Failed => None,
            ReconcileResult::FailedTerminally => Some(&self.terminal_errors),
            ReconcileResult::TimedOut => Some(&self.timeouts),
            ReconcileResult::Panicked => Some(&self.panics),
        };
        self.error.inc();
        self.errors.inc();
        if let Some(counter) = special {
            counter.inc();
        }
    }
}

impl Observer for ControllerMetrics {
    fn observe_queue_duration(&self, duration: Duration) {
        self.queue_seconds.observe(duration.as_secs_f64());
    }

    fn observe_work_duration(&self, duration: Duration) {
        self.work_seconds.observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn removed_controller_has_no_series() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let series = |name: &str| {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| line.contains(&format!("controller=\"{name}\""))).count()
        };
        let names = ["a", "b"].map(ControllerName::from);
        let [counts, _] = names.each_ref().map(|name| metrics.for_controller(name));
        assert!(series("a") > 0 && series("a") == series("b"));
        metrics.remove_controller(&names[0]);
        counts.record_result(ReconcileResult::Panicked);
        counts.record_duration(Duration::ZERO);
        counts.observe_queue_duration(Duration::ZERO);
        assert_eq!(series("a"), 0);
        assert!(series("b") > 0);
    }
}

//! `Metrics`: what Prometheus is told, by the names that controller-runtime has for it.
//!
//! What is counted is counted where it happens ([`Of`]); what can be looked up is looked up when somebody asks (`collect`).

use std::{sync::Arc, time::Duration};

use kube_workqueue::Observer;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

type Name = Arc<str>;
type Labels<const N: usize> = [(&'static str, Name); N];
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// Those of all controllers of a program.
#[derive(Clone)]
pub(crate) struct Metrics {
    reconciles: Family<Labels<2>, Counter>,
    errors: Family<Labels<1>, Counter>,
    terminal_errors: Family<Labels<1>, Counter>,
    panics: Family<Labels<1>, Counter>,
    time_outs: Family<Labels<1>, Counter>,
    reconcile_seconds: Histograms<1>,
    queue_seconds: Histograms<2>,
    work_seconds: Histograms<2>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            time_outs: Family::default(),
            reconcile_seconds: Family::new_with_constructor(|| Histogram::new(RECONCILE_SECONDS)),
            queue_seconds: Family::new_with_constructor(work_queue_seconds),
            work_seconds: Family::new_with_constructor(work_queue_seconds),
        }
    }
}

/// As in controller-runtime, so that its dashboards show the same.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

/// As there: from 10 ns in powers of ten.
fn work_queue_seconds() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

impl Metrics {
    /// Makes them known under their names.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self {
            reconciles,
            errors,
            terminal_errors,
            panics,
            time_outs,
            reconcile_seconds,
            queue_seconds,
            work_seconds,
        } = self.clone();
        registry.register("controller_runtime_reconcile", "Runs, by how they ended", reconciles);
        registry.register("controller_runtime_reconcile_errors", "Runs that have failed", errors);
        let help = "Runs that have failed for good, as long as nothing changes";
        registry.register("controller_runtime_terminal_reconcile_errors", help, terminal_errors);
        registry.register("controller_runtime_reconcile_panics", "Runs that have panicked", panics);
        registry.register("controller_runtime_reconcile_timeouts", "Runs that took too long", time_outs);
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long runs take",
            reconcile_seconds,
        );
        let help = "How long keys wait before they are worked on";
        registry.register("workqueue_queue_duration_seconds", help, queue_seconds);
        registry.register("workqueue_work_duration_seconds", "How long keys are worked on", work_seconds);
    }

    /// Those of one controller, which are zero from the beginning.
    pub(crate) fn of(&self, controller: &Name) -> Of {
        let one = labels_of(controller);
        let two = labels_of_queue(controller);
        let ended = |how: &str| {
            let labels = [("controller", Arc::clone(controller)), ("result", Name::from(how))];
            self.reconciles.get_or_create_owned(&labels)
        };
        Of {
            success: ended("success"),
            requeue_after: ended("requeue_after"),
            error: ended("error"),
            errors: self.errors.get_or_create_owned(&one),
            terminal_errors: self.terminal_errors.get_or_create_owned(&one),
            panics: self.panics.get_or_create_owned(&one),
            time_outs: self.time_outs.get_or_create_owned(&one),
            reconcile_seconds: self.reconcile_seconds.get_or_create_owned(&one),
            queue_seconds: self.queue_seconds.get_or_create_owned(&two),
            work_seconds: self.work_seconds.get_or_create_owned(&two),
        }
    }
}

/// What names a controller.
pub(crate) fn labels_of(controller: &Name) -> Labels<1> {
    [("controller", Arc::clone(controller))]
}

/// What names a controller's queue.
pub(crate) fn labels_of_queue(controller: &Name) -> Labels<2> {
    [("name", Arc::clone(controller)), ("controller", Arc::clone(controller))]
}

/// What is counted of one controller.
#[derive(Clone)]
pub(crate) struct Of {
    pub(crate) success: Counter,
    pub(crate) requeue_after: Counter,
    /// Runs that ended in any kind of failure.
    pub(crate) error: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) time_outs: Counter,
    pub(crate) reconcile_seconds: Histogram,
    queue_seconds: Histogram,
    work_seconds: Histogram,
}

impl Observer for Of {
    fn observe_queue_duration(&self, duration: Duration) {
        self.queue_seconds.observe(duration.as_secs_f64());
    }

    fn observe_work_duration(&self, duration: Duration) {
        self.work_seconds.observe(duration.as_secs_f64());
    }
}

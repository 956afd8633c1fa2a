//! Metrics, health checks and debug pages of a manager.

#[cfg(feature = "tls")]
pub(crate) mod authorize;
pub(crate) mod calls;
#[cfg(feature = "tls")]
pub(crate) mod certificate;
pub(crate) mod changes;
#[cfg(feature = "metrics")]
pub(crate) mod collector;
#[cfg(feature = "http")]
pub(crate) mod debug;
#[cfg(feature = "http")]
pub(crate) mod health;
#[cfg(feature = "http")]
pub(crate) mod host;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
#[cfg(not(feature = "metrics"))]
pub(crate) mod no_metrics;
#[cfg(feature = "page")]
pub(crate) mod page;
#[cfg(feature = "http")]
pub(crate) mod pages;
#[cfg(all(feature = "metrics", feature = "http", target_os = "linux"))]
pub(crate) mod process;
#[cfg(feature = "metrics")]
pub(crate) mod requests;
#[cfg(feature = "tls")]
mod self_signed;
#[cfg(feature = "http")]
pub(crate) mod serve;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(any(feature = "http", feature = "metrics"))]
mod view;
#[cfg(all(feature = "metrics", feature = "webhooks"))]
mod webhook_requests;

#[cfg(not(feature = "metrics"))]
pub(crate) use no_metrics as metrics;
#[cfg(any(feature = "http", feature = "metrics"))]
pub(crate) use view::ManagerView;

/// The result of a reconcile, for the metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReconcileResult {
    Success,
    RequeueAfter,
    Failed,
    FailedTerminally,
    TimedOut,
    Panicked,
}

/// The phase of a manager, for `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagerPhase {
    Starting,
    Running,
    Stopping,
}

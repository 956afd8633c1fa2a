//! A framework for Kubernetes operators: controllers on shared caches, leader election, events, and
//! helpers for writes.
//!
//! - A [`Controller`] calls a [`Reconciler`] for an object when the object itself, an object that it
//!   owns, or another watched object changed. The [`Request`] contains the [`Reason`]s. Failed
//!   reconciles are retried with backoff.
//! - A [`Manager`] starts and stops caches, election, controllers and tasks in order. It serves
//!   metrics, health and debug pages.
//! - An [`Election`] uses a Lease, like the elections of client-go. Its [`Leadership`] reports whether
//!   this process is the leader.
//! - [`Finalizer`], [`create_or_update`], [`Applier`], [`set_controller_reference`] and
//!   [`set_condition`] help reconcilers to write objects only if they differ. An [`EventRecorder`]
//!   reports events of objects.
//!
//! ```no_run
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//! use kube_client::Client;
//! use kube_operator::{
//!     Action, Controller, Failure, Manager, ManagerOptions, Request, shutdown_signal,
//! };
//!
//! async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
//!     let Some(deployment) = request.object else { return Ok(Action::AwaitChange) }; // deleted
//!     // Compare the Pods with `deployment`, and create or delete some.
//!     # drop(deployment);
//!     Ok(Action::Done)
//! }
//!
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let mut manager = Manager::new(client, ManagerOptions::default())?;
//! let deployments = manager.factory().informer::<Deployment>()?;
//! let pods = manager.factory().informer::<Pod>()?;
//! manager.add_controller(Controller::new(&deployments).owns(&pods), reconcile);
//! manager.run(shutdown_signal()).await?;
//! # Ok(()) }
//! ```
//!
//! The modules [`informer`] and [`workqueue`] re-export the crates that a program needs for caches,
//! keys and rate limiters.
//!
//! # Features
//! Both features are on by default.
//! - `http`: metrics, health and debug pages of a [`Manager`] over HTTP.
//! - `metrics`: metrics for Prometheus. Without `http`, a program registers them in its own registry.
//!
//! # Secrets in logs
//! If a server rejects an object, its message may contain parts of the object. Errors of serde_json
//! contain parts of invalid input. Logs and pages of this crate, and the text of a [`Failure`], never
//! contain such parts. Error sources may contain such parts, and other libraries print sources with
//! `{:#}`. The `{:?}` format of a [`WriteError`] or a [`FinalizerError`] also prints sources.
//!
//! kube-client also logs, under the target `kube_client`. It logs complete responses that it cannot
//! decode (level warn) and rejections (level debug). This affects requests that a program sends through
//! an `Api` or a `CachedApi`, and requests for the Lease. The helpers of this crate avoid it. If your
//! objects contain secrets, filter logs with `kube_client=error`. The panic hook prints panic messages,
//! by default to standard error: `from_value(..).unwrap()` may print a part of an object.
//!
//! # Invariants
//! - Two processes are never leaders at the same time, if no clock runs faster than another by more
//!   than the ratio of lease duration and renew deadline. A leader stops at the renew deadline, counted
//!   from the send time of its last accepted write. A candidate waits for the complete lease duration
//!   after the last observed renewal, even if the Lease was deleted and created again. A candidate that
//!   starts after a deletion is exempt, because it never observed the old holder.
//! - Each leadership check reads the clock. The check does not depend on a background task.
//! - Reconciles of one key never overlap, and a reconcile starts after each event that passes the filter.
//! - No reconcile starts while this process is not the leader. A manager releases its lease only after
//!   all leader-only work has stopped.
//! - A guarded client sends each write at most once, and only after a check of leadership.
//! - Reporting an event never waits. Each reported event is counted as sent, waiting, failed or dropped.
//! - A [`Finalizer`] is on the server before the reconciler creates anything, and it is removed only
//!   after a completed cleanup.
//! - An update never overwrites a change of another client. It fails with a conflict.
//!   [`Applier::force`] is the only exception.

mod controller;
mod election;
mod manager;
mod observe;
mod recorder;
mod redact;
mod write;

pub use controller::{
    Controller, ControllerError,
    action::{Action, Failure},
    predicate::Predicate,
    reason::{Change, Reason, Reasons},
    reconcile::{Reconciler, Request},
};
pub use election::{
    Election, ElectionOptions,
    leadership::{Leadership, LeaseExpired, NotLeading},
    lease::{ElectionError, LeaseTimes},
};
pub use manager::{
    Manager, ManagerError, ManagerOptions, RunsOn, permissions::MissingRule, signals::shutdown_signal,
};
pub use recorder::{
    DroppedEvents, EventBroadcaster, EventRecorder, EventType, NewEvent, RecorderError, RecorderStatus,
};
pub use write::{
    apply::Applier,
    conditions::{find_condition, is_condition_true, new_condition, remove_condition, set_condition},
    finalizer::{Finalizer, FinalizerError, FinalizerEvent},
    owner::{OwnerError, set_controller_reference, set_owner_reference},
    update::{create_or_update, update_status},
    written::{OperationResult, WriteError, Written},
};

pub use kube_informer as informer;
#[doc(inline)]
pub use kube_workqueue as workqueue;
/// The crate of the metrics, for metrics that a program registers with [`Manager::metrics_registry`].
#[cfg(feature = "metrics")]
pub use prometheus_client;

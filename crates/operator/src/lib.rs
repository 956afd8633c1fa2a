//! A framework for Kubernetes operators: controllers on shared caches, leader election, events, and
//! helpers for writes.
//!
//! - A [`Controller`] calls a [`Reconciler`] for an object if the object, one of its owned objects,
//!   or another watched object changes. The [`Request`] contains the [`Reason`]s. Failed reconciles
//!   are retried with backoff.
//! - A [`ClusterController`] reconciles the objects of many clusters, which can be added and removed at run
//!   time.
//! - A [`Manager`] starts caches, the election, controllers and tasks, and stops them in the
//!   reverse order. It serves metrics, health and debug pages, and a page for browsers.
//! - An [`Election`] elects a leader with a Lease, like an election of client-go. Its
//!   [`Leadership`] reports whether this process is the leader.
//! - [`Finalizer`], [`create_or_update`], [`Applier`], [`set_controller_reference`] and
//!   [`set_condition`] help reconcilers to write objects, and to skip unnecessary writes.
//! - A [`CachedClient`] reads objects of all types from caches, and writes them.
//! - An [`EventRecorder`] reports Kubernetes Events about objects.
//! - [`Manager::rbac_roles`] returns the RBAC roles that grant the permissions of a program.
//! - [`await_condition`] waits until a cached object satisfies a condition, without requests.
//! - [`ensure_crd`] installs a CRD, and waits until the server serves its objects.
//!
//! ```no_run
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//! use kube_client::Client;
//! use kube_operator::{
//!     Action, Controller, Failure, Manager, ManagerOptions, Request, shutdown_signal,
//! };
//!
//! async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
//!     let Some(deployment) = request.object.present() else { return Ok(Action::AwaitChange) };
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
//! manager.run_and_exit(shutdown_signal()).await
//! # }
//! ```
//!
//! The modules [`informer`] and [`workqueue`] re-export the crates that a program needs for caches,
//! keys and rate limiters.
//!
//! # Features
//! The features `http`, `metrics` and `page` are enabled by default.
//! - `http`: metrics, health and debug pages of a [`Manager`] over HTTP.
//! - `metrics`: metrics for Prometheus. Without `http`, a program registers the metrics in its own
//!   registry with `Manager::register_metrics`.
//! - `page`: an HTML page for browsers, at `/` and below `/ui`. This feature enables `http`.
//! - `compressed`: caches of compressed objects, with zstd, which is built from C.
//! - `webhooks`: admission and conversion webhooks. This feature enables `tls`.
//! - `tls`: TLS and authorization for the pages, with `ManagerOptions::secure_serving`. This feature
//!   enables `http`, and the crates rustls and ring.
//!
//! # Secrets in logs
//! If a server rejects an object, its message may contain parts of the object, for example an invalid
//! value. The logs and pages of this crate, and the text of a [`Failure`], contain this message, because
//! it usually names the cause. They omit the message if the kind of the object is unknown or a Secret.
//! Mark other sensitive kinds with [`mark_sensitive`](informer::mark_sensitive). To mask all quoted
//! values, call [`mask_quoted_values`](informer::mask_quoted_values).
//!
//! If JSON cannot be decoded, the message of serde_json may contain parts of the JSON. Logs, pages and
//! [`Failure`]s never contain this message.
//!
//! The sources of an error contain the unchanged messages. Some formats print the sources: `{:#}` of
//! anyhow, and `{:?}` of a [`WriteError`] or a [`FinalizerError`].
//!
//! kube-client writes log lines with the target `kube_client`. At level warn, it logs each response
//! that it cannot decode. At level debug, it logs each rejection. This applies to requests that a
//! program sends through an `Api` or a `CachedApi`, and to requests for the Lease. The helpers of
//! this crate avoid these log lines. If your objects contain secrets, use the log filter
//! `kube_client=off`.
//!
//! The panic hook prints panic messages, by default to standard error. For example, the panic of
//! `from_value(..).unwrap()` may print a part of an object.
//!
//! # Invariants
//! - Two processes are never leaders at the same time. This requires that no clock runs faster than
//!   another clock by more than the factor `lease_duration / renew_deadline`. A leader stops when
//!   the renew deadline has passed since it sent its last accepted write of the Lease. A candidate
//!   waits for the complete lease duration after the last observed renewal, even if the Lease was
//!   deleted and created again.
//! - There is one exception: a candidate that starts after the Lease was deleted has not observed
//!   the old holder. It may become the leader while the old holder is still the leader.
//! - Each leadership check reads the clock. The check does not depend on a background task.
//! - Reconciles of one key never overlap. After each event that passes the filter, a reconcile of
//!   the key starts. Several events may cause only one reconcile.
//! - A leader-only controller starts a reconcile only while this process is the leader. A manager
//!   releases its lease only after all leader-only work has stopped.
//! - A client of [`Leadership::guard`] sends each write at most once, and only after a check of
//!   leadership.
//! - Reporting an event never waits. Each reported event is counted as sent, waiting, failed or
//!   dropped.
//! - The server stores the finalizer of a [`Finalizer`] before `apply` runs. The finalizer is
//!   removed only after a complete cleanup.
//! - A reconcile of a [`ClusterController`] receives only objects of one cluster. After a cluster has left,
//!   the controller does not start another reconcile of its objects.
//! - An update never overwrites a change of another client. Instead, the update fails with
//!   [`WriteError::Conflict`] or [`WriteError::FieldManagerConflict`]. The only exception is an apply with
//!   [`Applier::force`].

mod cached_client;
mod clusters;
mod controller;
mod crd;
mod election;
mod log_throttle;
mod manager;
mod observe;
mod rate_limited;
mod recorder;
mod redact;
mod replay;
mod shards;
mod wait;
#[cfg(feature = "webhooks")]
pub mod webhook;
mod write;

pub use cached_client::{CachedClient, CachedClientError};
pub use clusters::{
    Cluster, ClusterConfigError, ClusterController, ClusterEngager, ClusterHandlerRegistration, ClusterIndex,
    ClusterInformer, ClusterKey, ClusterName, ClusterProvider, ClusterRequest, ClusterState, ClusterStatus,
    Clusters, InvalidClusterName, KubeconfigProvider, ParseClusterKeyError, SecretProvider,
};
pub use controller::{
    Controller, ControllerError,
    action::{Action, Failure, TerminalError},
    handle::{ControllerHandle, ControllerStopped, Source, SourceHandle},
    informers::Informers,
    key_controller::KeyController,
    keys::RequestKey,
    predicate::Predicate,
    reason::{Change, Reason, Reasons},
    reconcile::{KeyRequest, Observed, Reconciler, Request, with_context},
    source::RequestQueue,
};
pub use crd::{CrdError, ensure_crd, wait_for_crd};
pub use election::{
    Election, ElectionOptions,
    guard::RequestTimeout,
    leadership::{Leadership, LeaseExpired, NotLeading},
    lease::{ElectionError, LeaseTimes},
};
pub use manager::{
    AddControllerError, AddedController, Manager, ManagerError, ManagerHandle, ManagerOptions, RunsOn,
    WriteKind, offline_client,
    permissions::{
        RbacPermission,
        diff::{PermissionCheckError, PermissionDiff},
        roles::RbacRoles,
    },
    signals::shutdown_signal,
};
#[cfg(feature = "tls")]
pub use manager::{CertificateSource, SecureServing};
pub use rate_limited::rate_limited;
pub use recorder::{DroppedEvents, EventRecorder, EventType, NewEvent, RecorderError, RecorderStatus};
pub use replay::{
    RecordedBodies, RecordedBody, Recording, RecordingError, Replay, ReplayError, recorded_bodies,
};
pub use shards::{
    cluster_slots::ClusterSharding,
    owned::{OwnedSlots, SlotPermit},
    scope::SlotLost,
    sharding::{CachedSlots, ShardOptions, Sharding},
};
pub use wait::{AwaitConditionError, await_condition, conditions};
pub use write::{
    apply::Applier,
    conditions::{find_condition, is_condition_true, new_condition, remove_condition, set_condition},
    finalizer::{Cleanup, Finalizer, FinalizerError},
    owner::{
        OwnerError, has_controller_reference, is_controlled_by, remove_owner_reference,
        set_controller_reference, set_owner_reference,
    },
    retry::retry_on_conflict,
    update::{create_or_update, patch_status, update_status},
    written::{OperationResult, WriteError, Written},
};

/// Contains the types of the pages that a program adds with [`Manager::map_pages`].
#[cfg(feature = "http")]
pub use axum;
pub use kube_informer as informer;
#[doc(inline)]
pub use kube_workqueue as workqueue;
/// Contains the types of the metrics that a program registers with [`Manager::metrics_registry`].
#[cfg(feature = "metrics")]
pub use prometheus_client;

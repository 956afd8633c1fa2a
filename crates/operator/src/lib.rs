//! Operators: programs that bring the world closer to what objects ask for, on caches that they share.
//!
//! A [`Controller`] runs a [`Reconciler`] for each object of a type whenever something has changed that concerns it: the object
//! itself, what it owns, other objects, anything else. It says why ([`Reason`]), tries again what fails, later each time, and
//! never works twice on one object at a time.
//!
//! An [`Election`] takes part in the election that a Lease of the cluster decides, as those of client-go do. Its
//! [`Leadership`] says at any moment whether this process may act; controllers begin nothing when it may not.
//!
//! A [`Manager`] starts and stops what an operator consists of, and serves its metrics, its health, and pages that say what
//! it does and why.
//!
//! What a run does has helpers: a [`Finalizer`] cleans up before an object is gone, [`create_or_update`] and [`Applier`] write
//! what is not as it should be and nothing else, [`set_controller_reference`] says whose it is, [`set_condition`] what is
//! to be said of it. An [`EventRecorder`] tells people what was done: as events of the objects that it was done to.
//!
//! ```no_run
//! # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
//! # use kube_client::Client;
//! # use kube_operator::{Action, Controller, Failure, Manager, ManagerOptions, Request, shutdown_signal};
//! # async fn reconcile(_: Request<Deployment>) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let mut manager = Manager::new(client, ManagerOptions::default())?;
//! let deployments = manager.factory().informer::<Deployment>()?;
//! let pods = manager.factory().informer::<Pod>()?;
//! manager.add_controller(Controller::new(&deployments).owns(&pods), reconcile);
//! manager.run(shutdown_signal()).await?;
//! # Ok(()) }
//! ```
//!
//! # What is logged
//! No log, no page and no word of a [`Failure`] shows what a server or serde_json quotes of an object. An error's own source
//! may: `{:#}` of another library shows it, as does `{:?}` of a [`WriteError`] or a [`FinalizerError`].
//!
//! kube-client logs by itself, under the target `kube_client`: at level warn a whole answer that it can't decode, at level
//! debug what a server has refused. The helpers ask without that. Requests that a program makes of an `Api` or a `CachedApi`
//! are logged so, as are those of the Lease. Where objects hold secrets, filter with `kube_client=error`. And a panic says what
//! it says to the program's panic hook, which is to standard error by default: `from_value(..).unwrap()` may quote an object.
//!
//! # Invariants
//! - Nobody counts on a lease for longer than its renew deadline, by its own clock, since it sent the last write that was
//!   accepted; others leave it alone for its whole duration since they have seen its holder's last change, and one that was
//!   deleted and made anew, too, unless they held it. So no two lead at once, as long as no clock runs faster than another by
//!   more than the ratio of the two (`lease`, which is plain data, and its simulation), and no candidate begins between a
//!   deletion and the end of what the old holder counts on: it can't know of that.
//! - No two runs of one key overlap, and one begins after each event that passes its filter.
//! - A write through a guarded client is sent at most once for each time that it was asked who leads.
//! - No run begins when this process does not lead. A manager gives its lease back when nothing goes on that was begun under it.
//! - Who reports an event never waits for it, and each event that was reported is counted: as sent, waiting, failed or dropped.
//! - Whether this process leads is asked of the clock at that moment: no task has to have run since the lease expired.
//! - Nothing is made for an object before the server has its finalizer, and the finalizer is taken away only after a cleanup.
//! - What others have written meanwhile is not overwritten.
//! - Nothing that a server quotes of an object is logged or shown: see above.

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

/// The crate of the metrics: for those that a program adds with [`Manager::metrics_registry`].
pub use prometheus_client;

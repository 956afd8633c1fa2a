//! Operators: programs that bring the world closer to what objects ask for, on caches that they share.
//!
//! A [`Controller`] runs a [`Reconciler`] for each object of a type whenever something has changed that concerns it: the object
//! itself, what it owns, other objects, anything else. It says why ([`Reason`]), tries again what fails, later each time, and
//! never works twice on one object at a time.
//!
//! An [`Election`] takes part in the election that a Lease of the cluster decides, as those of client-go do. Its
//! [`Leadership`] says at any moment whether this process may act; controllers begin nothing when it may not.
//!
//! ```no_run
//! # use k8s_openapi::api::apps::v1::Deployment;
//! # use kube_client::Client;
//! # use kube_informer::InformerFactory;
//! # use kube_operator::{Action, Controller, Election, ElectionOptions, Failure, LeaseTimes, Request};
//! # use tokio_util::sync::CancellationToken;
//! # async fn reconcile(_: Request<Deployment>) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn example(client: Client, identity: String, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
//! let election = Election::new(client.clone(), ElectionOptions {
//!     namespace: "shop".to_owned(),
//!     name: "website-operator".to_owned(),
//!     identity, // another one in each process
//!     times: LeaseTimes::default(),
//! })?;
//! let leadership = election.leadership();
//! let writer = leadership.guard(client.clone()); // writes only for as long as this process leads
//! let factory = InformerFactory::new(client);
//! let controller = Controller::new(&factory.informer::<Deployment>()?);
//! tokio::join!(election.run(stop.clone()), controller.run(reconcile, leadership, stop));
//! factory.shutdown().await;
//! # drop(writer);
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! - Nobody counts on a lease for longer than its renew deadline, by its own clock, since it sent the last write that was
//!   accepted; others leave it alone for its whole duration since they have seen the last change. So no two lead at once, as
//!   long as no clock runs faster than another by more than the ratio of the two (`lease`, which is plain data, and its
//!   simulation).
//! - No two runs of one key overlap, and one begins after each event that passes its filter.
//! - No run begins when this process does not lead.
//! - Whether this process leads is asked of the clock at that moment: no task has to have run since the lease expired.

mod action;
mod controller;
mod election;
mod leadership;
mod lease;
mod predicate;
mod reason;
mod reconcile;
mod source;
mod worker;

pub use action::{Action, Failure};
pub use controller::Controller;
pub use election::{Election, ElectionOptions};
pub use leadership::{Leadership, NotLeading};
pub use lease::{ElectionError, LeaseTimes};
pub use predicate::Predicate;
pub use reason::{Change, Reason, Reasons};
pub use reconcile::{Reconciler, Request};

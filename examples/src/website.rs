//! A complete operator for a small CRD.
//!
//! A [`Website`] owns a ConfigMap with its page, a Deployment that serves the page, and a Service.
//! It also has an entry in a directory that all sites of the cluster share.
//!
//! - `resource`: the CRD.
//! - `children`: the objects that a site owns, computed as plain data.
//! - `directory`: the shared directory. A finalizer removes its entries, because owner references
//!   are limited to one namespace.
//! - `reconcile`: the reconciler.
//! - `state`: the result of a reconcile, and its condition and event.
//! - `operator`: the `Manager` with the controller.

mod children;
mod directory;
mod operator;
mod reconcile;
mod resource;
mod state;

pub use directory::DIRECTORY;
pub use operator::{OperatorOptions, operator};
pub use resource::{Website, WebsiteSpec, WebsiteStatus};

/// The field manager of the child objects.
const FIELD_MANAGER: &str = "website-operator";

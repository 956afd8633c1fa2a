//! A whole operator, for a small CRD: a [`Website`] owns a ConfigMap with its page, a Deployment that serves it and a Service in
//! front, and is listed in a directory that all sites of the cluster share.
//!
//! - `resource`: the CRD.
//! - `children`: what a site owns, as plain data.
//! - `directory`: what has to be cleaned up, since no owner reference reaches across namespaces.
//! - `reconcile`: one run.
//! - `state`: what has come of it, and what is said of that.
//! - `operator`: all of it, as a `Manager`.

mod children;
mod directory;
mod operator;
mod reconcile;
mod resource;
mod state;

pub use directory::DIRECTORY;
pub use operator::{OperatorOptions, operator};
pub use resource::{Website, WebsiteSpec, WebsiteStatus};

/// Whose fields the children's fields are.
const MANAGER: &str = "website-operator";

//! The errors of a `Finalizer`.

use kube_client::Error;
use kube_informer::{Escaped, ObjectKey};

/// Describes the reason why a finalizer was not added or removed.
///
/// The source of the error may contain parts of the object. Convert the error to a
/// [`Failure`](crate::Failure) before you log it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The object has no name or no uid, because it was not read from the server.
    #[error("{0} has no name or no uid; use an object that was read from the server")]
    MissingIdentity(ObjectKey),
    /// The object and the [`CachedApi`](kube_informer::CachedApi) have different namespaces.
    #[error(
        "failed to reconcile {key}: the namespace of its CachedApi is {}; select the namespace with `CachedApi::namespace` or `CachedApi::with_api`",
        .namespace.as_deref().unwrap_or("not set")
    )]
    NamespaceMismatch {
        /// The key of the object.
        key: ObjectKey,
        /// The namespace of the [`CachedApi`](kube_informer::CachedApi).
        namespace: Option<String>,
    },
    /// The object could not be read from the server, before the user function ran or after a complete
    /// cleanup. The next reconcile tries again.
    #[error("failed to read {} {key} from the server to check the finalizer {finalizer}", Escaped(resource))]
    Read {
        /// The resource of the object, for example `deployments`.
        resource: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: Box<str>,
        /// The error of the request.
        source: Error,
    },
    /// The patch that adds the finalizer failed. The user function did not run.
    #[error("failed to add the finalizer {finalizer} to {} {key}", Escaped(resource))]
    Add {
        /// The resource of the object, for example `deployments`.
        resource: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: Box<str>,
        /// The error of the request.
        source: Error,
    },
    /// The server accepted the patch, but its response does not contain the finalizer. A webhook may
    /// have removed the finalizer. The user function did not run.
    #[error(
        "failed to add the finalizer {finalizer} to {} {key}: the server accepted the patch but did not store the finalizer; check whether a webhook removes it",
        Escaped(resource)
    )]
    NotPersisted {
        /// The resource of the object, for example `deployments`.
        resource: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: Box<str>,
    },
    /// The patch that removes the finalizer failed. If a cleanup was complete, the next reconcile runs
    /// the cleanup again.
    #[error("failed to remove the finalizer {finalizer} from {} {key}", Escaped(resource))]
    Remove {
        /// The resource of the object, for example `deployments`.
        resource: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: Box<str>,
        /// The error of the request.
        source: Error,
    },
}

//! `Written` and `WriteError`: the results of the helpers that write.

use std::{fmt, sync::Arc};

use kube_client::{Error, core::Status};
use kube_informer::{Cached, CachedApi, CachedReadError, Escaped, ObjectKey};

use super::requests::plural;

/// Describes the operation that a helper performed on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// The object already had the desired state.
    Unchanged,
    /// The object did not exist and was created.
    Created,
    /// The object was changed.
    Updated,
}

/// Represents an object after a write. The `Debug` output does not contain the object.
pub struct Written<K> {
    /// The operation that the helper performed.
    pub result: OperationResult,
    /// The object in the response of the server, without managedFields. After
    /// [`patch_status`](crate::patch_status): the passed object with the new status, and with the metadata of
    /// the response. If no request was necessary: the cached object, or the passed object.
    pub object: Arc<K>,
}

impl<K> fmt::Debug for Written<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("result", &self.result).finish_non_exhaustive()
    }
}

impl<K> Written<K> {
    pub(crate) fn unchanged(object: Arc<K>) -> Self {
        Self { result: OperationResult::Unchanged, object }
    }

    pub(crate) fn created(object: K) -> Self {
        Self { result: OperationResult::Created, object: Arc::new(object) }
    }

    pub(crate) fn updated(object: K) -> Self {
        Self { result: OperationResult::Updated, object: Arc::new(object) }
    }
}

/// Describes the reason why a write failed. The server did not write the object, except possibly in the
/// case of [`WriteError::Request`].
///
/// The messages of the sources may contain parts of the object. Convert the error to a
/// [`Failure`](crate::Failure) before you log it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The cache could not be read, for example because it did not receive an earlier write of this
    /// process in time. The helper did not send its write.
    #[error(transparent)]
    Stale(#[from] CachedReadError),
    /// The object has no name.
    #[error("failed to write an object without a name; set metadata.name (generateName is not supported)")]
    MissingName,
    /// The object has no resourceVersion.
    #[error(
        "failed to patch a status without a resourceVersion; pass an object from the cache or from a response"
    )]
    MissingVersion,
    /// The object and the `CachedApi` have different namespaces.
    #[error(
        "failed to write {key}: the namespace of its CachedApi is {}; select the namespace with `CachedApi::namespace` or `CachedApi::with_api`",
        .namespace.as_deref().unwrap_or("not set")
    )]
    NamespaceMismatch {
        /// The key of the object.
        key: ObjectKey,
        /// The namespace of the `CachedApi`.
        namespace: Option<String>,
    },
    /// `mutate` changed the name or the namespace of the object.
    #[error(
        "failed to write {before}: the update function changed its name to {after}; use a separate call for {after}"
    )]
    Renamed {
        /// The key before the call of `mutate`.
        before: ObjectKey,
        /// The key after the call of `mutate`.
        after: ObjectKey,
    },
    /// The server rejected the write with status 409: the object was changed or created after it was cached.
    /// If the informer selects the object, the next reconcile receives the new state. If it does not select
    /// the object, each write of the object fails with this error.
    #[error("failed to {} {key}: conflict with another write", Escaped(operation))]
    Conflict {
        /// The operation and the resource, for example `update deployments`.
        operation: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The error of the request.
        source: Error,
    },
    /// The server rejected the apply with status 409: another field manager has set an applied field to
    /// another value. Each retry fails, until the other field manager gives up the field. See
    /// [`Applier::force`](crate::Applier::force).
    #[error(
        "failed to {} {key}: another field manager has set a field to another value; do not apply this field, or \
         enable `force`",
        Escaped(operation)
    )]
    FieldManagerConflict {
        /// The operation and the resource, for example `apply deployments`.
        operation: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The error of the request. Its message contains the field manager and the field.
        source: Error,
    },
    /// The server rejected the request, did not respond, or sent an invalid response. If it did not
    /// reject the request, it may have written the object.
    #[error("failed to {} {key}", Escaped(operation))]
    Request {
        /// The operation and the resource, for example `update deployments`.
        operation: Box<str>,
        /// The key of the object.
        key: ObjectKey,
        /// The error of the request.
        source: Error,
    },
    /// The object cannot be serialized as JSON.
    #[error("failed to serialize {key} as JSON")]
    Serialize {
        /// The key of the object.
        key: ObjectKey,
        /// The error of serde_json.
        source: serde_json::Error,
    },
}

impl WriteError {
    /// Describes a failed write of the object with this key.
    pub(crate) fn request<T>(api: &CachedApi<T>, verb: &'static str, key: &ObjectKey, source: Error) -> Self
    where
        T: Cached,
    {
        let operation = format!("{verb} {}", plural(api.api().resource_url())).into();
        let key = key.clone();
        match &source {
            Error::Api(status) if status.is_conflict() && is_field_manager_conflict(status) => {
                Self::FieldManagerConflict { operation, key, source }
            }
            Error::Api(status) if status.is_conflict() || status.is_already_exists() => {
                Self::Conflict { operation, key, source }
            }
            _ => Self::Request { operation, key, source },
        }
    }
}

/// Returns whether an apply was rejected because of another field manager. The reason of the cause is part of
/// the API: `CauseTypeFieldManagerConflict` in k8s.io/apimachinery.
fn is_field_manager_conflict(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "FieldManagerConflict")
}

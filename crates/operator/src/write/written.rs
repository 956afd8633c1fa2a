//! What the helpers that write return: `Written`, or a `WriteError`.

use std::{fmt, sync::Arc};

use kube_client::Error;
use kube_informer::{CachedReadError, ObjectKey};

/// What was done about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationResult {
    /// Nothing: it was as it should be.
    Unchanged,
    /// There was none.
    Created,
    /// It was changed.
    Updated,
}

/// An object as it is now, and what was done about it. Its `Debug` shows nothing of the object.
pub struct Written<K> {
    /// What was done.
    pub result: OperationResult,
    /// As the server has answered or, where nothing was asked of it, as the cache has it.
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

/// An object was not written, or it is not known whether it was.
///
/// Its own words quote nothing of the object, those of its source may: in a log show it as a [`Failure`](crate::Failure).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The cache does not show what this program has written before.
    #[error(transparent)]
    Stale(#[from] CachedReadError),
    /// It has no name.
    #[error("an object without a name can't be written in this way: give it one (generateName is none)")]
    MissingName,
    /// It would be looked for in one namespace and written to another.
    #[error(
        "{key} is not in the namespace of its CachedApi ({namespace:?}): take its `namespace` or `with_api`"
    )]
    NamespaceMismatch {
        /// The object.
        key: ObjectKey,
        /// That of the `CachedApi`.
        namespace: Option<String>,
    },
    /// The function that was to change an object made another one of it.
    #[error("{before} was given another name or namespace: write {after} by itself")]
    Renamed {
        /// The object.
        before: ObjectKey,
        /// What became of it.
        after: ObjectKey,
    },
    /// Nothing was written. Others have written the object since it was cached, or have created it: another run will see
    /// that, unless the informer does not cover the object. Or another field manager has set what was applied.
    #[error("can't write {key}: it is in conflict with what others have written")]
    Conflict {
        /// The object.
        key: ObjectKey,
        /// What the server says.
        source: Error,
    },
    /// The server has refused it, or has not answered.
    #[error("can't write {key}")]
    Request {
        /// The object.
        key: ObjectKey,
        /// What the server says, or what has become of the request.
        source: Error,
    },
    /// It is no JSON.
    #[error("can't write {key}: it can't be put into JSON")]
    Serialize {
        /// The object.
        key: ObjectKey,
        /// Why.
        source: serde_json::Error,
    },
}

impl WriteError {
    /// A write of this object has failed.
    pub(crate) fn of(key: &ObjectKey, source: Error) -> Self {
        let key = key.clone();
        match &source {
            Error::Api(status) if status.is_conflict() || status.is_already_exists() => {
                Self::Conflict { key, source }
            }
            _ => Self::Request { key, source },
        }
    }
}

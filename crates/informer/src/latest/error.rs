//! The error of `Informer::wait_for_latest`.

use std::time::Duration;

use kube_object::{Escaped, ResourceVersion};

use crate::CacheSyncError;

/// Reports why the cache of an informer may lack writes that the server has accepted.
/// [`Informer::wait_for_latest`](crate::Informer::wait_for_latest) returns it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitForLatestError {
    /// The cache did not contain the initial list within the timeout. Either the informer was not started, or
    /// its LIST fails.
    #[error(transparent)]
    NotSynced(CacheSyncError),
    /// The timeout expired. For example, the server sends no bookmarks, its watch cache lags, a request fails
    /// repeatedly, or the watch of the informer receives no events.
    #[error(
        "cache of {} is not known to contain the latest writes after {timeout:?}; the resourceVersion of the server is {}, and that of the cache is {}{}",
        Escaped(informer),
        version(.latest.as_ref()),
        version(.reached.as_ref()),
        failure(.last_error.as_deref())
    )]
    Timeout {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the server at the start of the wait. `None` if the server has not
        /// returned it.
        latest: Option<ResourceVersion>,
        /// The resourceVersion of the cache. `None` if the cache has no resourceVersion.
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
        /// The last failure of a LIST or WATCH of this wait, with the URL. `None` if no request has failed.
        last_error: Option<String>,
    },
    /// The resourceVersions of the server have no order, for example because they are not decimal numbers.
    /// Some aggregated API servers return such versions. A retry does not help.
    #[error(
        "cannot decide whether the cache of {} contains the latest writes: resourceVersion {version:?} of the server has no order",
        Escaped(informer)
    )]
    NotComparable {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of a list or an event.
        version: ResourceVersion,
    },
    /// The server was restored from an older state, for example from a backup of etcd. The cache contains
    /// states that the server may have lost, until a relist of the informer detects the restore.
    #[error(
        "cache of {} may contain lost states: the server was restored from a state before resourceVersion {cached}",
        Escaped(informer)
    )]
    ServerRestored {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the cache before the restore was detected.
        cached: ResourceVersion,
    },
    /// The method was called outside of a tokio runtime, so it cannot send requests.
    #[error(
        "cannot wait for the latest writes in the cache of {}: call the method within a tokio runtime",
        Escaped(informer)
    )]
    NoRuntime {
        /// The name of the informer.
        informer: String,
    },
    /// The informer is stopped, so its cache is no longer updated.
    #[error("cache of {} is no longer updated: the informer is stopped", Escaped(informer))]
    Stopped {
        /// The name of the informer.
        informer: String,
    },
}

fn version(version: Option<&ResourceVersion>) -> String {
    version.map_or_else(|| "unknown".to_owned(), ResourceVersion::to_string)
}

fn failure(error: Option<&str>) -> String {
    error.map_or_else(String::new, |error| format!("; last failed request: {error}"))
}

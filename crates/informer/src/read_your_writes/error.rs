//! The errors of reads from a cache.

use std::time::Duration;

use kube_object::{ObjectKey, ResourceVersion};

use crate::sync::UnsyncedInformer;

/// Reports why a read from a cache failed: a write of this program is not visible, or the cache is
/// not synced or no longer updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CachedReadError {
    /// The initial list was not cached within the timeout, so the cache cannot prove that an object
    /// is absent. Either the informer was not started, or its LIST fails. A later read waits again.
    #[error("initial list not cached within {timeout:?}: {informer}")]
    NotSynced {
        /// The informer, its phase, and its last failure.
        informer: UnsyncedInformer,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The cache did not reach the resourceVersion of a write within the timeout. A later read
    /// waits again.
    #[error(
        "cache of {informer} does not show the write at resourceVersion {written} after {timeout:?}; it {}",
        progress(.reached.as_ref())
    )]
    WriteNotVisible {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the write.
        written: ResourceVersion,
        /// The resourceVersion of the cache. `None` if the cache has no version yet.
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The cache still contained a deleted object after the timeout. A later read waits again.
    #[error(
        "cache of {informer} still contains the deleted object {key} after {timeout:?}; it {}",
        progress(.reached.as_ref())
    )]
    DeletionNotVisible {
        /// The name of the informer.
        informer: String,
        /// The deleted object.
        key: ObjectKey,
        /// The resourceVersion of the cache. `None` if the cache has no version yet.
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The server lost its history after a write, for example by a restore of etcd. The write may
    /// be undone.
    ///
    /// Every read that waits for a lost write returns this error. If no read waits, the next read
    /// returns this error. Later reads do not wait for earlier writes.
    #[error(
        "server history was restored: the write to {informer} at resourceVersion {written} may be undone"
    )]
    ServerRestored {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the last write of the lost history.
        written: ResourceVersion,
    },
    /// A namespaced object was read by its name through an `Api` of all namespaces. This read
    /// requires a namespace.
    #[error(
        "cannot find {name:?} without a namespace: {informer} caches namespaced objects; \
         use an Api of one namespace, or a lister"
    )]
    NamespaceRequired {
        /// The name of the informer.
        informer: String,
        /// The requested name.
        name: String,
    },
    /// The cache does not contain a write yet, and the read cannot wait outside of a tokio runtime.
    #[error("cache of {informer} does not show the write; waiting for it requires a tokio runtime")]
    NoRuntime {
        /// The name of the informer.
        informer: String,
    },
    /// The informer is stopped, so its cache is no longer updated. A [`Lister`](crate::Lister) still
    /// returns the last state.
    #[error("informer is stopped, so its cache is no longer updated: {informer}")]
    Stopped {
        /// The name of the informer.
        informer: String,
    },
}

fn progress(reached: Option<&ResourceVersion>) -> String {
    match reached.filter(|version| version.is_resumable()) {
        Some(version) => format!("is at {version}"),
        None => "has no resourceVersion".to_owned(),
    }
}

//! The errors of reads from a cache.

use std::time::Duration;

use kube_object::{DecodeError, Escaped, ObjectKey, ResourceVersion};

use crate::sync::UnsyncedInformer;

/// Reports why a read of a [`CachedApi`](crate::CachedApi) failed. For example, the cache does not
/// contain a write of this program, is not synced, or is no longer updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CachedReadError {
    /// The cache did not contain the initial list within the timeout, so it cannot prove that an
    /// object is absent. Either the informer was not started, or its LIST fails. A later read waits
    /// again.
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
        "cache of {} does not contain the write at resourceVersion {written} after {timeout:?}; the cache {}",
        Escaped(informer),
        progress(.reached.as_ref())
    )]
    WriteNotVisible {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the write.
        written: ResourceVersion,
        /// The resourceVersion of the cache. `None` if the cache does not have a resourceVersion
        /// yet.
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The cache still contained a deleted object after the timeout. A later read waits again.
    #[error(
        "cache of {} still contains the deleted object {key} after {timeout:?}; the cache {}",
        Escaped(informer),
        progress(.reached.as_ref())
    )]
    DeletionNotVisible {
        /// The name of the informer.
        informer: String,
        /// The deleted object.
        key: ObjectKey,
        /// The resourceVersion of the cache. `None` if the cache does not have a resourceVersion
        /// yet.
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The cached object does not decode as the resource type. For example, the Rust type of a custom
    /// resource lacks a variant of an enum.
    #[error(
        "cannot decode the cached object {key} of {}; correct the Rust type of the program",
        Escaped(informer)
    )]
    Decode {
        /// The name of the informer.
        informer: String,
        /// The cached object.
        key: ObjectKey,
        /// The error of the decoder.
        source: DecodeError,
    },
    /// The server was restored from an older state, for example from a backup of etcd. It may have
    /// lost a recorded write.
    ///
    /// Every read that waits for such a write returns this error. If no read is waiting, the next
    /// read returns it. Later reads do not wait for writes before the restore.
    #[error(
        "server was restored from an older state: \
         it may have lost the write at resourceVersion {written} to the objects of {}; read the state again",
        Escaped(informer)
    )]
    ServerRestored {
        /// The name of the informer.
        informer: String,
        /// The resourceVersion of the last recorded write before the restore.
        written: ResourceVersion,
    },
    /// A namespaced object was read by its name through an `Api` of all namespaces. This read
    /// requires a namespace.
    #[error(
        "cannot read {name:?} without a namespace: {} caches namespaced objects; \
         use an `Api` of one namespace, or a lister",
        Escaped(informer)
    )]
    NamespaceRequired {
        /// The name of the informer.
        informer: String,
        /// The requested name.
        name: String,
    },
    /// The informer is [sharded](crate::InformerBuilder::sharded), and does not cache the slot of the object
    /// or namespace. With [`ShardKey::Uid`](crate::ShardKey::Uid), an absent object can belong to another
    /// slot.
    #[error(
        "cannot read {}: {} caches only some slots, and the result can belong to another slot; \
         use an informer of all slots, or read from the server",
        objects_of(namespace),
        Escaped(informer)
    )]
    OtherSlot {
        /// The name of the informer.
        informer: String,
        /// The namespace. Empty for cluster-scoped objects.
        namespace: String,
    },
    /// The informer is [sharded](crate::InformerBuilder::sharded), and a list can contain objects of slots
    /// that it does not cache.
    #[error(
        "cannot list all objects: {} caches only some slots; \
         use an informer of all slots, read from the server, or list the cached objects with a lister",
        Escaped(informer)
    )]
    IncompleteList {
        /// The name of the informer.
        informer: String,
    },
    /// The cache does not contain a write yet, and the read was called outside of a tokio runtime,
    /// so it cannot wait.
    #[error(
        "cache of {} does not contain the write yet; call the method within a tokio runtime to wait for it",
        Escaped(informer)
    )]
    NoRuntime {
        /// The name of the informer.
        informer: String,
    },
    /// The informer is stopped, so its cache is no longer updated. A [`Lister`](crate::Lister) still
    /// returns the last state.
    #[error(
        "cannot read from the cache of {}: the informer is stopped, so the cache is no longer updated",
        Escaped(informer)
    )]
    Stopped {
        /// The name of the informer.
        informer: String,
    },
}

fn objects_of(namespace: &str) -> String {
    match namespace {
        "" => "cluster-scoped objects".to_owned(),
        _ => format!("objects of the namespace {namespace:?}"),
    }
}

fn progress(reached: Option<&ResourceVersion>) -> String {
    match reached.filter(|version| version.is_resumable()) {
        Some(version) => format!("is at resourceVersion {version}"),
        None => "has no resourceVersion".to_owned(),
    }
}

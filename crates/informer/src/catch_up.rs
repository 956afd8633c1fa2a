//! Waiting for a cache to show what was written.

use std::time::Duration;

use kube_object::{Object, ObjectKey, ResourceVersion};
use tokio::runtime::Handle;

use crate::{Informer, sync, sync::Unsynced, written::Unseen};

/// A cache does not show what was written, or nothing at all yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StaleRead {
    /// Its first list has not come within the time, so that it does not say what is not there; a later read waits again. The
    /// informer was not started, as one that is made beside a factory that runs, or can't list.
    #[error("the first list is not in the cache after {within:?}: {informer}")]
    NotSynced {
        /// The informer, what it was doing, and its last failure.
        informer: Unsynced,
        /// How long was waited.
        within: Duration,
    },
    /// It has not reached the version of a write within the time; a later read waits again.
    #[error(
        "the cache of {informer} is {} and does not show what was written at {wanted} after {within:?}",
        at(.reached.as_ref())
    )]
    Behind {
        /// The informer: its kind and URL.
        informer: String,
        /// The version of the write.
        wanted: ResourceVersion,
        /// How far the cache is; `None` where nothing with a version is in it.
        reached: Option<ResourceVersion>,
        /// How long was waited.
        within: Duration,
    },
    /// It still holds an object that was deleted; a later read waits again.
    #[error(
        "the cache of {informer} is {} and still holds {key}, which was deleted, after {within:?}",
        at(.reached.as_ref())
    )]
    Undeleted {
        /// The informer: its kind and URL.
        informer: String,
        /// The object.
        key: ObjectKey,
        /// How far the cache is; `None` where nothing with a version is in it.
        reached: Option<ResourceVersion>,
        /// How long was waited.
        within: Duration,
    },
    /// The server's history was restored after a write, which may be undone. Said to each read that waits for such a write,
    /// or else to the next one; a later read does not wait for what was written before.
    #[error("the server's history was restored: what was written to {informer} at {wanted} may be undone")]
    Restored {
        /// The informer: its kind and URL.
        informer: String,
        /// The version of the last write of the lost history.
        wanted: ResourceVersion,
    },
    /// An object was asked for by its name alone, through an `Api` of all namespaces: none is found like that.
    #[error(
        "objects of {informer} live in namespaces: {name:?} is none without one, take an Api of a namespace or a lister"
    )]
    NoNamespace {
        /// The informer: its kind and URL.
        informer: String,
        /// What was asked for.
        name: String,
    },
    /// It does not show what was written yet; there is no tokio runtime here, and without its clock nothing can be waited
    /// for.
    #[error(
        "the cache of {informer} does not show what was written, which only a task of a tokio runtime can wait for"
    )]
    NoRuntime {
        /// The informer: its kind and URL.
        informer: String,
    },
    /// The informer was stopped before its cache showed a write.
    #[error("{informer} is stopped, and its cache does not show what was written")]
    Stopped {
        /// The informer: its kind and URL.
        informer: String,
    },
}

fn at(reached: Option<&ResourceVersion>) -> String {
    reached.map_or_else(|| "empty".to_owned(), |version| format!("at {version}"))
}

impl<T: Object> Informer<T> {
    /// Waits until the cache has its first list and shows what was written of this object, or of all, through a
    /// [`CachedApi`](crate::CachedApi) of this informer before the wait began.
    ///
    /// # Errors
    /// [`StaleRead`].
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn catch_up(&self, key: Option<&ObjectKey>, within: Duration) -> Result<(), StaleRead> {
        let (mut goal, mut unseen, mut synced) = (None, None, false);
        let (store, written) = (&self.shared.store, &self.shared.written);
        let looking = store.wait_for(within, |_| {
            let mut written = written.lock();
            let cache = store.snapshot();
            let goal = goal.get_or_insert_with(|| written.goal(key, &cache));
            unseen = written.unseen(goal, key, &cache);
            synced = cache.position().synced;
            matches!(unseen, Some(Unseen::Lost(_))) || (unseen.is_none() && synced)
        });
        let reached = looking.await.watermark().cloned();
        let informer = self.shared.config.name.clone();
        Err(match unseen {
            None if synced => return Ok(()),
            None => StaleRead::NotSynced { informer: self.unsynced(), within: sync::patience(within) },
            Some(Unseen::Lost(wanted)) => StaleRead::Restored { informer, wanted },
            Some(_) if store.is_closed() => StaleRead::Stopped { informer },
            Some(_) if Handle::try_current().is_err() => StaleRead::NoRuntime { informer },
            Some(Unseen::Change(wanted)) => StaleRead::Behind { informer, wanted, reached, within },
            Some(Unseen::Deletion(key)) => StaleRead::Undeleted { informer, key, reached, within },
        })
    }
}

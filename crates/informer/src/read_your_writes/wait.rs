//! `Informer::wait_for_writes`: waits until the writes of this program are visible in the cache.

use std::time::Duration;

use kube_object::{Object, ObjectKey};
use tokio::runtime::Handle;

use super::{error::CachedReadError, pending_writes::NotVisible, tracker::WaitOutcome};
use crate::{Informer, sync};

impl<T: Object> Informer<T> {
    /// Waits until the initial list is cached and the writes to an object are visible in the cache.
    ///
    /// If `key` is `None`, the method waits for the writes to all objects. Only the writes that a
    /// [`CachedApi`](crate::CachedApi) of this informer has already recorded count. Later writes
    /// are ignored.
    ///
    /// # Errors
    /// Returns a [`CachedReadError`] if the initial list or a write does not become visible within
    /// the timeout, or if the informer is stopped.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_for_writes(
        &self,
        key: Option<&ObjectKey>,
        timeout: Duration,
    ) -> Result<(), CachedReadError> {
        let writes = &self.shared.writes;
        let WaitOutcome { not_visible, synced, reached } = writes.wait(key, timeout).await;
        let informer = self.shared.config.name.clone();
        Err(match not_visible {
            Some(NotVisible::LostEpoch(written)) => CachedReadError::ServerRestored { informer, written },
            _ if self.is_stopped() => CachedReadError::Stopped { informer },
            None if synced => return Ok(()),
            None => {
                let timeout = sync::effective_timeout(timeout);
                CachedReadError::NotSynced { informer: self.unsynced(), timeout }
            }
            Some(_) if Handle::try_current().is_err() => CachedReadError::NoRuntime { informer },
            Some(NotVisible::Write(written)) => {
                CachedReadError::WriteNotVisible { informer, written, reached, timeout }
            }
            Some(NotVisible::Deletion(key)) => {
                CachedReadError::DeletionNotVisible { informer, key, reached, timeout }
            }
        })
    }
}

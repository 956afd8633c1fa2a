//! `Informer::wait_for_writes`: waits until the writes of this program are visible in the cache.

use std::time::Duration;

use kube_object::{Object, ObjectKey};
use tokio::runtime::Handle;

use super::{error::CachedReadError, pending_writes::NotVisible, tracker::WaitOutcome};
use crate::{Informer, sync};

impl<T: Object> Informer<T> {
    /// Waits until the cache contains the initial list and the writes to an object.
    ///
    /// If `key` is `None`, the method waits for the writes to all objects. It waits only for writes
    /// that a [`CachedApi`](crate::CachedApi) of this informer has recorded before the call.
    ///
    /// # Errors
    /// Returns a [`CachedReadError`] if the cache does not contain the initial list and these
    /// writes within the timeout. Also returns an error if the informer is stopped, or if the
    /// server may have lost a recorded write.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_writes(
        &self,
        key: Option<&ObjectKey>,
        timeout: Duration,
    ) -> Result<(), CachedReadError> {
        let writes = &self.shared.writes;
        let WaitOutcome { not_visible, synced, reached } = writes.wait(key, timeout).await;
        if not_visible.is_none() && synced && !self.is_stopped() {
            return Ok(()); // most reads
        }
        let informer = self.shared.config.name.clone();
        Err(match not_visible {
            Some(NotVisible::LostEpoch(written)) => CachedReadError::ServerRestored { informer, written },
            _ if self.is_stopped() => CachedReadError::Stopped { informer },
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

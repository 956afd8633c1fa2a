//! Waits until a store has reached a resourceVersion or a condition, for example to read your own
//! writes.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use kube_object::{Object, ResourceVersion};
use tokio::runtime::Handle;

use crate::{Lister, Snapshot, Store};

/// Reports why a store did not reach a resourceVersion. [`Store::wait_until`] returns it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The timeout elapsed. The store may still reach the version later.
    #[error("cache did not reach resourceVersion {wanted} within {timeout:?}; cache position: {}", position(.reached.as_ref()))]
    Timeout {
        /// The resourceVersion of the wait.
        wanted: ResourceVersion,
        /// The watermark of the store; `None` if no delta with a version was applied.
        reached: Option<ResourceVersion>,
        /// The timeout.
        timeout: Duration,
    },
    /// A list with a lower or incomparable version started a new epoch. The history of the server
    /// was restored from an older state, and the awaited write may be lost.
    #[error("server was restored, and resourceVersion {wanted} belongs to the lost history; cache position: {}", position(.reached.as_ref()))]
    HistoryLost {
        /// The resourceVersion of the wait.
        wanted: ResourceVersion,
        /// The watermark in the new epoch.
        reached: Option<ResourceVersion>,
    },
    /// The store was closed, for example because its informer was stopped.
    #[error("cache stopped before it reached resourceVersion {wanted}; cache {}", position(.reached.as_ref()))]
    Stopped {
        /// The resourceVersion of the wait.
        wanted: ResourceVersion,
        /// The watermark of the store; `None` if no delta with a version was applied.
        reached: Option<ResourceVersion>,
    },
    /// The store has not reached the version, and the method cannot wait outside of a tokio
    /// runtime.
    #[error("cannot wait for resourceVersion {wanted} outside of a tokio runtime; cache {}", position(.reached.as_ref()))]
    NoRuntime {
        /// The resourceVersion of the wait.
        wanted: ResourceVersion,
        /// The watermark of the store; `None` if no delta with a version was applied.
        reached: Option<ResourceVersion>,
    },
    /// The version is not a number, so it cannot be compared with other versions.
    #[error("resourceVersion {wanted:?} is not a number and cannot be compared")]
    Opaque {
        /// The resourceVersion of the wait.
        wanted: ResourceVersion,
    },
}

fn position(reached: Option<&ResourceVersion>) -> String {
    match reached.filter(|version| version.is_resumable()) {
        Some(version) => version.to_string(),
        None => "none".to_owned(),
    }
}

impl<T: Object> Store<T> {
    /// Waits until the store contains all changes up to this resourceVersion. Then a reader sees
    /// the object that was written at this version, or a later state.
    ///
    /// If the store does not select the object (another namespace, or labels that do not match),
    /// the method returns after the next event or bookmark. Servers send a bookmark about every
    /// minute.
    ///
    /// # Errors
    /// Returns a [`WaitError`] if the timeout elapses, or if the store cannot reach the
    /// version.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_until(&self, version: &ResourceVersion, timeout: Duration) -> Result<(), WaitError> {
        let wanted = version.clone();
        if wanted.is_opaque() {
            return Err(WaitError::Opaque { wanted });
        }
        let epoch = self.watermark().epoch;
        let is_reached = |snapshot: &Snapshot<T>| snapshot.has_reached(&wanted);
        let is_decided = |snapshot: &Snapshot<T>| is_reached(snapshot) || snapshot.watermark().epoch != epoch;
        let snapshot = self.wait_for(timeout, is_decided).await;
        let reached = snapshot.resource_version().cloned();
        match (snapshot.watermark().epoch == epoch, is_reached(&snapshot)) {
            (true, true) => Ok(()),
            (true, false) if self.is_closed() => Err(WaitError::Stopped { wanted, reached }),
            (true, false) if Handle::try_current().is_err() => Err(WaitError::NoRuntime { wanted, reached }),
            (true, false) => Err(WaitError::Timeout { wanted, reached, timeout }),
            (false, _) => Err(WaitError::HistoryLost { wanted, reached }),
        }
    }

    /// Waits until `condition` returns true for a snapshot, or until the timeout elapses.
    /// Returns the latest snapshot.
    ///
    /// `condition` is called before the wait and after each write. The method does not wait if the
    /// store is closed ([`Store::close`]), or outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        mut condition: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Snapshot<T> {
        let mut waiting = pin!(async {
            loop {
                // Registers for wake-ups before the check. A write between the check and the wait
                // then wakes this task.
                let changed = self.shared.changed.notified();
                let closed = self.is_closed();
                if condition(&self.snapshot()) || closed {
                    return;
                }
                changed.await;
            }
        });
        // Each check drops its snapshot, so that the store can write in place. The result is
        // therefore a new snapshot.
        let first = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if first.is_pending() && Handle::try_current().is_ok() {
            let _elapsed = tokio::time::timeout(timeout, waiting).await;
        }
        self.snapshot()
    }
}

impl<T: Object> Lister<T> {
    /// Waits until the store contains all changes up to this resourceVersion. See
    /// [`Store::wait_until`].
    ///
    /// # Errors
    /// Returns a [`WaitError`] like [`Store::wait_until`].
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_until(&self, version: &ResourceVersion, timeout: Duration) -> Result<(), WaitError> {
        self.store.wait_until(version, timeout).await
    }

    /// Waits until `condition` returns true for a snapshot. See [`Store::wait_for`].
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        condition: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Snapshot<T> {
        self.store.wait_for(timeout, condition).await
    }
}

impl<T: Object> Snapshot<T> {
    /// Returns whether the snapshot contains all changes up to this resourceVersion.
    pub fn has_reached(&self, version: &ResourceVersion) -> bool {
        self.resource_version().is_some_and(|reached| reached.at_least(version))
    }

    /// Returns whether the snapshot contains all additions and updates up to this resourceVersion.
    ///
    /// After an incomplete list, this can be true although [`Snapshot::has_reached`] is false. Such a
    /// list has an item without a name, so the cache can contain deleted objects.
    pub fn has_applied(&self, version: &ResourceVersion) -> bool {
        self.root.position.version.as_ref().is_some_and(|applied| applied.at_least(version))
    }

    /// Returns the resourceVersion up to which the snapshot contains all additions and updates. For tests.
    #[doc(hidden)]
    pub fn applied_version(&self) -> Option<&ResourceVersion> {
        self.root.position.version.as_ref()
    }

    /// Returns whether resourceVersions show the order of changes. Returns false after a list without a
    /// version.
    pub fn orders_versions(&self) -> bool {
        self.root.position.orders_events()
    }
}

#[cfg(test)]
mod tests;

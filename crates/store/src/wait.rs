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

/// Reports why a store did not reach a resourceVersion. [`Store::wait_until`] and
/// [`Lister::wait_until`] return it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The timeout expired. The store may reach the resourceVersion later.
    #[error("cache did not reach resourceVersion {wanted} within {timeout:?}; {}", position(.reached.as_ref()))]
    Timeout {
        /// The resourceVersion that the caller waited for.
        wanted: ResourceVersion,
        /// The resourceVersion of the store. `None` if the store has no position
        /// ([`Watermark::version`](crate::Watermark::version)).
        reached: Option<ResourceVersion>,
        /// The timeout of the wait.
        timeout: Duration,
    },
    /// The server was restored from an older state, so the awaited write may be lost. The store detected
    /// the restore, because a list had a lower or incomparable resourceVersion.
    #[error("server was restored from an older state, so the write at resourceVersion {wanted} may be lost; {}", position(.reached.as_ref()))]
    HistoryLost {
        /// The resourceVersion that the caller waited for.
        wanted: ResourceVersion,
        /// The resourceVersion of the store after the restore.
        reached: Option<ResourceVersion>,
    },
    /// The store was closed, for example because its informer was stopped.
    #[error("cache was closed before it reached resourceVersion {wanted}; {}", position(.reached.as_ref()))]
    Stopped {
        /// The resourceVersion that the caller waited for.
        wanted: ResourceVersion,
        /// The resourceVersion of the store. `None` if the store has no position
        /// ([`Watermark::version`](crate::Watermark::version)).
        reached: Option<ResourceVersion>,
    },
    /// The method was called outside of a tokio runtime, so it could not wait. At the time of the call,
    /// the store had not reached the resourceVersion.
    #[error("cannot wait for resourceVersion {wanted} outside of a tokio runtime; {}", position(.reached.as_ref()))]
    NoRuntime {
        /// The resourceVersion that the caller waited for.
        wanted: ResourceVersion,
        /// The resourceVersion of the store. `None` if the store has no position
        /// ([`Watermark::version`](crate::Watermark::version)).
        reached: Option<ResourceVersion>,
    },
    /// The resourceVersion is not a decimal number, so it cannot be compared with other versions.
    #[error(
        "cannot wait for resourceVersion {wanted:?}: it is not a decimal number, so it cannot be compared"
    )]
    Opaque {
        /// The resourceVersion that the caller waited for.
        wanted: ResourceVersion,
    },
}

fn position(reached: Option<&ResourceVersion>) -> String {
    match reached.filter(|version| version.is_resumable()) {
        Some(version) => format!("the cache is at resourceVersion {version}"),
        None => "the cache has no resourceVersion".to_owned(),
    }
}

impl<T: Object> Store<T> {
    /// Waits until the store contains all changes up to the resourceVersion `version`. Afterwards, a
    /// reader sees the object that was written with this resourceVersion, or a later state of the
    /// object.
    ///
    /// If the selectors of the watch do not match the written object, the store receives no event for
    /// the write. The method then returns after the next event or bookmark. Servers send a bookmark
    /// about every minute.
    ///
    /// # Errors
    /// Returns a [`WaitError`] if the timeout expires, or if the store cannot reach the
    /// resourceVersion. For example, a closed store cannot reach it.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
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

    /// Waits until `condition` returns true for a snapshot, or until the timeout expires. Returns
    /// the latest snapshot, which may not meet the condition.
    ///
    /// The method calls `condition` before the wait and after each write. In two cases, the method calls
    /// `condition` once and does not wait:
    /// - The store is closed ([`Store::close`]).
    /// - The method is called outside of a tokio runtime.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        mut condition: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Snapshot<T> {
        self.refuse_index_function();
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
    /// Waits until the store contains all changes up to the resourceVersion `version`. See
    /// [`Store::wait_until`].
    ///
    /// # Errors
    /// Returns the errors of [`Store::wait_until`].
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_until(&self, version: &ResourceVersion, timeout: Duration) -> Result<(), WaitError> {
        self.store.wait_until(version, timeout).await
    }

    /// Waits until `condition` returns true for a snapshot. See [`Store::wait_for`].
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        condition: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Snapshot<T> {
        self.store.wait_for(timeout, condition).await
    }
}

impl<T: Object> Snapshot<T> {
    /// Returns whether the snapshot contains all changes up to the resourceVersion `version`.
    pub fn has_reached(&self, version: &ResourceVersion) -> bool {
        self.resource_version().is_some_and(|reached| reached.at_least(version))
    }

    /// Returns whether the snapshot contains all additions and updates up to the resourceVersion
    /// `version`.
    ///
    /// After an incomplete list, this method can return true although [`Snapshot::has_reached`]
    /// returns false. An incomplete list has items without a readable name, so the cache can still
    /// contain deleted objects.
    pub fn has_applied(&self, version: &ResourceVersion) -> bool {
        self.root.position.version.as_ref().is_some_and(|applied| applied.at_least(version))
    }

    /// Returns the resourceVersion up to which the snapshot contains all additions and updates. For tests.
    #[doc(hidden)]
    pub fn applied_version(&self) -> Option<&ResourceVersion> {
        self.root.position.version.as_ref()
    }

    /// Returns whether a higher resourceVersion means a later change. Returns false after a list without
    /// a comparable resourceVersion.
    pub fn orders_versions(&self) -> bool {
        self.root.position.orders_events()
    }
}

#[cfg(test)]
mod tests;

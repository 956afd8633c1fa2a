//! Waiting until a store has come somewhere: how a program reads what it has written.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use kube_object::{Object, ResourceVersion};
use tokio::{runtime::Handle, time::timeout};

use crate::{Lister, Snapshot, Store};

/// A store has not come to a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Not within the time; it may still come.
    #[error("the cache is {} and not at {wanted} after {within:?}", at(.reached.as_ref()))]
    Timeout {
        /// What was waited for.
        wanted: ResourceVersion,
        /// How far the store was; `None` where nothing with a version was in it.
        reached: Option<ResourceVersion>,
        /// How long was waited.
        within: Duration,
    },
    /// A list at a lower version, or one that can't be compared, has begun a new epoch: the server's history was
    /// restored, and what was written in the lost one is perhaps undone.
    #[error("the server's history was restored, the cache is {}: {wanted} belongs to the lost one", at(.reached.as_ref()))]
    HistoryLost {
        /// What was waited for.
        wanted: ResourceVersion,
        /// Where the new epoch is.
        reached: Option<ResourceVersion>,
    },
    /// Nobody will write the store any more, such as that of an informer that was stopped.
    #[error("the cache is {} and stopped, and will not come to {wanted}", at(.reached.as_ref()))]
    Stopped {
        /// What was waited for.
        wanted: ResourceVersion,
        /// How far the store was; `None` where nothing with a version was in it.
        reached: Option<ResourceVersion>,
    },
    /// Not yet; there is no tokio runtime here, and without its clock nothing can be waited for.
    #[error("the cache is {} and not at {wanted}, which only a task of a tokio runtime can wait for", at(.reached.as_ref()))]
    NoRuntime {
        /// What was to be waited for.
        wanted: ResourceVersion,
        /// How far the store was; `None` where nothing with a version was in it.
        reached: Option<ResourceVersion>,
    },
    /// The version is no number, so that no version can be said to be later.
    #[error("{wanted:?} is no version that another can be compared with")]
    Opaque {
        /// What was to be waited for.
        wanted: ResourceVersion,
    },
}

fn at(reached: Option<&ResourceVersion>) -> String {
    reached.map_or_else(|| "empty".to_owned(), |version| format!("at {version}"))
}

impl<T: Object> Store<T> {
    /// Waits until everything up to this version of the server's history is in the store: then a reader sees what was
    /// written at it, or something later.
    ///
    /// The version of an object that the store does not cover (of another namespace, without the labels) is reached
    /// with the next event or bookmark; servers send a bookmark about every minute.
    ///
    /// # Errors
    /// [`WaitError`]: not within this time, never, or never to be told.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_until(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        let wanted = version.clone();
        if wanted.is_opaque() {
            return Err(WaitError::Opaque { wanted });
        }
        let epoch = self.position().epoch;
        let there = |snapshot: &Snapshot<T>| snapshot.has_reached(&wanted);
        let ended = |snapshot: &Snapshot<T>| there(snapshot) || snapshot.position().epoch != epoch;
        let snapshot = self.wait_for(within, ended).await;
        let reached = snapshot.watermark().cloned();
        match (snapshot.position().epoch == epoch, there(&snapshot)) {
            (true, true) => Ok(()),
            (true, false) if self.is_closed() => Err(WaitError::Stopped { wanted, reached }),
            (true, false) if Handle::try_current().is_err() => Err(WaitError::NoRuntime { wanted, reached }),
            (true, false) => Err(WaitError::Timeout { wanted, reached, within }),
            (false, _) => Err(WaitError::HistoryLost { wanted, reached }),
        }
    }

    /// Waits until the store shows something, looking whenever it was written to. Gives what it shows then, or at the
    /// end of the time, whatever that is. Once nobody will write any more ([`Store::close`]), and
    /// outside of a tokio runtime, which has the clock, nothing is waited for.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for(
        &self,
        within: Duration,
        mut shows: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Snapshot<T> {
        let mut waiting = pin!(async {
            loop {
                // Counts writes and the end of them from here on, so that none between the look and the wait is missed.
                let moved = self.shared.moved.notified();
                let closed = self.is_closed();
                if shows(&self.snapshot()) || closed {
                    return;
                }
                moved.await;
            }
        });
        // The snapshot is taken anew: the look above must not keep the store from writing in place.
        let first = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if first.is_pending() && Handle::try_current().is_ok() {
            let _in_time = timeout(within, waiting).await;
        }
        self.snapshot()
    }
}

impl<T: Object> Lister<T> {
    /// See [`Store::wait_until`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_until(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        self.store.wait_until(version, within).await
    }

    /// See [`Store::wait_for`].
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for(&self, within: Duration, shows: impl FnMut(&Snapshot<T>) -> bool) -> Snapshot<T> {
        self.store.wait_for(within, shows).await
    }
}

impl<T: Object> Snapshot<T> {
    /// Whether everything up to this version of the server's history was in the store.
    pub fn has_reached(&self, version: &ResourceVersion) -> bool {
        self.watermark().is_some_and(|reached| reached.at_least(version))
    }
}

#[cfg(test)]
mod tests;

//! `RestoredCache`: the contents that an informer has restored from a snapshot, until they are verified.
//!
//! The contents can be read, but no handler receives them. [`Shared::verify_restored`] compares the version
//! of the snapshot with the version of the server. Either the first watch then resumes after the version of
//! the snapshot, or a list replaces the contents.

// Without the feature, no informer restores contents.
#![cfg_attr(not(feature = "snapshots"), allow(dead_code))]

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use kube_delta_fifo::EventPages;
use kube_listwatch::{ListWatchError, current_version};
use kube_object::{Delta, Escaped, Object, ResourceVersion};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::{
    delivered::DeliveredEvents,
    handlers::{InitialAdds, Mailbox},
    shared::{Shared, Subscribers},
};

/// The maximum time that the informer waits for the removal of a file.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes the contents of a cache that come from a file, and are not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The time when the file was written, by the clock of the machine.
    pub saved_at: SystemTime,
    /// The time since the file was written. Zero if the clock was set back.
    pub age: Duration,
    /// The number of restored objects.
    pub objects: usize,
}

/// The state of the server that a file contains.
#[derive(Debug, Clone)]
pub(crate) struct SavedState {
    pub(crate) version: ResourceVersion,
    pub(crate) saved_at: SystemTime,
    /// The maximum age with which the watch is resumed.
    pub(crate) resume_within: Duration,
    /// Whether the file contains all objects of this version.
    pub(crate) complete: bool,
    pub(crate) objects: usize,
}

impl SavedState {
    pub(crate) fn restored(&self) -> Restored {
        let age = self.saved_at.elapsed().unwrap_or_default();
        Restored { saved_at: self.saved_at, age, objects: self.objects }
    }

    /// Returns whether the server probably still has the events after this version.
    fn is_young(&self, age: Option<Duration>) -> bool {
        age.is_some_and(|age| age < self.resume_within)
    }
}

/// A file that is removed if it must not be used again.
pub(crate) struct Discard {
    /// The path of the file.
    pub(crate) file: Escaped<String>,
    /// Removes the file. Blocks.
    pub(crate) remove: Box<dyn FnOnce() -> Result<(), io::Error> + Send>,
}

/// The restored contents of an informer. Empty for most informers.
#[derive(Default)]
pub(crate) struct RestoredCache {
    unverified: Mutex<Option<SavedState>>,
    /// The saved state, until the first attempt to verify it. No later attempt uses its version.
    position: Mutex<Option<(SavedState, Discard)>>,
    is_restored: AtomicBool,
    is_reserved: AtomicBool,
    /// The number of changes of the cache since the last file was written.
    changes: Arc<AtomicU64>,
}

/// The first request of a reflector after a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FirstRequest {
    /// A watch after the saved version.
    Resume,
    /// A list, for this reason. Unchanged objects are not decoded.
    Relist(&'static str),
    /// A list after the contents were discarded, for this reason.
    Discard(&'static str),
}

impl FirstRequest {
    /// Decides by the version of the server. `Err` means that its version could not be read. The age of a
    /// file from the future is unknown.
    fn decide(
        saved: &SavedState,
        server: Result<Option<ResourceVersion>, ()>,
        age: Option<Duration>,
        needs_list: bool,
    ) -> Self {
        match server {
            Err(()) => Self::Relist("the resourceVersion of the server could not be read"),
            Ok(Some(server)) if server.is_opaque() => {
                Self::Discard("the resourceVersions of the server have no order")
            }
            Ok(None) => Self::Discard("the server returns no resourceVersion"),
            Ok(Some(server)) if !server.at_least(&saved.version) => {
                Self::Discard("the server has a lower resourceVersion and therefore another history")
            }
            Ok(Some(_)) if !saved.is_young(age) => Self::Relist("the snapshot is too old for a watch"),
            Ok(Some(_)) if !saved.complete => Self::Relist("some objects could not be decoded"),
            Ok(Some(_)) if needs_list => Self::Relist("a handler has a checkpoint"),
            Ok(Some(_)) => Self::Resume,
        }
    }
}

impl RestoredCache {
    /// Returns false if the informer already has a snapshot.
    pub(crate) fn reserve(&self) -> bool {
        !self.is_reserved.swap(true, Ordering::AcqRel)
    }

    /// Records the restored contents. Called before the informer starts.
    pub(crate) fn set(&self, saved: SavedState, discard: Discard) {
        *self.unverified.lock() = Some(saved.clone());
        *self.position.lock() = Some((saved, discard));
        self.is_restored.store(true, Ordering::Release);
    }

    /// Returns whether the informer started with contents of a file.
    pub(crate) fn is_restored(&self) -> bool {
        self.is_restored.load(Ordering::Acquire)
    }

    /// Returns the contents that are not verified yet.
    pub(crate) fn unverified(&self) -> Option<Restored> {
        self.unverified.lock().as_ref().map(SavedState::restored)
    }

    /// Counts changes of the cache.
    pub(crate) fn count(&self, changes: usize) {
        self.changes.fetch_add(changes as u64, Ordering::Relaxed);
    }

    pub(crate) fn changes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.changes)
    }

    /// Records that the contents are verified, or were replaced or discarded.
    pub(crate) fn verified(&self) {
        *self.unverified.lock() = None;
    }
}

impl<T: Object> Shared<T> {
    /// Verifies the restored contents. Returns the version after which the first watch resumes. Returns
    /// `None` if the first request is a list.
    ///
    /// Only the first call verifies. After a panic of a user function, the informer lists.
    ///
    /// Also returns the mailboxes with backpressure.
    pub(crate) async fn verify_restored(
        &self,
        delivered: &mut DeliveredEvents<T>,
    ) -> (Option<ResourceVersion>, Vec<Arc<Mailbox<T>>>) {
        let position = self.restored.position.lock().take();
        let Some((saved, discard)) = position else { return (None, Vec::new()) };
        let (age, objects) = (saved.restored().age, saved.objects);
        let server = self.server_version().await;
        match FirstRequest::decide(&saved, server, saved.saved_at.elapsed().ok(), self.observes_lists()) {
            FirstRequest::Resume => {
                let mailboxes = self.confirm_restored(&saved.version);
                tracing::info!(objects, ?age, version = %saved.version, "snapshot is verified; the watch resumes");
                return (Some(saved.version), mailboxes);
            }
            FirstRequest::Relist(reason) => {
                tracing::info!(objects, ?age, reason, "the informer lists to verify the snapshot");
            }
            FirstRequest::Discard(reason) => {
                tracing::warn!(objects, ?age, reason, saved = %saved.version, "snapshot is not used; the informer starts cold");
                self.discard_restored(discard, delivered).await;
            }
        }
        (None, Vec::new())
    }

    /// Reads the version of the server, within the time of a list.
    async fn server_version(&self) -> Result<Option<ResourceVersion>, ()> {
        let within = self.config.settings.reflector.list_deadline.max(Duration::from_secs(1));
        let failed = |error: ListWatchError| {
            tracing::warn!(error = %error.with_causes(), "cannot read the resourceVersion of the server; the informer lists");
        };
        match timeout(within, current_version(&*self.config.source)).await {
            Ok(version) => version.map_err(failed),
            Err(_) => {
                tracing::warn!(
                    ?within,
                    "the server did not return its resourceVersion in time; the informer lists"
                );
                Err(())
            }
        }
    }

    /// Makes the restored contents the initial list, and delivers them to the handlers.
    fn confirm_restored(&self, version: &ResourceVersion) -> Vec<Arc<Mailbox<T>>> {
        let subscribers = self.lock_subscribers();
        self.store.confirm_restored(version.clone());
        let mailboxes = self.deliver_verified(&subscribers);
        drop(subscribers);
        self.announce_sync();
        mailboxes
    }

    /// Removes the restored contents from the cache, and the file. Otherwise, a later start could use it.
    async fn discard_restored(&self, discard: Discard, delivered: &mut DeliveredEvents<T>) {
        self.apply(vec![Delta::Clear], delivered).await;
        self.restored.verified();
        let Discard { file, remove } = discard;
        let discarding = tokio::task::spawn_blocking(remove);
        let error = match timeout(DISCARD_TIMEOUT, discarding).await {
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Ok(Ok(())) | Err(_)) => return,
            Err(_) => "the disk does not respond".to_owned(),
        };
        tracing::error!(
            %file, error,
            "cannot remove a snapshot of another history of the server; remove the file before the next start"
        );
    }

    /// Returns whether no subscriber may receive the contents of the store, because they are not verified.
    pub(crate) fn hides_contents(&self) -> bool {
        self.restored.is_restored() && !self.store.is_synced()
    }

    /// Delivers the contents as initial adds to all subscribers, if they are verified now. Returns the
    /// mailboxes with backpressure.
    pub(crate) fn deliver_verified(&self, subscribers: &Subscribers<T>) -> Vec<Arc<Mailbox<T>>> {
        if self.hides_contents() {
            return Vec::new();
        }
        self.restored.verified();
        let adds: Arc<dyn EventPages<T>> = Arc::new(InitialAdds(self.store.snapshot()));
        self.deliver(subscribers, false, |mailbox, synced| mailbox.push_pages(Arc::clone(&adds), synced))
    }

    /// Returns whether the informer was neither started nor stopped.
    pub(crate) fn is_not_started(&self) -> bool {
        self.lock_subscribers().not_started().is_some()
    }

    /// Runs `register` if the informer was not started or stopped. Adds the task that it returns to the
    /// tasks that start with the informer.
    pub(crate) fn before_start<R>(
        &self,
        register: impl FnOnce() -> (BoxFuture<'static, ()>, R),
    ) -> Option<R> {
        let mut subscribers = self.lock_subscribers();
        let id = subscribers.next_id();
        let tasks = subscribers.not_started()?;
        let (task, result) = register();
        tasks.push((id, task));
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Option<Duration> = Some(Duration::ZERO);

    fn saved() -> SavedState {
        SavedState {
            version: 100.into(),
            saved_at: SystemTime::UNIX_EPOCH,
            resume_within: Duration::from_secs(300),
            complete: true,
            objects: 1,
        }
    }

    fn decide(saved: &SavedState, server: &str, seconds: u64) -> FirstRequest {
        let age = Some(Duration::from_secs(seconds));
        FirstRequest::decide(saved, Ok(Some(server.into())), age, false)
    }

    #[test]
    fn watch_resumes_only_from_young_complete_snapshot_of_same_history() {
        let is_resume =
            |saved: &SavedState, server, seconds| decide(saved, server, seconds) == FirstRequest::Resume;
        assert!(is_resume(&saved(), "100", 299));
        assert!(is_resume(&saved(), "1000", 0));
        assert!(!is_resume(&saved(), "100", 300), "too old");
        assert!(!is_resume(&SavedState { complete: false, ..saved() }, "100", 0), "incomplete");
        let of_unknown_age = FirstRequest::decide(&saved(), Ok(Some(100.into())), None, false);
        assert!(matches!(of_unknown_age, FirstRequest::Relist(_)), "the clock was set back");
        let with_checkpoint = FirstRequest::decide(&saved(), Ok(Some(100.into())), NEW, true);
        assert!(matches!(with_checkpoint, FirstRequest::Relist(_)));
        assert!(matches!(FirstRequest::decide(&saved(), Err(()), NEW, false), FirstRequest::Relist(_)));
    }

    #[test]
    fn snapshot_of_other_history_is_discarded() {
        for server in ["99", "", "0", "abc"] {
            for seconds in [0, 300] {
                assert!(matches!(decide(&saved(), server, seconds), FirstRequest::Discard(_)), "{server}");
            }
        }
        assert!(matches!(FirstRequest::decide(&saved(), Ok(None), NEW, false), FirstRequest::Discard(_)));
    }
}

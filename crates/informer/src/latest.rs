//! `Informer::wait_for_latest`: waits until the cache contains every write that the server has accepted.
//!
//! A LIST with `limit=1` returns the current resourceVersion of the server. The cache often has a lower
//! resourceVersion although it lacks no change, because the server also counts the writes to other
//! resources. Its own watch reaches the current resourceVersion only with the next event or bookmark, which
//! can take a minute. A second, *short* watch therefore receives the events after the position of the
//! cache. kube-apiserver sends a bookmark 2 s before the timeout of a watch. This bookmark proves that the
//! short watch has received every event up to the current resourceVersion. The cache is then complete as
//! soon as it contains the last of these events.

mod error;
mod event_range;

use std::{cmp::Ordering, sync::Arc, time::Duration};

use futures_util::TryStreamExt;
use kube_listwatch::{ListWatchError, WatchEvent, WatchFrom, WatchRequest, current_version, delay_after};
use kube_object::{Object, ResourceVersion, Shard};
use kube_store::Snapshot;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, sleep_until, timeout},
};

use self::event_range::{EventRange, OutOfOrder};
use crate::Informer;

pub use error::WaitForLatestError;

/// The requested timeout of a short watch. Its bookmark arrives after 2 s to 3.3 s, because kube-apiserver
/// looks for due bookmarks about once per second. It sends no bookmark if the timeout is below 2 s.
const SHORT_WATCH_TIMEOUT: Duration = Duration::from_secs(4);

/// A short watch is closed after this time if the server does not close it.
const SHORT_WATCH_DEADLINE: Duration = Duration::from_secs(6);

/// The delay after a failed request, and between two short watches.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl<T: Object> Informer<T> {
    /// Waits until the cache contains every write that the server accepted before the call, also the writes
    /// of other programs. Afterwards, a read from the cache is at least as new as a read from the server at
    /// the time of the call.
    ///
    /// To wait only for the writes of this program, use a [`CachedApi`](crate::CachedApi), which sends no
    /// requests for this purpose.
    ///
    /// Each call sends a LIST with `limit=1`. In most cases, it also opens a watch for about three seconds,
    /// with the selectors of the informer. Therefore do not call this method for each object or in each
    /// reconcile. A failed request is repeated until the timeout. An appropriate timeout is 10 seconds.
    ///
    /// If the informer is [sharded](crate::InformerBuilder::sharded), the method waits for the writes to the
    /// objects of the slots that are filled at the time of the call. Without a filled slot, it returns
    /// immediately.
    ///
    /// If an object could not be decoded, the cache contains an older state of this object. See
    /// [`Snapshot::is_stale`](crate::Snapshot::is_stale).
    ///
    /// # Errors
    /// Returns a [`WaitForLatestError`] if the cache is not known to contain these writes within the
    /// timeout. The causes are a server that sends no bookmarks, resourceVersions that cannot be compared,
    /// a server that was restored from an older state, and an informer that is not synced or stopped. Read
    /// from the server instead.
    ///
    /// # Panics
    /// Panics if an index function of this informer calls this method.
    ///
    /// # Cancel safety
    /// This method is cancel safe. If you drop the future, its requests are cancelled.
    pub async fn wait_for_latest(&self, within: Duration) -> Result<(), WaitForLatestError> {
        self.wait_for_latest_version(within).await.map(drop)
    }

    /// Does the same as [`wait_for_latest`](Self::wait_for_latest), and returns the version of the server.
    /// Returns `None` if the cache has no slot.
    pub(crate) async fn wait_for_latest_version(
        &self,
        within: Duration,
    ) -> Result<Option<ResourceVersion>, WaitForLatestError> {
        if Handle::try_current().is_err() {
            return Err(WaitForLatestError::NoRuntime { informer: self.name().to_owned() });
        }
        let mut progress = Progress::default();
        let waited = tokio::select! {
            biased;
            () = self.shared.stopping.cancelled() => return Err(self.stopped()),
            waited = timeout(within, self.catch_up(within, &mut progress)) => waited,
        };
        let waited = waited.map(|caught_up| caught_up.map(|()| progress.latest.clone()));
        waited.unwrap_or_else(|_| {
            let (informer, reached) = (self.name().to_owned(), self.shared.store.watermark().version);
            let Progress { latest, last_error } = progress;
            Err(WaitForLatestError::Timeout { informer, latest, reached, timeout: within, last_error })
        })
    }

    /// Waits until the cache contains every change up to this version. Never returns if the informer stops.
    pub(crate) async fn wait_until_reached(&self, version: &ResourceVersion) {
        let has_reached = |cache: &Snapshot<T>| cache.has_reached(version);
        let cache = self.shared.store.wait_for(Duration::MAX, has_reached).await;
        if !cache.has_reached(version) {
            std::future::pending::<()>().await;
        }
    }

    /// Catches up with the server. Only the wait for the initial list has a timeout.
    async fn catch_up(&self, within: Duration, progress: &mut Progress) -> Result<(), WaitForLatestError> {
        self.wait_for_sync(within).await.map_err(WaitForLatestError::NotSynced)?;
        while !self.try_catch_up(progress).await? {}
        Ok(())
    }

    /// Catches up with the server. Returns false if the program removed slots during the wait. The last
    /// received event can belong to these slots, and the watch of the informer may not deliver it.
    async fn try_catch_up(&self, progress: &mut Progress) -> Result<bool, WaitForLatestError> {
        let holds_nothing = |held: Shard| held.slots.is_empty();
        if self.shared.store.shard().is_some_and(holds_nothing) {
            return Ok(true);
        }
        let start = self.position().await?;
        let latest = self.latest_version(progress).await;
        match latest.partial_cmp(&start.version) {
            None => return Err(self.not_comparable(latest)),
            Some(Ordering::Less) => return Err(self.restored(start.version)),
            Some(Ordering::Equal | Ordering::Greater) => progress.latest = Some(latest.clone()),
        }
        let mut events = EventRange::after(self.position().await?.version);
        tokio::select! {
            biased;
            reached = self.reach(&latest, &start) => return reached,
            watched = self.watch_until(&latest, &start, &mut events, progress) => watched?,
        }
        // The cache is complete if it contains the last event. Without an event, it is complete now.
        let last_event = events.last_event.unwrap_or_else(|| start.version.clone());
        self.reach(&last_event, &start).await
    }

    /// Waits until the cache has a position, and returns it.
    async fn position(&self) -> Result<Position, WaitForLatestError> {
        let has_version = |cache: &Snapshot<T>| cache.resource_version().is_some();
        let cache = self.shared.store.wait_for(Duration::MAX, has_version).await;
        match cache.resource_version().cloned() {
            Some(version) if version.is_resumable() && !version.is_opaque() => {
                Ok(Position { epoch: cache.watermark().epoch, version, held: cache.shard() })
            }
            Some(version) => Err(self.not_comparable(version)),
            None => Err(self.stopped()),
        }
    }

    /// Waits until the cache contains every change up to this version. Returns false if the program removed
    /// slots since the start.
    async fn reach(&self, version: &ResourceVersion, start: &Position) -> Result<bool, WaitForLatestError> {
        let is_restored = |cache: &Snapshot<T>| cache.watermark().epoch != start.epoch;
        let is_decided = |cache: &Snapshot<T>| {
            is_restored(cache) || cache.has_reached(version) || start.has_lost_slots(cache)
        };
        let cache = self.shared.store.wait_for(Duration::MAX, is_decided).await;
        if is_restored(&cache) {
            Err(self.restored(start.version.clone()))
        } else if cache.has_reached(version) {
            Ok(true)
        } else if start.has_lost_slots(&cache) {
            Ok(false)
        } else {
            Err(self.stopped())
        }
    }

    /// Reads the current version of the server. Returns an empty version if the server returns none.
    async fn latest_version(&self, progress: &mut Progress) -> ResourceVersion {
        loop {
            match current_version(&*self.shared.config.source).await {
                Ok(version) => return version.unwrap_or_else(|| ResourceVersion::new("")),
                Err(error) => progress.delay_after(&error).await,
            }
        }
    }

    /// Opens short watches until the range of their events contains this version.
    async fn watch_until(
        &self,
        version: &ResourceVersion,
        start: &Position,
        events: &mut EventRange,
        progress: &mut Progress,
    ) -> Result<(), WaitForLatestError> {
        loop {
            let opened = Instant::now();
            let watched = timeout(SHORT_WATCH_DEADLINE, self.watch(version, start, events)).await;
            match watched {
                Ok(Err(ShortWatchError::OutOfOrder(version))) => return Err(self.not_comparable(version)),
                Ok(Err(ShortWatchError::Failed(error))) => progress.delay_after(&error).await,
                Ok(Ok(())) | Err(_) if events.end.at_least(version) => return Ok(()),
                Ok(Ok(())) | Err(_) => sleep_until(opened + RETRY_DELAY).await,
            }
        }
    }

    /// Receives the events of one watch, until the range contains this version. Also returns after a
    /// bookmark, because a short watch receives only one.
    async fn watch(
        &self,
        version: &ResourceVersion,
        start: &Position,
        events: &mut EventRange,
    ) -> Result<(), ShortWatchError> {
        let from = WatchFrom::Version(events.end.clone());
        let request = WatchRequest { from, timeout: Some(SHORT_WATCH_TIMEOUT), bookmarks: true };
        let source = &self.shared.config.source;
        let part = start.held.and_then(|held| source.for_shard(&held));
        let source = part.as_ref().unwrap_or(source);
        let mut watch = source.watch(request, Arc::new(self.shared.store.clone()));
        while let Some(batch) = watch.try_next().await? {
            for event in &batch {
                events.observe(event, start.held.as_ref())?;
            }
            let is_bookmark = |event: &WatchEvent<T>| matches!(event, WatchEvent::Bookmark { .. });
            if events.end.at_least(version) || batch.iter().any(is_bookmark) {
                break;
            }
        }
        Ok(())
    }

    fn not_comparable(&self, version: ResourceVersion) -> WaitForLatestError {
        WaitForLatestError::NotComparable { informer: self.name().to_owned(), version }
    }

    fn restored(&self, cached: ResourceVersion) -> WaitForLatestError {
        WaitForLatestError::ServerRestored { informer: self.name().to_owned(), cached }
    }

    fn stopped(&self) -> WaitForLatestError {
        WaitForLatestError::Stopped { informer: self.name().to_owned() }
    }
}

/// A position in the history of the server. Versions of different epochs cannot be compared.
struct Position {
    epoch: u64,
    version: ResourceVersion,
    /// The slots in the cache. `None` if the informer is not sharded.
    held: Option<Shard>,
}

impl Position {
    fn has_lost_slots<T: Object>(&self, cache: &Snapshot<T>) -> bool {
        let holds_all = |before: Shard, now: Shard| before.slots.difference(&now.slots).is_empty();
        self.held.zip(cache.shard()).is_some_and(|(before, now)| !holds_all(before, now))
    }
}

/// The state of a wait, for the error after the timeout.
#[derive(Default)]
struct Progress {
    latest: Option<ResourceVersion>,
    last_error: Option<String>,
}

impl Progress {
    /// Records a failed request, and waits before the next request.
    async fn delay_after(&mut self, error: &ListWatchError) {
        let text = error.with_causes().to_string();
        tracing::debug!(error = text, "cannot read the latest changes of the server; retrying");
        self.last_error = Some(text);
        sleep(delay_after(error.retry_after()).max(RETRY_DELAY)).await;
    }
}

/// The reason why a short watch failed.
enum ShortWatchError {
    OutOfOrder(ResourceVersion),
    Failed(ListWatchError),
}

impl From<OutOfOrder> for ShortWatchError {
    fn from(OutOfOrder(version): OutOfOrder) -> Self {
        Self::OutOfOrder(version)
    }
}

impl From<ListWatchError> for ShortWatchError {
    fn from(error: ListWatchError) -> Self {
        Self::Failed(error)
    }
}

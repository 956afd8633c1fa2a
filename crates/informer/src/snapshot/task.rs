//! `SnapshotTask`: writes the snapshot of an informer at intervals and at its stop.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kube_object::{Escaped, Persist};
use kube_reflector::ReflectorStatus;
use kube_store::{Snapshot, Store};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{format::Header, identity::Identity, storage::Storage};

/// The snapshot is written after at least one of this number of objects has changed.
const CHANGED_PART: u64 = 20;

const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The clock cannot represent much longer intervals.
const MAX_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The random part of the interval.
const JITTER: f64 = 0.2;

/// The maximum time that the stop of the informer waits for the last write.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Writes the contents of a store to a file, on threads for blocking work.
pub(super) struct SnapshotTask<T> {
    pub(super) store: Store<T>,
    pub(super) storage: Arc<Mutex<Storage>>,
    pub(super) identity: Identity,
    pub(super) seed: u64,
    pub(super) stopping: CancellationToken,
    pub(super) reflector: watch::Receiver<ReflectorStatus>,
    /// The number of changes of the store since the last write.
    pub(super) changes: Arc<AtomicU64>,
    pub(super) interval: Duration,
    pub(super) rng: fastrand::Rng,
    /// The last write failed. The next check writes the file, and does not log the same failure again.
    pub(super) failing: bool,
}

/// A write that runs.
struct Write {
    thread: JoinHandle<Result<(), io::Error>>,
    /// Stops the write.
    cancelled: Arc<AtomicBool>,
    /// The number of changes that the file contains.
    changes: u64,
}

impl<T: Persist> SnapshotTask<T> {
    /// Runs until the informer stops, and writes the last snapshot.
    pub(super) async fn run(mut self) {
        let stopping = self.stopping.clone();
        loop {
            let next = self.next_check();
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                () = sleep_until(next) => {}
            }
            if self.has_changed()
                && let Some(mut write) = self.begin()
            {
                let written = tokio::select! {
                    biased;
                    written = &mut write.thread => written,
                    () = stopping.cancelled() => return self.finish(Some(write)).await,
                };
                self.ended(written, write.changes);
            }
        }
        self.finish(None).await;
    }

    fn next_check(&mut self) -> Instant {
        let interval = self.interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        Instant::now() + interval.mul_f64(1.0 + JITTER * self.rng.f64())
    }

    fn has_changed(&self) -> bool {
        let objects = self.store.snapshot().len() as u64;
        self.failing || self.changes.load(Ordering::Relaxed) * CHANGED_PART >= objects.max(1)
    }

    /// Waits for the running write, and writes the last snapshot. Even without changes, the new file contains
    /// a higher version and a later time, so that the next process can resume the watch.
    async fn finish(mut self, running: Option<Write>) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        if let Some(write) = running
            && !self.wait(write, deadline).await
        {
            return;
        }
        if let Some(write) = self.begin() {
            self.wait(write, deadline).await;
        }
    }

    /// Waits for a write until the deadline. Returns false if the write did not end.
    async fn wait(&mut self, mut write: Write, deadline: Instant) -> bool {
        match timeout_at(deadline, &mut write.thread).await {
            Ok(written) => {
                self.ended(written, write.changes);
                true
            }
            Err(_) => {
                write.cancelled.store(true, Ordering::Relaxed);
                tracing::warn!(timeout = ?STOP_TIMEOUT, "snapshot is not written in time; the next start uses an older snapshot or is cold");
                false
            }
        }
    }

    /// Starts to write the current contents. Returns `None` if they are not verified, or if their version has
    /// no order.
    fn begin(&self) -> Option<Write> {
        let changes = self.changes.load(Ordering::Relaxed);
        let cache = self.store.snapshot();
        let header = self.header(&cache)?;
        let (storage, cancelled) = (Arc::clone(&self.storage), Arc::<AtomicBool>::default());
        let is_cancelled = Arc::clone(&cancelled);
        let thread = spawn_blocking(move || storage.lock().write(&header, &cache, &is_cancelled));
        Some(Write { thread, cancelled, changes })
    }

    fn header(&self, cache: &Snapshot<T>) -> Option<Header> {
        let watermark = cache.watermark();
        let version = watermark.version.clone().filter(|version| !version.is_opaque() && watermark.synced)?;
        Some(Header {
            identity: self.identity.clone(),
            seed: Some(self.seed),
            version,
            saved_at: jiff::Timestamp::now().into(),
            complete: cache.stale_len() == 0 && self.has_decoded_all(),
        })
    }

    /// Returns whether this process has decoded all objects. The cache does not contain an object of which no
    /// state could be decoded, and the next version of the program may decode it.
    fn has_decoded_all(&self) -> bool {
        self.reflector.borrow().undecodable == 0
    }

    fn ended(&mut self, written: Result<Result<(), io::Error>, tokio::task::JoinError>, changes: u64) {
        let error = match written {
            Ok(Ok(())) => {
                self.failing = false;
                self.changes.fetch_sub(changes, Ordering::Relaxed);
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) if error.is_panic() => "a Serialize implementation panicked".to_owned(),
            Err(_) => return, // The runtime shuts down.
        };
        if !std::mem::replace(&mut self.failing, true) {
            let path = Escaped(self.storage.lock().path().to_string_lossy().into_owned());
            tracing::warn!(file = %path, error, "snapshot is not written; the next start uses an older snapshot or is cold");
        }
    }
}

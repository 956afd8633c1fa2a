//! `CheckpointWriter`: writes the checkpoint of a handler on threads for blocking work.

use std::{io, time::Duration};

use kube_object::{Escaped, ObjectKey, ResourceVersion, Uid};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};

use super::{
    Checkpoint,
    format::{Header, encode_told},
    identity::Identity,
    known_objects::KnownObjects,
    storage::Storage,
};

/// The checkpoint is written after at least one of this number of objects has changed.
const CHANGED_PART: usize = 20;

const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The clock cannot represent much longer intervals.
const MAX_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The random part of the interval.
const JITTER: f64 = 0.2;

/// Writes checkpoints at intervals, and appends new keys to their journal. Does nothing without a storage.
pub(super) struct CheckpointWriter {
    storage: StorageState,
    identity: Identity,
    seed: Option<u64>,
    interval: Duration,
    next_check: Instant,
    rng: fastrand::Rng,
    /// The last write failed. The next check writes the file, and does not log the same failure again.
    failing: bool,
}

enum StorageState {
    Idle(Storage),
    Writing(JoinHandle<(Storage, Result<(), io::Error>)>),
    /// The checkpoint is not written.
    Off,
}

impl CheckpointWriter {
    pub(super) fn new(
        storage: Option<Storage>,
        identity: Identity,
        seed: Option<u64>,
        checkpoint: &Checkpoint,
        jitter: Option<u64>,
    ) -> Self {
        Self {
            storage: storage.map_or(StorageState::Off, StorageState::Idle),
            identity,
            seed,
            interval: checkpoint.interval,
            next_check: Instant::now(),
            rng: jitter.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
            failing: false,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self.storage, StorageState::Off)
    }

    /// Stops to write, because the file can never be used.
    pub(super) fn turn_off(&mut self) {
        self.storage = StorageState::Off;
    }

    pub(super) fn name(&self) -> Escaped<&str> {
        Escaped(&self.identity.handler)
    }

    /// Continues the journal of the used file.
    pub(super) async fn resume(&mut self, len: u64) {
        self.use_storage("resuming", move |storage| storage.resume(len)).await;
        self.schedule();
    }

    /// Removes the file, because it is not used. Otherwise, a later start could use it.
    pub(super) async fn discard(&mut self) {
        self.use_storage("removing", Storage::discard).await;
    }

    /// Replaces the file by an empty checkpoint, so that new keys can be appended to its journal.
    pub(super) async fn start_cold(&mut self, version: ResourceVersion) {
        let header = self.header(version);
        self.use_storage("writing", move |storage| storage.replace(&header, &[], &[])).await;
        self.schedule();
    }

    /// Returns the time of the next check. Returns `None` if the checkpoint is not written.
    pub(super) fn next_check(&self) -> Option<Instant> {
        (!self.is_off()).then_some(self.next_check)
    }

    /// Starts to write a checkpoint if enough has changed since the last checkpoint. Must be called when the
    /// check is due, between two calls of the handler.
    pub(super) async fn check(&mut self, known: &mut KnownObjects, version: Option<ResourceVersion>) {
        self.schedule();
        self.wait_for_write().await;
        if self.failing || known.changes() * CHANGED_PART >= known.len().max(1) {
            self.begin_write(known, version);
        }
    }

    /// Writes a checkpoint and waits for it, if anything has changed.
    pub(super) async fn finish(&mut self, known: &mut KnownObjects, version: Option<ResourceVersion>) {
        self.wait_for_write().await;
        if self.failing || known.changes() > 0 {
            self.begin_write(known, version);
            self.wait_for_write().await;
        }
    }

    /// Appends the keys of objects that the handler receives for the first time.
    pub(super) async fn append(&mut self, told: &[(ObjectKey, Uid)]) {
        if self.is_off() || told.is_empty() {
            return;
        }
        self.wait_for_write().await;
        let frame = encode_told(told.iter().map(|(key, uid)| (key, uid)));
        self.use_storage("appending", move |storage| storage.append(&frame)).await;
    }

    fn begin_write(&mut self, known: &mut KnownObjects, version: Option<ResourceVersion>) {
        let Some(version) = version.filter(|version| !version.is_opaque()) else { return };
        let header = self.header(version);
        let StorageState::Idle(mut storage) = std::mem::replace(&mut self.storage, StorageState::Off) else {
            return;
        };
        let snapshot = known.snapshot();
        self.storage = StorageState::Writing(spawn_blocking(move || {
            let (entries, told) = snapshot.into_parts();
            let written = storage.replace(&header, &entries, &told);
            (storage, written)
        }));
    }

    /// Waits for the running write, if any.
    async fn wait_for_write(&mut self) {
        if let StorageState::Writing(write) = &mut self.storage {
            let written = write.await;
            self.returned("writing", written);
        }
    }

    /// Uses the idle storage on a thread, and waits.
    async fn use_storage(
        &mut self,
        operation: &'static str,
        action: impl FnOnce(&mut Storage) -> Result<(), io::Error> + Send + 'static,
    ) {
        let StorageState::Idle(mut storage) = std::mem::replace(&mut self.storage, StorageState::Off) else {
            return;
        };
        let done = spawn_blocking(move || {
            let result = action(&mut storage);
            (storage, result)
        });
        let done = done.await;
        self.returned(operation, done);
    }

    fn returned(
        &mut self,
        operation: &'static str,
        done: Result<(Storage, Result<(), io::Error>), tokio::task::JoinError>,
    ) {
        let Ok((storage, result)) = done else {
            self.storage = StorageState::Off; // The runtime shuts down.
            return;
        };
        if let Err(error) = &result
            && !self.failing
        {
            let file = Escaped(storage.path().to_string_lossy());
            tracing::warn!(handler = %self.name(), %file, operation, %error, "checkpoint was not written; the next start can be cold or can repeat calls");
        }
        // Only a complete write repairs a journal that misses keys.
        self.failing = result.is_err() || self.failing && operation != "writing";
        self.storage = StorageState::Idle(storage);
    }

    fn header(&self, version: ResourceVersion) -> Header {
        Header { identity: self.identity.clone(), seed: self.seed, version }
    }

    fn schedule(&mut self) {
        let interval = self.interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        self.next_check = Instant::now() + interval.mul_f64(1.0 + JITTER * self.rng.f64());
    }
}

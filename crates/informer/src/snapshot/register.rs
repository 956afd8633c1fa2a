//! Reads the snapshot of an informer, and fills its store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube_object::{DecodeContext, DigestSeed, Escaped, Persist};
use parking_lot::Mutex;
use tokio::task::{JoinError, spawn_blocking};

use super::{SnapshotFile, identity::Identity, load::Loaded, storage::Storage, task::SnapshotTask};
use crate::{
    Informer,
    files::{StorageError, is_secrets},
    restored::{Discard, Restored, SavedState},
    shared::Shared,
};

/// Reports that an informer has no snapshot. A problem with the file never causes this error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The informer was started or stopped before, or already has a snapshot.
    #[error(
        "cannot restore a snapshot of {}: the informer is already started or has a snapshot; restore the snapshot once, before the start",
        Escaped(informer)
    )]
    AlreadyStarted {
        /// The name of the informer.
        informer: String,
    },
    /// The informer caches Secrets, and a snapshot is not encrypted.
    #[error(
        "cannot restore a snapshot of {}: a file must not contain Secrets; start the informer without a snapshot",
        Escaped(informer)
    )]
    Secrets {
        /// The name of the informer.
        informer: String,
    },
    /// The informer caches only the objects of some slots. After a restart it may have other slots.
    #[error(
        "cannot restore a snapshot of {}: the informer is sharded; start the informer without a snapshot",
        Escaped(informer)
    )]
    Sharded {
        /// The name of the informer.
        informer: String,
    },
    /// The source is not a `ListWatch` of an `Api`. The states of two processes cannot be compared.
    #[error(
        "cannot restore a snapshot of {}: the source is not a ListWatch of an Api; start the informer without a snapshot",
        Escaped(informer)
    )]
    Source {
        /// The name of the informer.
        informer: String,
    },
}

impl<T: Persist> Informer<T> {
    /// Fills the cache from the file of an earlier process, and keeps the file up to date. Returns the
    /// restored contents, or `None` if the cache stays empty.
    ///
    /// Call this method once, before [`Informer::start`]. When it returns, listers and indexes contain the
    /// restored objects. The informer is not synced, and handlers receive no calls, until the informer has
    /// verified the contents:
    ///
    /// 1. It compares the version of the file with the current resourceVersion of the server. If the server
    ///    has a lower version, it has another history. The contents are then discarded.
    /// 2. If the file is younger than [`SnapshotFile::resume_within`], by default 5 minutes, the informer
    ///    watches from the version of the file. Handlers then receive the contents as initial adds, and the
    ///    later changes as usual events.
    /// 3. Otherwise, it lists. Unchanged objects are neither decoded nor replaced.
    ///
    /// If the file is missing, damaged, locked, or belongs to something else, the informer starts cold. The
    /// log contains the reason. A problem with the file never stops the informer.
    ///
    /// The informer writes the file when it stops, and at intervals if enough objects have changed. The
    /// method reads the file on a thread for blocking work, and decodes the objects on the calling task.
    ///
    /// # Errors
    /// Returns an error if the informer was started before or already has a snapshot, if it caches Secrets,
    /// if it is sharded, or if its source is not a [`ListWatch`](crate::ListWatch) of an `Api`. After such an
    /// error, the informer can still start, without a snapshot.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// If you drop the future, the cache usually stays empty, and the informer has no snapshot. If the cache
    /// is being filled, this continues. In both cases, do not call the method again for this informer.
    pub async fn restore_snapshot(&self, file: &SnapshotFile) -> Result<Option<Restored>, SnapshotError> {
        let informer = self.name().to_owned();
        let source = &self.shared.config.source;
        if is_secrets(&source.path()) {
            return Err(SnapshotError::Secrets { informer });
        }
        if self.shared.slots.is_some() {
            return Err(SnapshotError::Sharded { informer });
        }
        let Some(context) = source.decode_context() else {
            return Err(SnapshotError::Source { informer });
        };
        if !self.shared.is_not_started() || !self.shared.restored.reserve() {
            return Err(SnapshotError::AlreadyStarted { informer });
        }
        match restore(&self.shared, context, file).await {
            Ok(Some(outcome)) => Ok(outcome.log(&informer)),
            Ok(None) => Err(SnapshotError::AlreadyStarted { informer }),
            Err(_) => Ok(None), // The runtime shuts down.
        }
    }
}

/// The result of an attempt to use a file.
struct Outcome {
    path: PathBuf,
    contents: Contents,
}

enum Contents {
    Restored(Restored),
    /// The file does not exist.
    Missing,
    /// The file is not used, for this reason.
    Unusable(String),
    /// The file is neither used nor written, for this reason.
    NotWritten(StorageError),
}

impl Outcome {
    /// Logs the outcome, and returns the restored contents.
    fn log(self, informer: &str) -> Option<Restored> {
        let (informer, file) = (Escaped(informer), Escaped(self.path.to_string_lossy()));
        match self.contents {
            Contents::Restored(restored) => {
                let Restored { age, objects, .. } = restored;
                tracing::info!(%informer, %file, objects, ?age, "snapshot is restored, and not verified yet");
                return Some(restored);
            }
            Contents::Missing => {
                tracing::info!(%informer, %file, "no snapshot exists; the informer starts cold");
            }
            Contents::Unusable(reason) => {
                tracing::warn!(%informer, %file, reason, "snapshot is not used; the informer starts cold");
            }
            Contents::NotWritten(reason) => {
                tracing::warn!(%informer, %file, %reason, "snapshot is not used and not written; the informer starts cold");
            }
        }
        None
    }
}

/// Reads the file and fills the store. Returns `None` if the informer was started before.
///
/// # Errors
/// Returns an error if the runtime shuts down.
async fn restore<T: Persist>(
    shared: &Arc<Shared<T>>,
    context: &DecodeContext,
    file: &SnapshotFile,
) -> Result<Option<Outcome>, JoinError> {
    let identity = Identity::of(&*shared.config.source, context, file);
    let (options, expected) = (file.clone(), identity.clone());
    let opened = spawn_blocking(move || {
        let storage = Storage::lock(&options, &expected)?;
        let file = storage.open(&expected);
        Ok((storage, file))
    });
    let (storage, opened) = match opened.await? {
        Ok(opened) => opened,
        Err(reason) => {
            let contents = Contents::NotWritten(reason);
            return Ok(Some(Outcome { path: file.folder.clone(), contents }));
        }
    };
    let loaded = match opened {
        Ok(Some(open)) => open.load(&context.kind).await.map(Some),
        Ok(None) => Ok(None),
        Err(reason) => Err(reason),
    };
    let (shared, file) = (Arc::clone(shared), file.clone());
    // The time depends on the number of objects.
    spawn_blocking(move || publish(&shared, storage, loaded, identity, &file)).await
}

/// Fills the store, and registers the task that writes the file. Returns `None` if the informer was started
/// before.
fn publish<T: Persist>(
    shared: &Arc<Shared<T>>,
    storage: Storage,
    loaded: Result<Option<Loaded<T>>, String>,
    identity: Identity,
    file: &SnapshotFile,
) -> Option<Outcome> {
    let saved_seed = loaded.as_ref().ok().and_then(Option::as_ref).and_then(|loaded| loaded.header.seed);
    let seed = || saved_seed.map_or_else(DigestSeed::random, DigestSeed::new);
    let seed = shared.config.source.decode_context()?.digest_seed.get_or_init(seed).get();
    let path = storage.path().to_owned();
    let storage = Arc::new(Mutex::new(storage));
    let task = task(shared, Arc::clone(&storage), identity, seed, file);
    let contents = shared.before_start(|| {
        let contents = match loaded {
            Ok(None) => Contents::Missing,
            Err(reason) => Contents::Unusable(reason),
            Ok(Some(mut loaded)) => {
                if saved_seed != Some(seed) {
                    loaded.entries.iter_mut().for_each(|entry| entry.digest = None);
                }
                let name = Escaped(path.to_string_lossy().into_owned());
                let discard = Discard { file: name, remove: Box::new(move || storage.lock().discard()) };
                Contents::Restored(fill(shared, loaded, file.resume_within, discard))
            }
        };
        (task.run().boxed(), contents)
    })?;
    Some(Outcome { path, contents })
}

fn task<T: Persist>(
    shared: &Shared<T>,
    storage: Arc<Mutex<Storage>>,
    identity: Identity,
    seed: u64,
    file: &SnapshotFile,
) -> SnapshotTask<T> {
    let rng = shared.config.settings.reflector.seed;
    SnapshotTask {
        store: shared.store.clone(),
        storage,
        identity,
        seed,
        stopping: shared.stopping.clone(),
        reflector: shared.reflector.subscribe(),
        changes: shared.restored.changes(),
        interval: file.interval,
        rng: rng.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed),
        failing: false,
    }
}

/// Fills the store, which is empty because the informer was not started.
fn fill<T: Persist>(
    shared: &Shared<T>,
    loaded: Loaded<T>,
    resume_within: Duration,
    discard: Discard,
) -> Restored {
    let Loaded { header, entries } = loaded;
    let saved = SavedState {
        version: header.version,
        saved_at: header.saved_at,
        resume_within,
        complete: header.complete,
        objects: entries.len(),
    };
    let restored = saved.restored();
    if shared.store.restore(entries) {
        shared.restored.set(saved, discard);
    }
    restored
}

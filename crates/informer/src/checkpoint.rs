//! Checkpoints: the states that a named handler has finished, stored in a file without contents of objects.
//!
//! [`register`] locks and reads the file. [`task`] waits for the first list and decides whether the file is
//! used. [`delivery`] calls the handler. [`journal`] writes the file.

mod delivery;
mod format;
mod handler;
mod identity;
mod journal;
mod known_objects;
mod list_observer;
mod register;
mod storage;
mod task;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use handler::CheckpointHandler;
pub(crate) use list_observer::{AppliedList, ListObserver};
pub use register::CheckpointError;

use crate::ClusterId;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(5 * 60);
const DEFAULT_MAX_BYTES: u64 = 256 << 20;

/// Configures the checkpoint of a handler. See
/// [`Informer::add_handler_with_checkpoint`](crate::Informer::add_handler_with_checkpoint).
///
/// A checkpoint is a file that contains, for each object, the key, the uid, the resourceVersion and a hash
/// of the last state that the handler has finished. The file does not contain contents of objects, and only
/// its owner can read the file.
///
/// One checkpoint can be used for several handlers. Each handler has its own file in the folder.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    folder: PathBuf,
    cluster: ClusterId,
    handler_version: String,
    interval: Duration,
    max_bytes: u64,
}

impl Checkpoint {
    /// Stores checkpoints of this cluster in this folder. The folder is created if it does not exist.
    ///
    /// The folder must survive a restart of the process, for example a `hostPath` or a PersistentVolume. An
    /// `emptyDir` survives a restart of a container, but not of its Pod.
    pub fn in_folder(folder: impl AsRef<Path>, cluster: ClusterId) -> Self {
        Self {
            folder: folder.as_ref().to_owned(),
            cluster,
            handler_version: String::new(),
            interval: DEFAULT_INTERVAL,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }

    /// Sets the version of the handler. A file with another version is not used.
    ///
    /// Change the version if the handler must receive all objects again, for example because it reads other
    /// fields or has another transform. Do not use the version of the program: each change causes a cold
    /// start, which reports no deletions. The default is an empty text.
    #[must_use]
    pub fn handler_version(mut self, version: impl Into<String>) -> Self {
        self.handler_version = version.into();
        self
    }

    /// Sets the time between two checks whether to write the file. The default is 5 minutes. A random part
    /// of up to a fifth is added. A check writes the file if at least 5 % of the objects have changed.
    ///
    /// The file is also written when the informer stops. A shorter interval reduces the number of calls that
    /// are repeated after a crash.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the maximum size of the file. The default is 256 MiB, for about 5 million objects. If a write
    /// would exceed this size, it fails like a write to a full disk.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

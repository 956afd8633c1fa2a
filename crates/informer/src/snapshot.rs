//! Snapshots: the contents of a cache, stored in a file and restored after a restart.
//!
//! [`register`] reads the file and fills the store. [`crate::restored`] verifies the contents when the
//! informer starts. [`task`] writes the file.

mod format;
mod identity;
mod load;
mod register;
mod storage;
mod task;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use register::SnapshotError;

use crate::ClusterId;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(5 * 60);
const DEFAULT_MAX_BYTES: u64 = 2 << 30;

/// The maximum age of a file after which the watch is resumed. kube-apiserver keeps the events of busy
/// types for a shorter time.
const MAX_RESUME_AGE: Duration = Duration::from_secs(5 * 60);

/// Configures the snapshot of an informer. See
/// [`Informer::restore_snapshot`](crate::Informer::restore_snapshot).
///
/// A snapshot is a file that contains the cached objects. Only its owner can read the file, but its contents
/// are not encrypted.
///
/// Several informers can use the same value. Each informer has its own file in the folder.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    folder: PathBuf,
    cluster: ClusterId,
    transform_version: String,
    interval: Duration,
    max_bytes: u64,
    resume_within: Duration,
}

impl SnapshotFile {
    /// Stores snapshots of this cluster in this folder. The folder is created if it does not exist.
    ///
    /// The folder must survive a restart of the process, for example a `hostPath` or a PersistentVolume. An
    /// `emptyDir` survives a restart of a container, but not of its Pod.
    pub fn in_folder(folder: impl AsRef<Path>, cluster: ClusterId) -> Self {
        Self {
            folder: folder.as_ref().to_owned(),
            cluster,
            transform_version: String::new(),
            interval: DEFAULT_INTERVAL,
            max_bytes: DEFAULT_MAX_BYTES,
            resume_within: MAX_RESUME_AGE,
        }
    }

    /// Sets the version of the cached contents. A file with another version is not used. The default is an
    /// empty text.
    ///
    /// The file contains objects after the transform, with the fields of their Rust type. Change the version
    /// if you change the transform, or the fields of the type. Examples are a new field of a CRD, and another
    /// version of k8s-openapi. Otherwise, unchanged objects do not have the new field after a restart.
    #[must_use]
    pub fn transform_version(mut self, version: impl Into<String>) -> Self {
        self.transform_version = version.into();
        self
    }

    /// Sets the time between two checks whether to write the file. The default is 5 minutes. A random part
    /// of up to a fifth is added. A check writes the file if at least 5 % of the objects have changed.
    ///
    /// The file is also written when the informer stops. It is not written at a crash. If the process can
    /// crash earlier, set a shorter interval.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the maximum size of the file. The default is 2 GiB. If a write would exceed this size, it fails
    /// like a write to a full disk.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum age of a file for a resumed watch. The age is the time since the file was written. If
    /// the file is older, the informer lists. The default and the maximum are 5 minutes.
    ///
    /// Set a shorter time, or zero, if the server is often restored from backups. If a restored server has
    /// passed the version of the file again, a watch does not recognize the lost history. A list recognizes
    /// it.
    #[must_use]
    pub fn resume_within(mut self, age: Duration) -> Self {
        self.resume_within = age.min(MAX_RESUME_AGE);
        self
    }
}

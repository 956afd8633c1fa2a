//! `Storage`: the file of one snapshot.

use std::{
    io::{self, BufReader},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use kube_object::{Entry, Escaped, Persist};
use kube_store::Snapshot;

use super::{
    DEFAULT_MAX_BYTES, SnapshotFile,
    format::{FileReader, FileWriter, Header, Unusable},
    identity::Identity,
    load::OpenFile,
};
use crate::files::{LockedFolder, StorageError, file_name};

/// The beginning of the names of the files. The name of a handler with a checkpoint cannot contain a dot.
const NAME: &str = "informer.cache";

/// Reads and writes a snapshot. Holds its lock until it is dropped. All methods block.
pub(super) struct Storage {
    files: LockedFolder,
    max_bytes: u64,
}

impl Storage {
    /// Creates the folder if it does not exist, and locks the file.
    pub(super) fn lock(file: &SnapshotFile, identity: &Identity) -> Result<Self, StorageError> {
        let name = file_name(NAME, &[&identity.path, &identity.selection, &identity.representation]);
        Ok(Self { files: LockedFolder::lock(&file.folder, &name, "snapshot")?, max_bytes: file.max_bytes })
    }

    pub(super) fn path(&self) -> &Path {
        self.files.path()
    }

    /// Opens the file. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns the reason for which the file is not used.
    pub(super) fn open(&self, identity: &Identity) -> Result<Option<OpenFile>, String> {
        let open = self.files.open(self.max_bytes.max(DEFAULT_MAX_BYTES));
        let Some((file, len)) = open.map_err(|error| error.to_string())? else { return Ok(None) };
        let unusable = |unusable: Unusable| unusable.to_string();
        let (reader, header) = FileReader::new(BufReader::new(file), len).map_err(unusable)?;
        if let Some((field, saved)) = identity.difference(&header.identity) {
            return Err(format!("the saved {field} differs: {}", Escaped(saved)));
        }
        if header.version.is_opaque() {
            return Err("the saved resourceVersion is not a number".to_owned());
        }
        Ok(Some(OpenFile { header, reader }))
    }

    /// Replaces the file. If the method fails, the old file remains, except if only the last step fails, the
    /// sync of the folder.
    ///
    /// Leaves out objects whose latest state is unknown. `header.complete` must then be false. Stops with an
    /// error if `cancelled` is set.
    pub(super) fn write<T: Persist>(
        &self,
        header: &Header,
        cache: &Snapshot<T>,
        cancelled: &AtomicBool,
    ) -> Result<(), io::Error> {
        let mut entries: Vec<&Entry<T>> = cache.iter().filter(|entry| !cache.is_stale(entry.key())).collect();
        entries.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        self.files.replace(self.max_bytes, |out| {
            let mut writer = FileWriter::new(out, header, !T::IS_COMPRESSED)?;
            let (mut shared, mut bytes) = (T::Shared::default(), Vec::new());
            for entry in entries {
                if cancelled.load(Ordering::Relaxed) {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the write takes too long"));
                }
                bytes.clear();
                let persisted = entry.object.persist(&mut shared, &mut bytes);
                persisted.map_err(|error| io::Error::other(format!("{}: {error}", entry.key())))?;
                writer.add(&entry.id, entry.digest, &bytes)?;
            }
            writer.finish()
        })?;
        self.files.sync()
    }

    /// Removes the file. In a read-only folder, empties the file instead. An empty file is not usable.
    pub(super) fn discard(&self) -> Result<(), io::Error> {
        self.files.discard()
    }
}

#[cfg(test)]
mod tests;

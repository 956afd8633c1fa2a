//! `Storage`: the files of one checkpoint.
//!
//! `NAME.checkpoint` is the checkpoint. A new one is written to `NAME.tmp` and then renamed. `NAME.lock` is
//! locked while a process uses the checkpoint, and is never removed.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use kube_object::{ObjectKey, Uid};

use super::{
    DEFAULT_MAX_BYTES,
    format::{Header, Known, encode, encode_told},
};
use crate::files::{Limited, LockedFolder, StorageError};

/// Reads and writes a checkpoint. Holds its lock until it is dropped. All methods block.
pub(crate) struct Storage {
    files: LockedFolder,
    max_bytes: u64,
    /// The checkpoint, opened to append to its journal. `None` before it was written or resumed.
    journal: Option<Journal>,
}

struct Journal {
    file: File,
    /// The length up to which the file is complete.
    len: u64,
}

impl Storage {
    /// Creates the folder if it does not exist, and locks the checkpoint.
    pub(crate) fn lock(folder: &Path, name: &str, max_bytes: u64) -> Result<Self, StorageError> {
        Ok(Self { files: LockedFolder::lock(folder, name, "checkpoint")?, max_bytes, journal: None })
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }

    /// Reads the file. Returns `None` if it does not exist.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, StorageError> {
        let Some((mut file, len)) = self.files.open(self.max_bytes.max(DEFAULT_MAX_BYTES))? else {
            return Ok(None);
        };
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        match file.read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(StorageError::Io { operation: "reading", error }),
        }
    }

    /// Continues the journal of the existing file. The first `len` bytes of the file are complete.
    pub(crate) fn resume(&mut self, len: u64) -> Result<(), io::Error> {
        let file = OpenOptions::new().append(true).open(self.path())?;
        file.set_len(len)?;
        self.journal = Some(Journal { file, len });
        Ok(())
    }

    /// Replaces the checkpoint and starts its journal with `told`. If the method fails, the old checkpoint
    /// and its journal remain, except if only the last step fails, the sync of the folder.
    pub(crate) fn replace(
        &mut self,
        header: &Header,
        entries: &[(ObjectKey, Known)],
        told: &[(ObjectKey, Uid)],
    ) -> Result<(), io::Error> {
        let (file, len) = self.files.replace(self.max_bytes, |out| {
            encode(header, entries, out)?;
            if told.is_empty() {
                return Ok(());
            }
            out.write_all(&encode_told(told.iter().map(|(key, uid)| (key, uid))))
        })?;
        self.journal = Some(Journal { file, len });
        self.files.sync()
    }

    /// Removes the checkpoint. In a read-only folder, empties the file instead. An empty file is not usable.
    pub(crate) fn discard(&mut self) -> Result<(), io::Error> {
        self.journal = None;
        self.files.discard()
    }

    /// Appends a frame to the journal. If the method fails, it removes the checkpoint. Otherwise, the next
    /// process could miss the deletion of an object that is not in the journal.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), io::Error> {
        let missing = || io::Error::other("the checkpoint was not written before");
        let Journal { file, len } = self.journal.as_mut().ok_or_else(missing)?;
        let left = self.max_bytes.saturating_sub(*len);
        if let Err(error) = (Limited { file, left }).write_all(frame) {
            // An empty file is also unusable.
            let is_emptied = file.set_len(0).is_ok();
            return match self.discard() {
                Err(remains) if !is_emptied => Err(io::Error::other(format!(
                    "{error}; the file cannot be removed either: {remains}; remove it before the next start, otherwise the handler can miss deletions"
                ))),
                _ => Err(error),
            };
        }
        *len += frame.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;

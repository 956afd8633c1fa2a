//! `Storage`: the files of one checkpoint.
//!
//! `NAME.checkpoint` is the checkpoint. A new one is written to `NAME.tmp` and then renamed. `NAME.lock` is
//! locked while a process uses the checkpoint, and is never removed.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use kube_object::{ObjectKey, Uid};

use super::{
    DEFAULT_MAX_BYTES,
    format::{Header, Known, encode, encode_told},
};

/// Reads and writes a checkpoint. Holds its lock until it is dropped. All methods block.
pub(crate) struct Storage {
    folder: PathBuf,
    path: PathBuf,
    temporary: PathBuf,
    max_bytes: u64,
    /// The checkpoint, opened to append to its journal. `None` before it was written or resumed.
    journal: Option<Journal>,
    _lock: File,
}

struct Journal {
    file: File,
    /// The length up to which the file is complete.
    len: u64,
}

/// The reason for which no checkpoint is read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    #[error("another process or handler has locked the checkpoint")]
    Locked,
    #[error("{operation} failed: {error}")]
    Io { operation: &'static str, error: io::Error },
    #[error("the checkpoint is not a regular file, or has more than {max} bytes")]
    NotReadable { max: u64 },
}

impl Storage {
    /// Creates the folder if it does not exist, and locks the checkpoint.
    pub(crate) fn lock(folder: &Path, name: &str, max_bytes: u64) -> Result<Self, StorageError> {
        let io = |operation| move |error| StorageError::Io { operation, error };
        fs::create_dir_all(folder).map_err(io("creating the folder"))?;
        let lock = private(OpenOptions::new().create(true).append(true))
            .open(folder.join(format!("{name}.lock")))
            .map_err(io("opening the lock file"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StorageError::Locked),
            Err(TryLockError::Error(error)) => return Err(io("locking")(error)),
        }
        Ok(Self {
            folder: folder.to_owned(),
            path: folder.join(format!("{name}.checkpoint")),
            temporary: folder.join(format!("{name}.tmp")),
            max_bytes,
            journal: None,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. Returns `None` if it does not exist.
    ///
    /// A file that is too large cannot be a checkpoint, and could fill the memory. A pipe would block.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, StorageError> {
        let max = self.max_bytes.max(DEFAULT_MAX_BYTES);
        let read = fs::metadata(&self.path).and_then(|metadata| {
            let is_readable = metadata.is_file() && metadata.len() <= max;
            is_readable.then(|| fs::read(&self.path)).transpose()
        });
        match read {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(StorageError::NotReadable { max }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::Io { operation: "reading", error }),
        }
    }

    /// Continues the journal of the existing file. The first `len` bytes of the file are complete.
    pub(crate) fn resume(&mut self, len: u64) -> Result<(), io::Error> {
        let file = OpenOptions::new().append(true).open(&self.path)?;
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
        let journal = self.write_temporary(header, entries, told).inspect_err(|_| {
            // A partial file is useless, and can fill the disk.
            let _missing = fs::remove_file(&self.temporary);
        })?;
        self.journal = Some(journal);
        File::open(&self.folder)?.sync_all()
    }

    /// Removes the checkpoint. In a read-only folder, empties the file instead. An empty file is not usable.
    pub(crate) fn discard(&mut self) -> Result<(), io::Error> {
        self.journal = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let emptied =
                    OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(0));
                emptied.map_err(|_| error)
            }
            _ => Ok(()),
        }
    }

    fn write_temporary(
        &self,
        header: &Header,
        entries: &[(ObjectKey, Known)],
        told: &[(ObjectKey, Uid)],
    ) -> Result<Journal, io::Error> {
        // A left file can have other permissions.
        match fs::remove_file(&self.temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private(OpenOptions::new().create_new(true).append(true)).open(&self.temporary)?;
        let mut out = io::BufWriter::new(Limited { file: &file, left: self.max_bytes });
        encode(header, entries, &mut out)?;
        if !told.is_empty() {
            out.write_all(&encode_told(told.iter().map(|(key, uid)| (key, uid))))?;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        let len = file.metadata()?.len();
        fs::rename(&self.temporary, &self.path)?;
        Ok(Journal { file, len })
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

/// Lets only the owner read and write a new file.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes at most `left` bytes, and then fails like a full disk.
struct Limited<'a> {
    file: &'a File,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, io::Error> {
        let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if allowed == 0 && !bytes.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the checkpoint reached its maximum size",
            ));
        }
        let written = (&*self.file).write(&bytes[..allowed])?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

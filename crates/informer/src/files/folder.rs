//! `LockedFolder`: the locked files with one name in a folder.
//!
//! A new file is written to `NAME.tmp` and then renamed. `NAME.lock` is locked while a process uses the
//! files, and is never removed.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    hash::Hasher as _,
    io::{self, Write},
    path::{Path, PathBuf},
};

use siphasher::sip::SipHasher13;

/// Replaces and removes a file. Holds its lock until it is dropped. All methods block.
pub(crate) struct LockedFolder {
    folder: PathBuf,
    path: PathBuf,
    temporary: PathBuf,
    lock: File,
}

impl Drop for LockedFolder {
    /// Unlocks the file. A close is not sufficient: another thread may start a process at this moment, which
    /// has a copy of the descriptor until it executes its program.
    fn drop(&mut self) {
        // After a failure, the close unlocks the file.
        let _unlocked = self.lock.unlock();
    }
}

/// The reason for which no file is read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    #[error("another process, handler or informer has locked the file")]
    Locked,
    #[error("{operation} failed: {error}")]
    Io { operation: &'static str, error: io::Error },
    #[error("it is not a regular file, or has more than {max} bytes")]
    NotReadable { max: u64 },
}

impl LockedFolder {
    /// Creates the folder if it does not exist, and locks the file `NAME.EXTENSION`.
    pub(crate) fn lock(folder: &Path, name: &str, extension: &str) -> Result<Self, StorageError> {
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
            path: folder.join(format!("{name}.{extension}")),
            temporary: folder.join(format!("{name}.tmp")),
            lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Opens the file, and returns its length. Returns `None` if it does not exist.
    ///
    /// A file that is too large cannot be valid, and could fill the memory. A pipe would block.
    pub(crate) fn open(&self, max: u64) -> Result<Option<(File, u64)>, StorageError> {
        let open = fs::metadata(&self.path).and_then(|metadata| {
            let is_readable = metadata.is_file() && metadata.len() <= max;
            is_readable.then(|| Ok((File::open(&self.path)?, metadata.len()))).transpose()
        });
        match open {
            Ok(Some(open)) => Ok(Some(open)),
            Ok(None) => Err(StorageError::NotReadable { max }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::Io { operation: "reading", error }),
        }
    }

    /// Replaces the file by the output of `write`, at most `max_bytes`. Returns the new file and its length.
    /// If the method fails, the old file remains.
    ///
    /// The caller must then call [`LockedFolder::sync`]. Otherwise, the old file can be back after a loss of
    /// power.
    pub(crate) fn replace(
        &self,
        max_bytes: u64,
        write: impl FnOnce(&mut io::BufWriter<Limited<'_>>) -> Result<(), io::Error>,
    ) -> Result<(File, u64), io::Error> {
        self.write_temporary(max_bytes, write).inspect_err(|_| {
            // A partial file is useless, and can fill the disk.
            let _missing = fs::remove_file(&self.temporary);
        })
    }

    fn write_temporary(
        &self,
        max_bytes: u64,
        write: impl FnOnce(&mut io::BufWriter<Limited<'_>>) -> Result<(), io::Error>,
    ) -> Result<(File, u64), io::Error> {
        // A left file can have other permissions.
        match fs::remove_file(&self.temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private(OpenOptions::new().create_new(true).append(true)).open(&self.temporary)?;
        let mut out = io::BufWriter::new(Limited { file: &file, left: max_bytes });
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.sync_all()?;
        let len = file.metadata()?.len();
        fs::rename(&self.temporary, &self.path)?;
        Ok((file, len))
    }

    /// Syncs the folder. A new file then keeps its name after a loss of power.
    pub(crate) fn sync(&self) -> Result<(), io::Error> {
        File::open(&self.folder)?.sync_all()
    }

    /// Removes the file. In a read-only folder, empties the file instead. An empty file is not usable.
    pub(crate) fn discard(&self) -> Result<(), io::Error> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let emptied =
                    OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(0));
                emptied.map_err(|_| error)
            }
            _ => Ok(()),
        }
    }
}

/// Lets only the owner read and write a new file.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Writes at most `left` bytes, and then fails like a full disk.
pub(crate) struct Limited<'a> {
    pub(crate) file: &'a File,
    pub(crate) left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, io::Error> {
        let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if allowed == 0 && !bytes.is_empty() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the file reached its maximum size"));
        }
        let written = (&*self.file).write(&bytes[..allowed])?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Returns the beginning of the names of the files. A hash of the texts separates the files of different
/// resources.
pub(crate) fn file_name(prefix: &str, texts: &[&str]) -> String {
    let mut hasher = SipHasher13::new();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    format!("{prefix}-{:016x}", hasher.finish())
}

/// Returns whether this is the path of the Secrets of the core API group.
pub(crate) fn is_secrets(path: &str) -> bool {
    path.contains("/api/v1/") && path.ends_with("/secrets")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_folder_is_unlocked_despite_an_inherited_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let locked = LockedFolder::lock(folder.path(), "pods", "snapshot").unwrap();
        let second = LockedFolder::lock(folder.path(), "pods", "snapshot");
        assert!(matches!(second, Err(StorageError::Locked)));
        // A process that starts has such a copy until it executes its program.
        let _inherited = locked.lock.try_clone().unwrap();
        drop(locked);
        assert!(LockedFolder::lock(folder.path(), "pods", "snapshot").is_ok());
    }

    #[test]
    fn only_paths_of_core_secrets_are_secrets() {
        for (path, expected) in [
            ("/api/v1/secrets", true),
            ("/api/v1/namespaces/shop/secrets", true),
            ("/prefix/api/v1/secrets", true),
            ("/api/v1/namespaces/secrets/pods", false),
            ("/apis/example.com/v1/secrets", false),
            ("/api/v1/configmaps", false),
        ] {
            assert_eq!(is_secrets(path), expected, "{path}");
        }
    }
}

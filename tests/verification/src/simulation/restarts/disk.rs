//! A disk that lies. The disk returns an earlier file, or a file with other bytes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use fastrand::Rng;
use tempfile::TempDir;

use crate::properties::Object;

/// The extension of the files of snapshots.
const SNAPSHOT: &str = "snapshot";
/// The extension of the files of checkpoints.
const CHECKPOINT: &str = "checkpoint";
/// The number of earlier contents that can return.
const KEPT_VERSIONS: usize = 6;

/// A lie of the disk about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lie {
    /// Earlier contents return. The last writes are lost, although they were synced.
    Old,
    /// The end of the file is lost.
    Truncated,
    /// The end of the file consists of zeros.
    Zeroed,
    /// A bit of the file is flipped.
    FlippedBit,
    /// The file is lost.
    Removed,
}

/// Contents that a file has had.
#[derive(Clone, Debug)]
pub(super) struct SavedFile {
    bytes: Vec<u8>,
    /// Whether the disk has changed the bytes.
    is_damaged: bool,
    /// A time at which the file did not have these contents yet.
    pub(super) after: Duration,
    /// The number of restores of etcd before.
    pub(super) restores: u32,
    /// The number of handler calls that these contents contain for certain.
    pub(super) calls: usize,
    /// The number of handler calls that the contents without their journal contain for certain.
    calls_without_journal: usize,
    pub(super) transform: u8,
    /// The contents of the cache, if they are known.
    pub(super) cache: Option<CacheAtStop>,
}

impl SavedFile {
    /// Returns whether the bytes are equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// The contents of a stopped cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheAtStop {
    pub(super) objects: Vec<Object>,
    pub(super) version: u64,
    /// False if some objects cannot be decoded. They are not in the file.
    pub(super) is_complete: bool,
}

/// The situation in which the disk is observed.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) now: Duration,
    pub(super) restores: u32,
    pub(super) calls: usize,
    pub(super) transform: u8,
    pub(super) cache: Option<CacheAtStop>,
    /// True if nothing prevents the process from writing the file when it stops.
    pub(super) can_write: bool,
}

/// The present contents of a file.
pub(super) enum Contents<'a> {
    Missing,
    Damaged,
    Intact(&'a SavedFile),
}

/// A file of one informer.
pub(super) struct SimulatedFile {
    folder: PathBuf,
    extension: &'static str,
    versions: Vec<SavedFile>,
    is_missing: bool,
    last: Moment,
}

impl SimulatedFile {
    fn new(folder: &TempDir, extension: &'static str) -> Self {
        Self {
            folder: folder.path().to_owned(),
            extension,
            versions: Vec::new(),
            is_missing: true,
            last: Moment::default(),
        }
    }

    /// Returns the file with this extension, if it exists.
    fn path(&self, extension: &str) -> Option<PathBuf> {
        let files = fs::read_dir(&self.folder).expect("the folder exists").flatten().map(|file| file.path());
        let mut files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
        files.find(|path| extension == self.extension || self.is_of(path))
    }

    /// Returns whether a file belongs to this file. The lock of a snapshot has a dot in its name.
    fn is_of(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("informer.cache-") == (self.extension == SNAPSHOT)
    }

    pub(super) fn contents(&self) -> Contents<'_> {
        match self.versions.last() {
            _ if self.is_missing => Contents::Missing,
            Some(file) if file.is_damaged => Contents::Damaged,
            Some(file) => Contents::Intact(file),
            None => Contents::Missing,
        }
    }

    /// Records the contents that the file has now.
    pub(super) fn observe(&mut self, moment: Moment) {
        let before = std::mem::replace(&mut self.last, moment.clone());
        let Some(path) = self.path(self.extension) else {
            self.is_missing = true;
            return;
        };
        let bytes = fs::read(path).expect("the file can be read");
        if let Some(last) = self.versions.last_mut().filter(|last| !self.is_missing && last.bytes == bytes) {
            // The thread that writes the file can be faster than an observation just before the stop.
            if moment.can_write && !last.is_damaged && last.cache.is_none() {
                last.cache = moment.cache;
            }
            return;
        }
        let last = self.versions.last();
        let continued = last.filter(|last| !self.is_missing && bytes.starts_with(&last.bytes));
        let calls_without_journal = continued.map_or(before.calls, |last| last.calls_without_journal);
        self.versions.push(SavedFile {
            bytes,
            is_damaged: false,
            after: before.now,
            restores: moment.restores,
            calls: before.calls,
            calls_without_journal,
            transform: moment.transform,
            cache: moment.cache,
        });
        self.is_missing = false;
        if self.versions.len() > KEPT_VERSIONS {
            self.versions.remove(0);
        }
    }

    /// Lies about the file while no process uses it. Returns the lie, and the number of handler calls that
    /// the file contains for certain.
    pub(super) fn lie(&mut self, rng: &mut Rng) -> Option<(Lie, usize)> {
        let path = self.path(self.extension)?;
        let known = self.versions.last().filter(|last| !last.is_damaged)?.clone();
        let (len, at) = (known.bytes.len(), rng.f64());
        let at = ((len as f64 * at) as usize).min(len.saturating_sub(1));
        let mut bytes = known.bytes.clone();
        let lie = match rng.u8(..6) {
            0 | 1 => {
                let intact: Vec<_> = self.versions.iter().filter(|old| !old.is_damaged).collect();
                let old = intact[rng.usize(..intact.len())].clone();
                fs::write(path, &old.bytes).expect("the file can be written");
                let calls = old.calls;
                self.versions.push(old);
                return Some((Lie::Old, calls));
            }
            2 => {
                bytes.truncate(at);
                Lie::Truncated
            }
            3 => {
                bytes[at..].fill(0);
                Lie::Zeroed
            }
            4 => {
                bytes[at] ^= 1 << rng.u8(..8);
                Lie::FlippedBit
            }
            _ => {
                fs::remove_file(path).expect("the file can be removed");
                self.is_missing = true;
                return Some((Lie::Removed, 0));
            }
        };
        fs::write(path, &bytes).expect("the file can be written");
        let is_damaged = bytes != known.bytes;
        self.versions.push(SavedFile { bytes, is_damaged, ..known.clone() });
        Some((lie, known.calls_without_journal))
    }

    /// Makes each replacement of the file fail, or stops this.
    pub(super) fn block(&self, is_blocked: bool) -> Result<(), io::Error> {
        let Some(lock) = self.path("lock") else { return Ok(()) };
        let temporary = lock.with_extension("tmp");
        match is_blocked {
            // A folder cannot be removed like a file.
            true => {
                let _missing = fs::remove_file(&temporary);
                fs::create_dir_all(&temporary)
            }
            false if temporary.is_dir() => fs::remove_dir_all(&temporary),
            false => Ok(()),
        }
    }

    /// Leaves a part of a file, like a crash during a write.
    pub(super) fn leave_partial_write(&self) {
        let Some(lock) = self.path("lock") else { return };
        let half = self.versions.last().map_or(&[][..], |last| &last.bytes[..last.bytes.len() / 2]);
        // The write fails if the folder is blocked.
        let _blocked = fs::write(lock.with_extension("tmp"), half);
    }
}

/// The files in a folder at one time.
#[derive(Default)]
pub(super) struct FolderCopy(Vec<(PathBuf, Vec<u8>)>);

impl FolderCopy {
    pub(super) fn of(folder: &Path) -> Self {
        Self(data_files(folder).map(|path| (path.clone(), fs::read(path).unwrap_or_default())).collect())
    }

    /// Undoes all later writes.
    pub(super) fn put_back(self, folder: &Path) {
        data_files(folder).for_each(|path| fs::remove_file(path).expect("the file can be removed"));
        self.0.into_iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("the file can be written"));
    }
}

/// Returns the snapshots and checkpoints in a folder.
fn data_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(folder).expect("the folder exists").flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|found| found == SNAPSHOT || found == CHECKPOINT))
}

/// The folder that survives the lives of a process.
pub(super) struct Disk {
    pub(super) folder: TempDir,
    pub(super) snapshot: SimulatedFile,
    pub(super) checkpoint: SimulatedFile,
}

impl Disk {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be created");
        let (snapshot, checkpoint) =
            (SimulatedFile::new(&folder, SNAPSHOT), SimulatedFile::new(&folder, CHECKPOINT));
        Self { folder, snapshot, checkpoint }
    }

    pub(super) fn observe(&mut self, moment: &Moment) {
        self.snapshot.observe(moment.clone());
        self.checkpoint.observe(Moment { cache: None, ..moment.clone() });
    }

    pub(super) fn files(&mut self) -> [&mut SimulatedFile; 2] {
        [&mut self.snapshot, &mut self.checkpoint]
    }
}

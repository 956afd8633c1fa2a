//! Tests the files of a checkpoint, also on a full disk.

use std::fs;

use kube_object::ResourceVersion;

use super::*;
use crate::checkpoint::{format::decode, identity::Identity};

const NAME: &str = "audit";

fn header(version: u64) -> Header {
    let identity = Identity::from_texts(vec![String::new(); 6]).unwrap();
    Header { identity, seed: None, version: ResourceVersion::from(version) }
}

fn entries(count: usize) -> Vec<(ObjectKey, Known)> {
    let known = Known::told(Uid::new("u"));
    (0..count).map(|at| (ObjectKey::new(None, &format!("{at:05}")), known.clone())).collect()
}

fn told(name: &str) -> Vec<u8> {
    encode_told([(&ObjectKey::new(None, name), &Uid::new("u"))])
}

fn storage(folder: &Path, max_bytes: u64) -> Storage {
    Storage::lock(folder, NAME, max_bytes).unwrap()
}

/// Returns the version, the number of entries and the number of keys in the journal of the file.
fn contents(storage: &Storage) -> Option<(String, usize, usize)> {
    let decoded = decode(&storage.read().unwrap()?).unwrap();
    Some((decoded.header.version.to_string(), decoded.entries.len(), decoded.told.len()))
}

#[test]
fn file_is_replaced_and_its_journal_continues() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/folder");
    let mut storage = storage(&folder, u64::MAX);
    assert_eq!(contents(&storage), None);
    assert!(storage.append(&told("a")).is_err(), "no file exists");
    storage.replace(&header(1), &entries(2), &[]).unwrap();
    storage.append(&told("a")).unwrap();
    storage.append(&told("b")).unwrap();
    assert_eq!(contents(&storage), Some(("1".to_owned(), 2, 2)));

    let bytes = storage.read().unwrap().unwrap();
    fs::write(storage.path(), &bytes[..bytes.len() - 1]).unwrap();
    let valid_len = decode(&bytes[..bytes.len() - 1]).unwrap().valid_len;
    drop(storage);
    let mut storage = self::storage(&folder, u64::MAX);
    storage.resume(valid_len).unwrap();
    storage.append(&told("c")).unwrap();
    assert_eq!(contents(&storage), Some(("1".to_owned(), 2, 2)), "the partial frame is removed");
    storage.replace(&header(2), &entries(3), &[]).unwrap();
    storage.append(&told("d")).unwrap();
    assert_eq!(contents(&storage), Some(("2".to_owned(), 3, 1)));
}

#[cfg(unix)]
#[test]
fn only_owner_can_read_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    // A file of an earlier crash, which each account can read.
    fs::write(folder.path().join("audit.tmp"), "x").unwrap();
    let mut storage = storage(folder.path(), u64::MAX);
    storage.replace(&header(1), &entries(1), &[]).unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[test]
fn lock_has_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let first = storage(folder.path(), u64::MAX);
    assert!(matches!(Storage::lock(folder.path(), NAME, 1), Err(StorageError::Locked)));
    assert!(Storage::lock(folder.path(), "other", 1).is_ok());
    drop(first);
    assert!(Storage::lock(folder.path(), NAME, 1).is_ok());
}

#[test]
fn full_disk_at_any_byte_keeps_old_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = storage(folder.path(), u64::MAX);
    storage.replace(&header(1), &entries(2), &[]).unwrap();
    storage.append(&told("a")).unwrap();
    let mut larger = Vec::new();
    encode(&header(2), &entries(3), &mut larger).unwrap();
    for byte in 0..larger.len() as u64 {
        storage.max_bytes = byte;
        let error = storage.replace(&header(2), &entries(3), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "byte {byte}");
        assert_eq!(contents(&storage), Some(("1".to_owned(), 2, 1)), "byte {byte}");
        assert!(!storage.files.temporary().exists());
    }
    storage.max_bytes = larger.len() as u64;
    storage.replace(&header(2), &entries(3), &[]).unwrap();
    assert_eq!(contents(&storage), Some(("2".to_owned(), 3, 0)));
}

#[test]
fn full_disk_during_append_removes_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = storage(folder.path(), u64::MAX);
    for byte in 0..told("a").len() as u64 {
        storage.max_bytes = u64::MAX;
        storage.replace(&header(1), &entries(2), &[]).unwrap();
        storage.append(&told("b")).unwrap();
        storage.max_bytes = storage.journal.as_ref().unwrap().len + byte;
        assert_eq!(storage.append(&told("a")).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(contents(&storage), None);
        assert!(storage.append(&told("a")).is_err());
    }
}

#[test]
fn file_in_place_of_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    assert!(matches!(Storage::lock(&path, NAME, 1), Err(StorageError::Io { .. })));
}

#[test]
fn file_that_cannot_be_checkpoint_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), 1000);
    let file = File::create(storage.path()).unwrap();
    file.set_len(DEFAULT_MAX_BYTES).unwrap();
    assert!(storage.read().is_ok(), "the maximum of an earlier process");
    file.set_len(1 << 40).unwrap();
    assert!(matches!(storage.read(), Err(StorageError::NotReadable { max: DEFAULT_MAX_BYTES })));
    fs::remove_file(storage.path()).unwrap();
    fs::create_dir(storage.path()).unwrap();
    assert!(matches!(storage.read(), Err(StorageError::NotReadable { .. })));
}

/// A device that is always full can neither be truncated nor removed from its folder.
#[cfg(target_os = "linux")]
#[test]
fn file_that_cannot_be_removed_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = storage(folder.path(), u64::MAX);
    fs::create_dir(storage.path()).unwrap();
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    storage.journal = Some(Journal { file: full, len: 0 });
    let error = storage.append(&told("a")).unwrap_err().to_string();
    assert!(error.contains("can miss deletions"), "{error}");
    assert!(storage.journal.is_none());
}

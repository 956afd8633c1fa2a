//! Tests the file of a snapshot, also on a full disk.

use std::{
    fs::{self, File},
    time::{Duration, SystemTime},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_object::{DecodeContext, Delta, Listed, TypeMeta};
use kube_store::Store;

use super::*;
use crate::ClusterId;

fn context() -> DecodeContext {
    DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "ConfigMap".into() })
}

fn identity(transform_version: &str) -> Identity {
    let texts = ["cluster", "/api/v1/configmaps", "", "ConfigMap", transform_version].map(str::to_owned);
    Identity::from_texts(texts.into()).unwrap()
}

fn header(version: u64) -> Header {
    let saved_at = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
    Header { identity: identity("1"), seed: None, version: version.into(), saved_at, complete: true }
}

fn cache(objects: usize) -> Snapshot<ConfigMap> {
    let store = Store::new();
    let object = |at: usize| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("{at:05}"));
        object.metadata.resource_version = Some("7".to_owned());
        Listed::Object(Entry::from_object(object))
    };
    let page = (0..objects).rev().map(object).collect();
    store.apply(vec![
        Delta::Begin { without_reuse: false },
        Delta::Page(page),
        Delta::End { version: 7.into(), complete: true },
    ]);
    store.snapshot()
}

fn storage(folder: &Path, max_bytes: u64) -> Storage {
    let file = SnapshotFile::in_folder(folder, ClusterId::from_url("x")).max_file_bytes(max_bytes);
    Storage::lock(&file, &identity("1")).unwrap()
}

fn write(storage: &Storage, version: u64, objects: usize) -> Result<(), io::Error> {
    storage.write(&header(version), &cache(objects), &AtomicBool::new(false))
}

/// Returns the version and the number of objects of the file.
fn contents(storage: &Storage) -> Option<(String, usize)> {
    let file = storage.open(&identity("1")).unwrap()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let loaded = runtime.block_on(file.load::<ConfigMap>(&context().kind)).unwrap();
    Some((loaded.header.version.to_string(), loaded.entries.len()))
}

#[test]
fn file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("new/folder");
    let storage = storage(&folder, u64::MAX);
    assert_eq!(contents(&storage), None);
    write(&storage, 1, 2).unwrap();
    assert_eq!(contents(&storage), Some(("1".to_owned(), 2)));
    write(&storage, 2, 3000).unwrap();
    assert_eq!(contents(&storage), Some(("2".to_owned(), 3000)));
    storage.discard().unwrap();
    assert_eq!(contents(&storage), None);
    storage.discard().unwrap();
}

#[cfg(unix)]
#[test]
fn only_owner_can_read_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), u64::MAX);
    // A file of an earlier crash, which each account can read.
    fs::write(storage.files.temporary(), "x").unwrap();
    write(&storage, 1, 1).unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

#[test]
fn lock_has_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let file = SnapshotFile::in_folder(folder.path(), ClusterId::from_url("x"));
    let first = Storage::lock(&file, &identity("1")).unwrap();
    assert!(matches!(Storage::lock(&file, &identity("2")), Err(StorageError::Locked)));
    drop(first);
    assert!(Storage::lock(&file, &identity("1")).is_ok());
}

#[test]
fn full_disk_at_any_byte_keeps_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = storage(folder.path(), u64::MAX);
    write(&storage, 2, 3).unwrap();
    let len = fs::metadata(storage.path()).unwrap().len();
    write(&storage, 1, 2).unwrap();
    for byte in 0..len {
        storage.max_bytes = byte;
        assert_eq!(write(&storage, 2, 3).unwrap_err().kind(), io::ErrorKind::StorageFull, "byte {byte}");
        assert_eq!(contents(&storage), Some(("1".to_owned(), 2)), "byte {byte}");
        assert!(!storage.files.temporary().exists());
    }
    storage.max_bytes = len;
    write(&storage, 2, 3).unwrap();
    assert_eq!(contents(&storage), Some(("2".to_owned(), 3)));
}

#[test]
fn cancelled_write_keeps_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), u64::MAX);
    write(&storage, 1, 2).unwrap();
    let error = storage.write(&header(2), &cache(3), &AtomicBool::new(true)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(contents(&storage), Some(("1".to_owned(), 2)));
    assert!(!storage.files.temporary().exists());
}

#[test]
fn file_of_another_identity_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), u64::MAX);
    write(&storage, 1, 2).unwrap();
    let reason = storage.open(&identity("2")).err().unwrap();
    assert_eq!(reason, "the saved transform version differs: 1");
}

#[test]
fn file_that_cannot_be_snapshot_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = storage(folder.path(), 1000);
    let file = File::create(storage.path()).unwrap();
    file.set_len(DEFAULT_MAX_BYTES + 1).unwrap();
    let reason = |storage: &Storage| storage.open(&identity("1")).err().unwrap();
    assert!(reason(&storage).contains("not a regular file"), "{}", reason(&storage));
    fs::remove_file(storage.path()).unwrap();
    fs::create_dir(storage.path()).unwrap();
    assert!(reason(&storage).contains("not a regular file"));
}

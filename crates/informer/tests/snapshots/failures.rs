//! Tests that a file that cannot be used or written neither stops an informer nor makes its cache wrong.

use std::fs;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{ClusterId, SnapshotFile};

use crate::{
    life::{Life, World, on_server, put},
    logged::Logged,
};

#[test]
fn file_of_other_cluster_or_transform_is_not_used() {
    let world = World::with_snapshot(2);
    let other = SnapshotFile::in_folder(world.folder.path(), ClusterId::from_url("https://other"));
    world.assert_cold(&other, "saved cluster differs");
    assert_eq!(world.restore(&other).names().len(), 2, "the file was replaced");
    world.assert_cold(&other.transform_version("2"), "saved transform version differs");
    world.assert_cold(&world.file(), "saved cluster differs");
}

#[test]
fn file_of_other_path_or_managed_fields_is_not_used() {
    let world = World::with_snapshot(2);
    let bytes = fs::read(world.path()).unwrap();
    let other = World::with_objects(0);
    let kept = || world.builder().keep_managed_fields().build();
    Life::restore(kept, &other.file(), &world.calls).stop();
    let life = Life::restore(kept, &other.file(), &world.calls);
    life.start();
    life.settle();
    life.stop();
    fs::write(other.path(), &bytes).unwrap();
    let logged = Logged::begin();
    let life = Life::restore(kept, &other.file(), &world.calls);
    assert_eq!(life.restored, None);
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("saved representation differs"), "{log}");
}

#[test]
fn damaged_file_is_not_used() {
    let world = World::with_snapshot(2);
    let file = fs::read(world.path()).unwrap();
    for (bytes, reason) in [
        (file[..file.len() / 2].to_vec(), "truncated"),
        (Vec::new(), "truncated"),
        (b"{}".repeat(20), "not a snapshot"),
        ([&file[..40], &[file[40] ^ 1], &file[41..]].concat(), "damaged"),
        (
            [&file[..8], &[2, 0, 0, 0], &file[12..]].concat(),
            "format has version 2, and this program reads version 1",
        ),
        ([&file[..8], &[0, 0, 0, 0], &file[12..]].concat(), "format has version 0"),
        ([file.as_slice(), b"x"].concat(), "bytes follow the footer"),
    ] {
        fs::write(world.path(), bytes).unwrap();
        world.assert_cold(&world.file(), reason);
    }
}

/// The cache does not contain an object that could never be decoded. A later version of the program may
/// decode it, so the watch must not resume.
#[test]
fn start_after_undecodable_objects_lists() {
    let world = World::with_objects(2);
    let broken = |object: &mut ConfigMap| match object.metadata.name.as_deref() {
        Some("o01") => Err("this version cannot decode the object"),
        _ => Ok(()),
    };
    let life = Life::restore(|| world.builder().transform(broken).build(), &world.file(), &world.calls);
    life.start();
    life.settle();
    assert_eq!(life.names(), ["o00"]);
    life.stop();
    let life = world.start();
    assert_eq!(life.restored.as_ref().map(|restored| restored.objects), Some(1));
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

/// Each start has no contents, or exactly the contents of the file.
#[test]
fn truncated_or_changed_file_is_never_wrong() {
    let world = World::with_snapshot(2);
    let (path, file, expected) = (world.path(), fs::read(world.path()).unwrap(), on_server(&world.server));
    let mut usable = 0;
    let mut restore = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let life = world.restore(&world.file());
        match &life.restored {
            None => assert!(life.names().is_empty(), "{what}"),
            Some(_) => assert_eq!(life.values(), expected, "{what}"),
        }
        usable += usize::from(life.restored.is_some());
    };
    for len in 0..file.len() {
        restore(&file[..len], &format!("{len} bytes"));
    }
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        restore(&changed, &format!("byte {at}"));
    }
    assert_eq!(usable, 0, "each change makes the file unusable");
}

#[test]
fn full_disk_keeps_old_file_and_is_logged_once() {
    let world = World::with_snapshot(2);
    put(&world.server, "o00", "second");
    let logged = Logged::begin();
    let life = world.start_with(&world.file().max_file_bytes(20));
    life.sleep(std::time::Duration::from_secs(3000));
    life.stop();
    let log = logged.text_of(|name| name == "kube_informer");
    assert_eq!(log.matches("snapshot is not written").count(), 1, "{log}");
    let life = world.start();
    assert_eq!(life.restored.as_ref().map(|restored| restored.objects), Some(2));
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

#[test]
fn file_in_place_of_folder_does_not_stop_informer() {
    let world = World::with_objects(2);
    let path = world.folder.path().join("file");
    fs::write(&path, "").unwrap();
    let file = SnapshotFile::in_folder(&path, ClusterId::from_url("https://test"));
    let logged = Logged::begin();
    let life = world.start_with(&file);
    assert_eq!(life.values(), on_server(&world.server));
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("not used and not written") && log.contains("creating the folder failed"), "{log}");
    life.stop();
}

/// The account of a test can write to each folder. A folder in place of the temporary file fails the write.
#[test]
fn failed_write_does_not_stop_informer() {
    let world = World::with_snapshot(2);
    let temporary = world.path().with_extension("tmp");
    fs::create_dir_all(temporary.join("x")).unwrap();
    let life = world.start();
    put(&world.server, "o00", "second");
    life.settle();
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
    fs::remove_dir_all(temporary).unwrap();
    let life = world.start();
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

/// A handler has locked the file of an earlier process.
#[test]
fn second_process_starts_cold_and_does_not_write() {
    let world = World::with_snapshot(2);
    let first = world.restore(&world.file());
    assert_eq!(first.names().len(), 2);
    let before = fs::read(world.path()).unwrap();
    let logged = Logged::begin();
    let second = world.restore(&world.file());
    assert_eq!(second.restored, None);
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("not used and not written") && log.contains("has locked the file"), "{log}");
    second.start();
    put(&world.server, "o00", "second");
    second.settle();
    assert_eq!(second.values(), on_server(&world.server));
    second.sleep(std::time::Duration::from_secs(1000));
    second.stop();
    assert_eq!(fs::read(world.path()).unwrap(), before);
    first.stop();
    drop(world.start());
}

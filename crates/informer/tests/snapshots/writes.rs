//! Tests when the file is written.

use std::{fs, time::Duration};

use kube_informer::SnapshotFile;
use kube_testserver::{Fault, RequestMatch, Verb};
use serde_json::json;

use crate::life::{Life, World, on_server, put};

/// The longest time between two checks.
const INTERVAL: Duration = Duration::from_secs(361);

#[test]
fn file_is_written_at_intervals_after_enough_changes() {
    let world = World::with_objects(100);
    let life = world.start();
    life.sleep(INTERVAL);
    let first = fs::read(world.path()).unwrap();
    for at in 0..4 {
        put(&world.server, &format!("o{at:02}"), "second");
    }
    life.sleep(3 * INTERVAL);
    assert_eq!(fs::read(world.path()).unwrap(), first, "4 % of the objects have changed");
    put(&world.server, "o04", "second");
    life.sleep(INTERVAL);
    let second = fs::read(world.path()).unwrap();
    assert_ne!(second, first, "5 % of the objects have changed");
    life.sleep(3 * INTERVAL);
    assert_eq!(fs::read(world.path()).unwrap(), second, "no object has changed since");
    life.crash();
    let life = world.restore(&world.file());
    assert_eq!(life.values(), on_server(&world.server));
}

/// Restored objects are not changes.
#[test]
fn restored_cache_is_not_written_again() {
    let world = World::with_snapshot(10);
    let before = fs::read(world.path()).unwrap();
    for file in [world.file(), world.file().resume_within(Duration::ZERO)] {
        let life = world.start_with(&file);
        life.sleep(3 * INTERVAL);
        assert_eq!(fs::read(world.path()).unwrap(), before);
        life.crash();
    }
}

/// A write to another type increases the version. The informer receives it with a bookmark.
#[test]
fn stop_writes_file_with_later_version() {
    let world = World::with_snapshot(2);
    let life = world.start();
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}});
    world.server.create(&secret).unwrap();
    let version = world.server.resource_version();
    life.sleep(Duration::from_secs(120));
    life.stop();
    world.requests();
    world.run();
    assert_eq!(world.requests()[1], format!("watch resourceVersion={version}"));
}

#[test]
fn any_interval_is_allowed() {
    for interval in [Duration::ZERO, Duration::MAX] {
        let world = World::with_objects(1);
        let file: SnapshotFile = world.file().interval(interval);
        world.start_with(&file).stop();
        assert_eq!(world.restore(&file).names().len(), 1);
    }
}

/// The state of an object whose latest version could not be decoded is unknown. A list reads it.
#[test]
fn stale_object_is_not_written() {
    let world = World::with_snapshot(3);
    let rejecting = || {
        world.builder().transform(|object| {
            match object.data.as_ref().is_some_and(|data| data["v"] == "bad") {
                true => Err("not readable"),
                false => Ok(()),
            }
        })
    };
    let start = || {
        let life = Life::restore(|| rejecting().build(), &world.file(), &world.calls);
        life.start();
        life.settle();
        life
    };
    let life = start();
    put(&world.server, "o01", "bad");
    life.settle();
    assert_eq!((life.names().len(), life.informer.status().stale), (3, 1));
    life.stop();
    world.requests();
    world.take_calls();
    let life = start();
    assert_eq!(life.restored.as_ref().map(|restored| restored.objects), Some(2));
    assert_eq!(world.requests()[1], "list limit=500");
    put(&world.server, "o01", "good");
    life.settle();
    assert_eq!(life.values(), on_server(&world.server));
    assert_eq!(world.take_calls(), ["add o00", "add o02", "later add o01"]);
    life.stop();
}

/// The first list is not complete, so no file is written.
#[test]
fn cache_that_is_not_synced_is_not_written() {
    let world = World::with_objects(2);
    let _guard = world.server.faults().always(RequestMatch::verb(Verb::List), Fault::internal_error("x"));
    let life = world.restore(&world.file());
    life.start();
    life.sleep(3 * INTERVAL);
    life.stop();
    let files: Vec<_> = fs::read_dir(world.folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "only the lock file: {files:?}");
}

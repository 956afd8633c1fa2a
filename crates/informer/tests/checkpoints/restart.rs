//! Tests that the handler receives exactly the changes of the time without a process.

use std::time::Duration;

use kube_client::{Api, Client};
use kube_informer::{Informer, ListWatch};
use kube_testserver::Server;
use tempfile::TempDir;

use crate::life::{Life, Recorder, builder, checkpoint, delete, put};

/// A server and a folder that survive the lives of a process.
struct World {
    server: Server,
    folder: TempDir,
    recorder: Recorder,
}

impl World {
    fn with_objects(count: usize) -> Self {
        let world =
            Self { server: Server::new(), folder: TempDir::new().unwrap(), recorder: Recorder::default() };
        for at in 0..count {
            put(&world.server, &format!("o{at:02}"), "first");
        }
        world
    }

    fn start(&self) -> Life {
        Life::start(|| builder(&self.server).build(), &checkpoint(self.folder.path()), self.recorder.clone())
    }

    fn calls(&self) -> Vec<String> {
        self.recorder.calls.take()
    }

    /// Runs a process until it has handled everything, and stops it.
    fn run(&self) -> Vec<String> {
        self.start().stop();
        self.calls()
    }
}

#[test]
fn restart_delivers_only_changes() {
    let world = World::with_objects(50);
    let first = world.run();
    assert_eq!(first.len(), 51, "{first:?}");
    assert_eq!((first[0].as_str(), first[50].as_str()), ("add o00", "cold start "));

    for name in ["o01", "o02", "o03", "o04", "o05", "o06", "o07"] {
        put(&world.server, name, "second");
    }
    for name in ["o10", "o11", "o12"] {
        delete(&world.server, name);
    }
    delete(&world.server, "o20");
    put(&world.server, "o20", "first");
    put(&world.server, "new", "first");
    let expected = [
        "add new",
        "add o20",
        "missed delete o10",
        "missed delete o11",
        "missed delete o12",
        "missed delete o20",
        "missed update o01",
        "missed update o02",
        "missed update o03",
        "missed update o04",
        "missed update o05",
        "missed update o06",
        "missed update o07",
    ];
    assert_eq!(world.run(), expected);
    assert!(world.run().is_empty(), "the objects are unchanged");
}

#[test]
fn live_changes_after_restart_are_usual_events() {
    let world = World::with_objects(3);
    world.run();
    let life = world.start();
    assert!(world.calls().is_empty());
    put(&world.server, "o00", "second");
    delete(&world.server, "o01");
    put(&world.server, "new", "first");
    life.settle();
    assert_eq!(world.calls(), ["delete o01", "later add new", "update o00"]);
    life.stop();
    assert!(world.run().is_empty());
}

#[test]
fn crash_before_first_write_repeats_adds_and_reports_deletions() {
    let world = World::with_objects(3);
    let life = world.start();
    put(&world.server, "later", "first");
    life.settle();
    life.crash();
    assert_eq!(world.calls().len(), 5);
    delete(&world.server, "o01");
    delete(&world.server, "later");
    assert_eq!(world.run(), ["add o00", "add o02", "missed delete later", "missed delete o01"]);
}

#[test]
fn checkpoint_is_written_at_intervals() {
    let world = World::with_objects(3);
    let life = world.start();
    world.calls();
    life.runtime.block_on(async { tokio::time::sleep(Duration::from_secs(400)).await });
    put(&world.server, "o00", "second");
    life.settle();
    life.crash();
    assert_eq!(world.calls(), ["update o00"]);
    assert_eq!(world.start_and_crash(), ["missed update o00"], "only the last update is repeated");
    assert_eq!(world.run(), ["missed update o00"]);
}

impl World {
    fn start_and_crash(&self) -> Vec<String> {
        self.start().crash();
        self.calls()
    }
}

#[test]
fn call_that_panicked_is_repeated() {
    let world = World::with_objects(4);
    let panics = |names: &[&str]| {
        *world.recorder.panics_for.lock() = names.iter().map(|name| (*name).to_owned()).collect();
    };
    panics(&["o01"]);
    assert_eq!(world.run().len(), 5);
    assert_eq!(world.run(), ["add o01"]);
    panics(&["o02", "o03"]);
    assert_eq!(world.run(), ["add o01"]);
    let life = world.start();
    put(&world.server, "o02", "second");
    delete(&world.server, "o03");
    life.settle();
    life.stop();
    assert_eq!(world.calls(), ["delete o03", "update o02"]);
    assert_eq!(world.run(), ["missed delete o03", "missed update o02"]);
    panics(&[]);
    assert_eq!(world.run(), ["missed delete o03", "missed update o02"]);
    assert!(world.run().is_empty());
}

#[test]
fn cold_start_is_repeated_until_its_call_returns() {
    let world = World::with_objects(1);
    *world.recorder.panics_for.lock() = vec![String::new()];
    assert_eq!(world.run(), ["add o00", "cold start "]);
    assert_eq!(world.run(), ["add o00", "cold start "]);
    world.recorder.panics_for.lock().clear();
    assert_eq!(world.run(), ["add o00", "cold start "]);
    assert!(world.run().is_empty());
}

/// An object that exists but cannot be decoded is not in the cache.
#[test]
fn undecodable_object_is_not_reported_as_deleted() {
    let world = World::with_objects(3);
    world.run();
    delete(&world.server, "o02");
    let undecodable = || {
        builder(&world.server)
            .transform(|object| {
                if object.metadata.name.as_deref() == Some("o01") { Err("not readable") } else { Ok(()) }
            })
            .build()
    };
    let life = Life::start(undecodable, &checkpoint(world.folder.path()), world.recorder.clone());
    life.stop();
    assert_eq!(world.calls(), ["missed delete o02"]);
    assert!(world.run().is_empty(), "the object is unchanged");
    let life = world.start();
    delete(&world.server, "o01");
    life.settle();
    life.stop();
    assert_eq!(world.calls(), ["delete o01"]);
}

#[test]
fn empty_list_reports_all_deletions() {
    let world = World::with_objects(2);
    world.run();
    delete(&world.server, "o00");
    delete(&world.server, "o01");
    assert_eq!(world.run(), ["missed delete o00", "missed delete o01"]);
    assert!(world.run().is_empty());
}

/// A large list is applied on another thread.
#[test]
fn large_list_is_compared() {
    let world = World::with_objects(0);
    for at in 0..8500 {
        put(&world.server, &format!("o{at}"), "first");
    }
    assert_eq!(world.run().len(), 8501);
    put(&world.server, "o77", "second");
    delete(&world.server, "o8000");
    assert_eq!(world.run(), ["missed delete o8000", "missed update o77"]);
    let bytes = std::fs::read_dir(world.folder.path()).unwrap();
    let bytes: u64 = bytes.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 8500 * 50, "{bytes} bytes for 8,500 objects");
}

#[test]
fn informer_with_other_selection_has_its_own_checkpoint() {
    let world = World::with_objects(2);
    world.run();
    let selection = || {
        let api = Api::namespaced(Client::new(world.server.service(), "default"), "default");
        Informer::from_source(ListWatch::new(api).fields("metadata.name=o00")).build()
    };
    Life::start(selection, &checkpoint(world.folder.path()), world.recorder.clone()).stop();
    assert_eq!(world.calls(), ["add o00", "cold start "]);
    assert!(world.run().is_empty());
}

#[test]
fn any_interval_is_allowed() {
    for interval in [Duration::ZERO, Duration::MAX] {
        let world = World::with_objects(1);
        let checkpoint = checkpoint(world.folder.path()).interval(interval);
        Life::start(|| builder(&world.server).build(), &checkpoint, world.recorder.clone()).stop();
        assert_eq!(world.calls(), ["add o00", "cold start "]);
        assert!(world.run().is_empty());
    }
}

//! Tests a first list that cannot prove deletions, because an item has no name.

use std::time::Duration;

use kube_informer::ReflectorOptions;
use kube_testserver::{Fault, FaultGuard, RequestMatch, Server, Verb};
use serde_json::json;
use tempfile::TempDir;

use crate::life::{Life, Recorder, builder, checkpoint, delete, put};

struct World {
    server: Server,
    folder: TempDir,
    recorder: Recorder,
}

impl World {
    /// Creates a checkpoint of `o0` and `o1`. Then a process replaces `o1` and crashes. The file therefore
    /// contains both objects with the name `o1`.
    fn with_replaced_object() -> Self {
        let world =
            Self { server: Server::new(), folder: TempDir::new().unwrap(), recorder: Recorder::default() };
        put(&world.server, "o0", "first");
        put(&world.server, "o1", "first");
        world.begin().settled().stop();
        let life = world.begin().settled();
        delete(&world.server, "o1");
        put(&world.server, "o1", "second");
        life.settled().crash();
        assert_eq!(world.recorder.calls.take().len(), 5);
        world
    }

    fn begin(&self) -> Life {
        let options = ReflectorOptions { streaming_lists: false, ..ReflectorOptions::default() };
        let informer = || builder(&self.server).reflector_options(options).build();
        Life::begin(informer, &checkpoint(self.folder.path()), self.recorder.clone())
    }

    /// Until the guard is dropped, each list contains only `o1` and an item without a name.
    fn incomplete_lists(&self) -> FaultGuard {
        let o1 = self.server.get_untyped("v1", "ConfigMap", Some("default"), "o1").unwrap();
        let items = [o1, json!({"metadata": {"namespace": "default"}})];
        let metadata = json!({"resourceVersion": self.server.resource_version().to_string()});
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
        let lists = RequestMatch::verb(Verb::List).resource("configmaps");
        self.server.faults().always(lists, Fault::json(list.to_string()))
    }
}

impl Life {
    fn settled(self) -> Self {
        self.settle();
        self
    }
}

fn wait(life: &Life) {
    life.runtime.block_on(async { tokio::time::sleep(Duration::from_secs(2)).await });
}

/// A checkpoint of this stop would no longer contain the deleted object.
#[test]
fn stop_before_complete_list_keeps_missed_deletion() {
    let world = World::with_replaced_object();
    let incomplete = world.incomplete_lists();
    let life = world.begin();
    wait(&life);
    life.stop();
    assert_eq!(world.recorder.calls.take(), ["add o1"]);
    drop(incomplete);
    world.begin().settled().stop();
    assert_eq!(world.recorder.calls.take(), ["add o1", "missed delete o1"]);
    world.begin().settled().stop();
    assert!(world.recorder.calls.take().is_empty());
}

#[test]
fn deletions_are_reported_after_complete_list() {
    let world = World::with_replaced_object();
    delete(&world.server, "o0");
    let incomplete = world.incomplete_lists();
    let life = world.begin();
    wait(&life);
    assert_eq!(world.recorder.calls.take(), ["add o1"]);
    drop(incomplete);
    life.settled().stop();
    // The lists have another order of fields, so the digest of `o1` differs.
    assert_eq!(world.recorder.calls.take(), ["missed delete o0", "missed delete o1", "update o1"]);
    world.begin().settled().stop();
    assert!(world.recorder.calls.take().is_empty());
}

//! Tests that a file that cannot be used or written neither stops a handler nor hides a change.

use std::{fs, path::PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client};
use kube_informer::{Checkpoint, CheckpointError, ClusterId, Informer, ShardKey, SlotCount};
use kube_testserver::Server;
use tempfile::TempDir;

use crate::{
    life::{Life, Recorder, builder, checkpoint, delete, put},
    logged::Logged,
};

const COLD: [&str; 3] = ["add o0", "add o1", "cold start "];

struct World {
    server: Server,
    folder: TempDir,
    recorder: Recorder,
}

impl World {
    /// Creates two objects, and a checkpoint that contains both.
    fn with_checkpoint() -> Self {
        let world = Self::without_checkpoint();
        assert_eq!(world.run(&world.checkpoint()), COLD);
        assert!(world.run(&world.checkpoint()).is_empty());
        world
    }

    fn without_checkpoint() -> Self {
        let world =
            Self { server: Server::new(), folder: TempDir::new().unwrap(), recorder: Recorder::default() };
        put(&world.server, "o0", "first");
        put(&world.server, "o1", "first");
        world
    }

    fn checkpoint(&self) -> Checkpoint {
        checkpoint(self.folder.path())
    }

    fn start(&self, checkpoint: &Checkpoint) -> Life {
        Life::start(|| builder(&self.server).build(), checkpoint, self.recorder.clone())
    }

    fn run(&self, checkpoint: &Checkpoint) -> Vec<String> {
        self.start(checkpoint).stop();
        self.recorder.calls.take()
    }

    fn file(&self) -> PathBuf {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.extension().unwrap() == "checkpoint").collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    /// Asserts that the next start is cold and logs this reason, and that the start after it is not cold.
    fn assert_cold_once(&self, checkpoint: &Checkpoint, reason: &str) {
        let logged = Logged::begin();
        assert_eq!(self.run(checkpoint), COLD, "{reason}");
        let log = logged.text_of(|name| name == "kube_informer");
        assert!(log.contains("the handler starts cold") && log.contains(reason), "{reason}: {log}");
        assert!(self.run(checkpoint).is_empty(), "{reason}");
    }
}

#[test]
fn checkpoint_of_other_cluster_or_program_is_not_used() {
    let world = World::with_checkpoint();
    let other = Checkpoint::in_folder(world.folder.path(), ClusterId::from_url("https://other"));
    world.assert_cold_once(&other, "saved cluster differs");
    let other = other.handler_version("2");
    world.assert_cold_once(&other, "saved handler version differs");
}

/// The cold start of version 2 did not finish. Version 1 must not continue with its old file.
#[test]
fn discarded_checkpoint_is_never_used_again() {
    let world = World::with_checkpoint();
    *world.recorder.panics_for.lock() = vec![String::new()];
    assert_eq!(world.run(&world.checkpoint().handler_version("2")), COLD);
    world.recorder.panics_for.lock().clear();
    assert_eq!(world.run(&world.checkpoint()), COLD);
}

#[test]
fn checkpoint_of_other_resource_or_handler_is_not_used() {
    let world = World::with_checkpoint();
    let other = World::without_checkpoint();
    let all = || {
        let api = Api::all(Client::new(other.server.service(), "default"));
        Informer::<ConfigMap>::builder(api).build()
    };
    Life::start(all, &other.checkpoint(), other.recorder.clone()).stop();
    fs::copy(world.file(), other.file()).unwrap();
    other.recorder.calls.take();
    let logged = Logged::begin();
    Life::start(all, &other.checkpoint(), other.recorder.clone()).stop();
    assert_eq!(other.recorder.calls.take(), COLD);
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("saved path differs: /api/v1/namespaces/default/configmaps"), "{log}");
}

#[test]
fn damaged_file_is_not_used() {
    let world = World::with_checkpoint();
    let file = fs::read(world.file()).unwrap();
    for (bytes, reason) in [
        (file[..file.len() / 2].to_vec(), "truncated"),
        (Vec::new(), "truncated"),
        (b"{}".repeat(20), "not a checkpoint"),
        ([&file[..40], &[file[40] ^ 1], &file[41..]].concat(), "damaged"),
        ([&file[..8], &[9, 0, 0, 0], &file[12..]].concat(), "format has version 9"),
    ] {
        fs::write(world.file(), bytes).unwrap();
        world.assert_cold_once(&world.checkpoint(), reason);
    }
}

/// A restored server keeps the uid of kube-system.
/// An upgrade finds a file of an older version, and a downgrade finds a file of a newer version.
#[test]
fn checkpoint_of_other_version_is_not_used_and_replaced() {
    let world = World::with_checkpoint();
    for version in [0_u32, 2] {
        let mut bytes = fs::read(world.file()).unwrap();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        fs::write(world.file(), bytes).unwrap();
        let reason = format!("its format has version {version}, and this program reads version 1");
        world.assert_cold_once(&world.checkpoint(), &reason);
    }
}

#[test]
fn checkpoint_of_later_state_than_server_is_not_used() {
    let world = World::with_checkpoint();
    let version = world.server.resource_version();
    put(&world.server, "o0", "second");
    delete(&world.server, "o1");
    assert_eq!(world.run(&world.checkpoint()), ["missed delete o1", "missed update o0"]);
    world.server.restore(version).unwrap();
    world.assert_cold_once(&world.checkpoint(), "lower resourceVersion");
}

/// The versions of the new history are as high as the versions of the lost history.
#[test]
fn other_state_with_equal_version_is_changed() {
    let world = World::with_checkpoint();
    let version = world.server.resource_version();
    put(&world.server, "o0", "lost");
    assert_eq!(world.run(&world.checkpoint()), ["missed update o0"]);
    let lost = world.server.get_untyped("v1", "ConfigMap", Some("default"), "o0").unwrap();
    world.server.restore(version).unwrap();
    put(&world.server, "o0", "new!");
    let new = world.server.get_untyped("v1", "ConfigMap", Some("default"), "o0").unwrap();
    assert_eq!(new["metadata"]["resourceVersion"], lost["metadata"]["resourceVersion"]);
    assert_eq!(new["metadata"]["uid"], lost["metadata"]["uid"]);
    assert_eq!(world.run(&world.checkpoint()), ["missed update o0"]);
    assert!(world.run(&world.checkpoint()).is_empty());
}

#[test]
fn full_disk_stops_no_handler() {
    let world = World::without_checkpoint();
    let logged = Logged::begin();
    for bytes in [0, 100, 300] {
        let full = world.checkpoint().max_file_bytes(bytes);
        assert_eq!(world.run(&full), COLD, "{bytes} bytes");
    }
    assert!(logged.text().contains("checkpoint was not written"), "{}", logged.text());
    assert_eq!(world.run(&world.checkpoint()).last().map(String::as_str), Some("cold start "));
    assert!(world.run(&world.checkpoint()).is_empty(), "the disk has space again");
}

/// The journal does not contain the calls. A later process must not regard the handler as not called.
#[test]
fn full_disk_makes_next_start_cold() {
    for name in ["o0", "new"] {
        let world = World::with_checkpoint();
        put(&world.server, name, "second");
        let len = fs::metadata(world.file()).unwrap().len();
        assert_eq!(world.run(&world.checkpoint().max_file_bytes(len - 1)).len(), 1);
        if name == "new" {
            delete(&world.server, "new");
        }
        assert_eq!(world.run(&world.checkpoint()), COLD);
        assert!(world.run(&world.checkpoint()).is_empty());
    }
}

/// A restored server has the state that the checkpoint contains, but the handler has received a later state.
#[test]
fn state_after_last_write_is_repeated() {
    let world = World::with_checkpoint();
    let version = world.server.resource_version();
    let life = world.start(&world.checkpoint());
    put(&world.server, "o0", "lost");
    delete(&world.server, "o1");
    life.settle();
    life.crash();
    assert_eq!(world.recorder.calls.take(), ["delete o1", "update o0"]);
    world.server.restore(version).unwrap();
    assert_eq!(world.run(&world.checkpoint()), ["missed update o0", "missed update o1"]);
    assert!(world.run(&world.checkpoint()).is_empty());
}

#[cfg(unix)]
#[test]
fn unwritable_folder_stops_no_handler() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::with_checkpoint();
    let logged = Logged::begin();
    let not_a_folder = world.folder.path().join("file");
    fs::write(&not_a_folder, "").unwrap();
    assert_eq!(world.run(&checkpoint(&not_a_folder)), COLD);
    assert!(logged.text().contains("checkpoint is not used and not written"), "{}", logged.text());
    fs::remove_file(not_a_folder).unwrap();

    let read_only = world.folder.path().join("read-only");
    fs::create_dir(&read_only).unwrap();
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(world.run(&checkpoint(&read_only)), COLD);
    // The account root ignores the permissions.
    if fs::read_dir(&read_only).unwrap().next().is_none() {
        assert_eq!(world.run(&checkpoint(&read_only)), COLD);
    }
}

#[test]
fn second_process_starts_cold_and_does_not_write() {
    let world = World::with_checkpoint();
    let first = world.start(&world.checkpoint());
    assert!(world.recorder.calls.take().is_empty());
    let before = fs::read(world.file()).unwrap();
    let logged = Logged::begin();
    assert_eq!(world.run(&world.checkpoint()), COLD);
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("not used and not written") && log.contains("another process"), "{log}");
    assert_eq!(fs::read(world.file()).unwrap(), before);
    put(&world.server, "o0", "second");
    first.settle();
    first.stop();
    assert_eq!(world.recorder.calls.take(), ["update o0"]);
    assert!(world.run(&world.checkpoint()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn misuse_is_an_error() {
    let world = World::without_checkpoint();
    let client = Client::new(world.server.service(), "default");
    let secrets = Informer::<Secret>::builder(Api::all(client)).build();
    let refused = secrets.add_handler_with_checkpoint("audit", &world.checkpoint(), NoSecrets);
    assert_eq!(refused.unwrap_err(), CheckpointError::Secrets { name: "audit".to_owned() });
    let informer = builder(&world.server).build();
    let refused = informer.add_handler_with_checkpoint("a/b", &world.checkpoint(), world.recorder.clone());
    assert_eq!(refused.unwrap_err(), CheckpointError::Name { name: "a/b".to_owned() });
    let sharded = builder(&world.server).sharded(ShardKey::Uid, SlotCount::default()).build();
    let refused = sharded.add_handler_with_checkpoint("audit", &world.checkpoint(), world.recorder.clone());
    assert_eq!(refused.unwrap_err(), CheckpointError::Sharded { name: "audit".to_owned() });
    informer.start();
    let refused = informer.add_handler_with_checkpoint("audit", &world.checkpoint(), world.recorder.clone());
    assert_eq!(refused.unwrap_err(), CheckpointError::AlreadyStarted { name: "audit".to_owned() });
    informer.stop().await;
}

struct NoSecrets;

impl kube_informer::EventHandler<Secret> for NoSecrets {}

impl kube_informer::CheckpointHandler<Secret> for NoSecrets {
    fn on_missed_update(&mut self, _: &kube_informer::ObjectId, _: &kube_informer::Entry<Secret>) {}
    fn on_missed_delete(&mut self, _: &kube_informer::ObjectId) {}
}

#[tokio::test]
async fn cluster_is_identified_by_uid_of_kube_system() {
    let server = Server::new();
    let id = ClusterId::read(&Client::new(server.service(), "default")).await.unwrap();
    let namespace = server.get_untyped("v1", "Namespace", None, "kube-system").unwrap();
    assert_eq!(id.to_string(), format!("uid {}", namespace["metadata"]["uid"].as_str().unwrap()));
}

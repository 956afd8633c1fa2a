//! Tests several handlers of one informer, and handlers that are removed.

use std::{fs, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Checkpoint, HandlerRegistration, Informer};
use kube_testserver::Server;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::life::{Life, Recorder, builder, checkpoint, delete, put};

struct World {
    server: Server,
    folder: TempDir,
    audit: Recorder,
    mirror: Recorder,
}

impl World {
    fn new() -> Self {
        let recorder = Recorder::default;
        let world = Self {
            server: Server::new(),
            folder: TempDir::new().unwrap(),
            audit: recorder(),
            mirror: recorder(),
        };
        put(&world.server, "o0", "first");
        put(&world.server, "o1", "first");
        world
    }

    fn checkpoint(&self) -> Checkpoint {
        checkpoint(self.folder.path())
    }

    /// Runs a process with both handlers. Returns their calls.
    fn run(&self) -> [Vec<String>; 2] {
        let informer = || {
            let informer = builder(&self.server).build();
            let mirror = self.mirror.clone();
            informer.add_handler_with_checkpoint("mirror", &self.checkpoint(), mirror).unwrap().detach();
            informer
        };
        Life::start(informer, &self.checkpoint(), self.audit.clone()).stop();
        [self.audit.calls.take(), self.mirror.calls.take()]
    }

    /// Runs a process with one of the handlers. Returns its calls.
    fn run_audit(&self) -> Vec<String> {
        Life::start(|| builder(&self.server).build(), &self.checkpoint(), self.audit.clone()).stop();
        self.audit.calls.take()
    }

    fn remove_file(&self, handler: &str) {
        for file in fs::read_dir(self.folder.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            if name.starts_with(handler) && name.ends_with(".checkpoint") {
                fs::remove_file(file.path()).unwrap();
            }
        }
    }
}

const COLD: [&str; 3] = ["add o0", "add o1", "cold start "];

#[test]
fn each_handler_has_its_own_checkpoint() {
    let world = World::new();
    assert_eq!(world.run(), [COLD, COLD]);
    *world.audit.panics_for.lock() = vec!["o0".to_owned()];
    put(&world.server, "o0", "second");
    delete(&world.server, "o1");
    let calls = ["missed delete o1", "missed update o0"];
    assert_eq!(world.run(), [calls, calls]);
    assert_eq!(world.run(), [vec!["missed update o0"], vec![]], "only the call of one handler panicked");
    world.audit.panics_for.lock().clear();
    world.run();
    assert_eq!(world.run(), [Vec::<String>::new(), Vec::new()]);
}

/// The digests of an informer have one seed. The handler that is registered first determines it.
#[test]
fn lost_file_of_one_handler_hides_no_change_of_other() {
    for (lost, expected) in
        [("audit", &["missed delete o1"][..]), ("mirror", &["missed delete o1", "missed update o0"])]
    {
        let world = World::new();
        world.run();
        world.remove_file(lost);
        delete(&world.server, "o1");
        let [audit, mirror] = world.run();
        let (cold, warm) = if lost == "audit" { (audit, mirror) } else { (mirror, audit) };
        assert_eq!(cold, ["add o0", "cold start "], "{lost}");
        assert_eq!(warm, expected, "{lost}");
        assert_eq!(world.run(), [Vec::<String>::new(), Vec::new()], "{lost}");
    }
}

#[test]
fn second_handler_with_same_name_starts_cold_and_does_not_write() {
    let world = World::new();
    let informer = || {
        let informer = builder(&world.server).build();
        let mirror = world.mirror.clone();
        informer.add_handler_with_checkpoint("audit", &world.checkpoint(), mirror).unwrap().detach();
        informer
    };
    for first in [COLD.as_slice(), &[]] {
        Life::start(informer, &world.checkpoint(), world.audit.clone()).stop();
        assert_eq!(world.mirror.calls.take(), first);
        assert_eq!(world.audit.calls.take(), COLD);
    }
}

/// Runs a process that removes its handler. Then `o1` is deleted. Returns the calls of the handler.
fn remove_handler(
    world: &World,
    remove: impl AsyncFnOnce(&Informer<ConfigMap>, HandlerRegistration<ConfigMap>),
) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let informer = builder(&world.server).build();
        let handler = world.audit.clone();
        let registered = informer.add_handler_with_checkpoint("audit", &world.checkpoint(), handler).unwrap();
        remove(&informer, registered).await;
        delete(&world.server, "o1");
        tokio::time::sleep(Duration::from_secs(10)).await;
        informer.stop().await;
    });
    world.audit.calls.take()
}

async fn start(informer: &Informer<ConfigMap>, handler: &HandlerRegistration<ConfigMap>) {
    informer.start();
    assert!(handler.wait_for_sync(Duration::from_secs(60)).await);
}

#[test]
fn removed_handler_writes_its_checkpoint() {
    let world = World::new();
    let removing = async |informer: &Informer<_>, handler: HandlerRegistration<_>| {
        start(informer, &handler).await;
        handler.remove().await;
    };
    assert_eq!(remove_handler(&world, removing), COLD);
    assert_eq!(world.run_audit(), ["missed delete o1"]);
    assert!(world.run_audit().is_empty());
}

#[test]
fn handler_removed_before_first_list_keeps_its_checkpoint() {
    let world = World::new();
    world.run_audit();
    let removing = async |informer: &Informer<_>, handler: HandlerRegistration<_>| {
        informer.start();
        handler.remove().await;
    };
    assert!(remove_handler(&world, removing).is_empty());
    assert_eq!(world.run_audit(), ["missed delete o1"]);
}

#[test]
fn handler_removed_before_start_unlocks_its_checkpoint() {
    let world = World::new();
    world.run_audit();
    let removing = async |informer: &Informer<_>, handler: HandlerRegistration<_>| {
        handler.remove().await;
        let handler = world.mirror.clone();
        let again = informer.add_handler_with_checkpoint("audit", &world.checkpoint(), handler).unwrap();
        start(informer, &again).await;
        assert!(world.mirror.calls.take().is_empty());
        again.detach();
    };
    assert!(remove_handler(&world, removing).is_empty());
    assert_eq!(world.mirror.calls.take(), ["delete o1"]);
    assert!(world.run_audit().is_empty());
}

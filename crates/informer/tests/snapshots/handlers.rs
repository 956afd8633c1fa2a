//! Tests that no handler receives contents that are not verified.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_informer::{
    Checkpoint, CheckpointHandler, ClusterId, Entry, EventHandler, InformerFactory, ObjectId,
    ReflectorOptions, handler_fn,
};
use kube_testserver::{Fault, FaultGuard, RequestMatch, Verb};

use crate::life::{Calls, Life, World, delete, line, on_server, options, put};

/// The server does not respond to any request.
fn unreachable(world: &World) -> FaultGuard {
    world.server.faults().always(RequestMatch::any(), Fault::Hang)
}

#[test]
fn handlers_receive_no_events_before_verification() {
    let world = World::with_snapshot(3);
    let guard = unreachable(&world);
    let informer = || world.builder().default_resync(Duration::from_secs(10)).build();
    let life = Life::restore(informer, &world.file(), &world.calls);
    life.start();
    life.sleep(Duration::from_secs(30));
    let (late, late_calls) = (Calls::default(), Calls::default());
    let _late = {
        let (_entered, calls) = (life.runtime.enter(), Arc::clone(&late));
        life.informer.on_event(move |event| calls.lock().push(line(event)))
    };
    let removed = {
        let (_entered, calls) = (life.runtime.enter(), Arc::clone(&late_calls));
        life.informer.on_event(move |event| calls.lock().push(line(event)))
    };
    life.sleep(Duration::from_secs(60));
    life.runtime.block_on(removed.remove_after_delivery());
    assert!(world.take_calls().is_empty() && late.lock().is_empty() && late_calls.lock().is_empty());
    let status = life.informer.status();
    assert_eq!((status.synced, status.objects, status.restored.is_some()), (false, 3, true));
    assert!(status.handlers.iter().all(|handler| !handler.synced));
    assert!(status.to_string().contains("restored from a snapshot of"), "{status}");
    let waited = life.runtime.block_on(life.informer.wait_for_sync(Duration::from_secs(5)));
    assert!(waited.is_err());
    assert_eq!(life.values(), on_server(&world.server), "reads work");

    drop(guard);
    world.server.faults().clear();
    life.runtime.block_on(life.informer.wait_for_sync(Duration::from_secs(300))).unwrap();
    life.settle();
    let adds = |calls: Vec<String>| calls.iter().filter(|call| call.starts_with("add ")).count();
    assert_eq!((adds(world.take_calls()), adds(late.lock().clone())), (3, 3));
    life.stop();
}

/// The contents of the file are discarded. A handler that has not received them gets no deletes.
#[test]
fn discarded_contents_cause_no_events() {
    let world = World::with_objects(3);
    let version = world.server.resource_version();
    put(&world.server, "lost", "first");
    world.run();
    world.server.restore(version).unwrap();
    delete(&world.server, "o00");
    world.server.restore(version).unwrap();
    let life = world.start();
    assert_eq!(world.take_calls(), ["add o00", "add o01", "add o02"]);
    life.stop();
}

/// The resource does not exist. A cleared cache causes no deletes of objects that no handler knows.
#[test]
fn cleared_contents_cause_no_events() {
    let world = World::with_snapshot(3);
    let options = ReflectorOptions { clear_when_gone: true, ..options() };
    let gone = Fault::status(404, "NotFound", None);
    let guard = world.server.faults().always(RequestMatch::verb(Verb::List), gone);
    let life =
        Life::restore(|| world.builder().reflector_options(options).build(), &world.file(), &world.calls);
    life.start();
    life.sleep(Duration::from_secs(20));
    assert!(life.names().is_empty(), "the cache is cleared");
    assert!(world.take_calls().is_empty());
    drop(guard);
    life.settle();
    assert_eq!(world.take_calls(), ["add o00", "add o01", "add o02"]);
    life.stop();
}

#[test]
fn backpressured_handler_and_stream_receive_initial_adds() {
    let world = World::with_snapshot(3);
    let life = world.restore(&world.file());
    let calls = Calls::default();
    let handler = {
        let calls = Arc::clone(&calls);
        handler_fn(move |event| calls.lock().push(line(event)))
    };
    let registration = life.informer.add_backpressured_handler(handler);
    let mut stream = life.informer.events();
    life.start();
    let events = life.runtime.block_on(async {
        let mut events = Vec::new();
        while events.len() < 3 {
            events.push(line(&stream.next().await.unwrap()));
        }
        events
    });
    drop(stream);
    life.settle();
    assert_eq!((events.len(), calls.lock().len()), (3, 3));
    drop(registration);
    life.stop();
}

#[test]
fn informer_of_a_factory_is_restored() {
    let world = World::with_snapshot(2);
    let life = world.restore(&world.file());
    assert_eq!(life.names().len(), 2);
    drop(life);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(world.server.service(), "default");
        let factory = InformerFactory::new(client).namespace("default");
        let informer = factory.informer::<ConfigMap>().unwrap();
        let restored = informer.restore_snapshot(&world.file()).await.unwrap();
        assert_eq!(restored.map(|restored| restored.objects), Some(2));
        factory.start();
        factory.wait_for_sync(Duration::from_secs(30)).await.unwrap();
        factory.shutdown().await;
    });
}

struct Nothing;

impl EventHandler<ConfigMap> for Nothing {}

impl CheckpointHandler<ConfigMap> for Nothing {
    fn on_cold_start(&mut self) {}
    fn on_missed_update(&mut self, _: &ObjectId, _: &Entry<ConfigMap>) {}
    fn on_missed_delete(&mut self, _: &ObjectId) {}
}

/// A handler with a checkpoint needs a list, which is cheap.
#[test]
fn checkpoint_and_snapshot_work_together() {
    let world = World::with_snapshot(2);
    let life = world.restore(&world.file());
    let cluster = ClusterId::from_url("https://test");
    let checkpoint = Checkpoint::in_folder(world.folder.path(), cluster);
    life.informer.add_handler_with_checkpoint("audit", &checkpoint, Nothing).unwrap().detach();
    life.start();
    life.settle();
    assert_eq!(world.requests()[1], "list limit=500");
    assert_eq!(world.take_calls(), ["add o00", "add o01"]);
    life.stop();
}

/// The checkpoint has another seed, so the hashes of the snapshot cannot be compared. An equal version does
/// not prove an equal object.
#[test]
fn snapshot_with_other_seed_than_checkpoint_is_not_wrong() {
    let world = World::with_objects(1);
    let version = world.server.resource_version();
    put(&world.server, "o00", "lost");
    world.run();
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::in_folder(folder.path(), ClusterId::from_url("https://test"));
    let with_checkpoint = || {
        let informer = world.builder().build();
        informer.add_handler_with_checkpoint("audit", &checkpoint, Nothing).unwrap().detach();
        informer
    };
    let elsewhere = World::with_objects(0);
    let life = Life::restore(with_checkpoint, &elsewhere.file(), &world.calls);
    life.start();
    life.settle();
    life.stop();
    world.server.restore(version).unwrap();
    put(&world.server, "o00", "new!");
    let life = Life::restore(with_checkpoint, &world.file(), &world.calls);
    assert_eq!(life.names(), ["o00"]);
    life.start();
    life.settle();
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

//! Tests the contents of the cache, the events and the requests after a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Informer, ListWatch, ReflectorOptions};

use crate::{
    life::{Life, World, delete, on_server, options, put},
    logged::Logged,
};

const CHANGED: [&str; 4] = ["add o00", "delete o02", "later add new", "update o01"];

/// Changes, creates and deletes objects between two lives.
fn change(world: &World) {
    put(&world.server, "o01", "second");
    delete(&world.server, "o02");
    put(&world.server, "new", "first");
}

#[test]
fn unchanged_objects_are_not_listed_again() {
    let world = World::with_snapshot(3);
    let version = world.server.resource_version();
    let life = world.restore(&world.file());
    let restored = life.restored.clone().unwrap();
    assert_eq!(restored.objects, 3);
    assert!(restored.age < Duration::from_secs(60));
    assert_eq!(life.values(), on_server(&world.server), "before the first request");
    assert_eq!(life.informer.status().restored.map(|restored| restored.objects), Some(3));
    assert!(!life.informer.has_synced());
    assert!(world.requests().is_empty());

    life.start();
    life.settle();
    assert_eq!(world.take_calls(), ["add o00", "add o01", "add o02"]);
    assert_eq!(world.requests(), ["list limit=1".to_owned(), format!("watch resourceVersion={version}")]);
    assert_eq!(life.informer.status().restored, None);
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

#[test]
fn missed_changes_are_events_of_the_resumed_watch() {
    let world = World::with_snapshot(3);
    change(&world);
    let life = world.start();
    assert_eq!(world.take_calls(), [&["add o00", "add o01", "add o02"], &CHANGED[1..]].concat());
    assert_eq!(life.values(), on_server(&world.server));
    assert_eq!(world.requests().len(), 2);
    life.stop();
    assert_eq!(world.run(), ["add new", "add o00", "add o01"]);
}

#[test]
fn old_file_is_verified_with_a_list() {
    let world = World::with_snapshot(3);
    change(&world);
    let file = world.file().resume_within(Duration::ZERO);
    let life = world.start_with(&file);
    assert_eq!(world.take_calls(), ["add new", "add o00", "add o01"], "the state of the list");
    assert_eq!(life.values(), on_server(&world.server));
    let requests = world.requests();
    assert_eq!((requests.len(), requests[1].as_str()), (3, "list limit=500"), "{requests:?}");
    life.stop();
}

/// An unchanged object is not decoded again, so its transform does not run.
#[test]
fn list_decodes_only_changed_objects() {
    let world = World::with_snapshot(20);
    put(&world.server, "o01", "second");
    let decoded = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&decoded);
    let informer = || {
        world.builder().transform(move |object| {
            count.fetch_add(usize::from(object.metadata.name.as_deref() != Some("o00")), Relaxed);
            Ok(())
        })
    };
    let life =
        Life::restore(|| informer().build(), &world.file().resume_within(Duration::ZERO), &world.calls);
    let before = life.informer.lister().snapshot();
    life.start();
    life.settle();
    assert_eq!(decoded.load(Relaxed), 1, "the check of the version decodes the first object");
    let after = life.informer.lister().snapshot();
    let kept = before.iter().filter(|entry| after.get(entry.key()) == Some(entry)).count();
    assert_eq!(kept, 19);
    life.stop();
}

#[test]
fn expired_version_is_replaced_by_a_list() {
    let world = World::with_snapshot(3);
    change(&world);
    world.server.expire_watches(world.server.resource_version());
    let life = world.start();
    assert_eq!(life.values(), on_server(&world.server));
    // The handler has received the state of the file before.
    assert_eq!(world.take_calls(), [&["add o00", "add o01", "add o02"], &CHANGED[1..]].concat());
    let requests = world.requests();
    assert_eq!(requests[2], "list limit=500", "the list does not use the expired version: {requests:?}");
    assert_eq!(requests.len(), 4, "{requests:?}");
    life.stop();
}

/// The position of a file is used for one watch. A later list requests the latest state.
#[test]
fn requested_list_after_resume_does_not_use_version_of_file() {
    let world = World::with_snapshot(2);
    let life = world.start();
    world.requests();
    life.informer.relist();
    life.settle();
    assert_eq!(world.requests()[0], "list limit=500");
    put(&world.server, "o01", "second");
    life.settle();
    life.informer.relist();
    life.settle();
    let requests = world.requests();
    assert!(requests.iter().any(|request| request.contains("NotOlderThan")), "{requests:?}");
    life.stop();
}

#[test]
fn restored_server_with_lower_version_is_not_trusted() {
    let world = World::with_objects(3);
    let version = world.server.resource_version();
    put(&world.server, "o01", "lost");
    put(&world.server, "lost", "lost");
    world.run();
    world.server.restore(version).unwrap();
    let logged = Logged::begin();
    let life = world.restore(&world.file());
    assert_eq!(life.names(), ["lost", "o00", "o01", "o02"]);
    life.start();
    life.settle();
    let log = logged.text_of(|name| name == "kube_informer");
    assert!(log.contains("lower resourceVersion"), "{log}");
    assert_eq!(world.take_calls(), ["add o00", "add o01", "add o02"]);
    assert_eq!(life.values(), on_server(&world.server));
    life.crash();
    // The server passes the version of the file. The file must not be used then.
    (0..5).for_each(|at| put(&world.server, "o02", &at.to_string()));
    world.assert_cold(&world.file(), "no snapshot exists");
}

/// The versions of the new history are as high as the versions of the lost history.
#[test]
fn other_state_with_equal_version_is_replaced_by_a_list() {
    let world = World::with_objects(2);
    let version = world.server.resource_version();
    put(&world.server, "o00", "lost");
    world.run();
    world.server.restore(version).unwrap();
    put(&world.server, "o00", "new!");
    let life = world.start_with(&world.file().resume_within(Duration::ZERO));
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

#[test]
fn crash_keeps_file_of_last_write() {
    let world = World::with_snapshot(2);
    let life = world.start();
    put(&world.server, "o00", "second");
    put(&world.server, "new", "first");
    life.settle();
    world.take_calls();
    life.crash();
    let life = world.start();
    assert_eq!(world.take_calls(), ["add o00", "add o01", "later add new", "update o00"]);
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

/// A large cache is written and discarded on other threads.
#[test]
fn large_cache_is_restored_and_discarded() {
    let world = World::with_objects(9000);
    let version = world.server.resource_version();
    put(&world.server, "later", "first");
    assert_eq!(world.run().len(), 9001);
    let life = world.start();
    assert_eq!(life.values(), on_server(&world.server));
    assert_eq!(world.take_calls().len(), 9001);
    life.stop();
    let life = world.start_with(&world.file().resume_within(Duration::ZERO));
    assert_eq!(world.take_calls().len(), 9001);
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
    world.server.restore(version).unwrap();
    let life = world.start();
    assert_eq!(world.take_calls().len(), 9000);
    assert_eq!(life.values(), on_server(&world.server));
    life.stop();
}

#[test]
fn informer_with_other_selection_has_its_own_file() {
    let world = World::with_snapshot(2);
    let selection = || {
        Informer::from_source(ListWatch::<ConfigMap>::new(world.api()).fields("metadata.name=o00")).build()
    };
    let life = Life::restore(selection, &world.file(), &world.calls);
    assert_eq!((life.restored.clone(), life.names()), (None, vec![]));
    life.start();
    life.settle();
    life.stop();
    let life = Life::restore(selection, &world.file(), &world.calls);
    assert_eq!(life.names(), ["o00"]);
    assert_eq!(world.restore(&world.file()).names(), ["o00", "o01"]);
}

#[test]
fn streaming_list_reuses_restored_objects() {
    let world = World::with_snapshot(5);
    change(&world);
    let informer = || {
        let options = ReflectorOptions { streaming_lists: true, ..options() };
        world.builder().reflector_options(options).build()
    };
    let life = Life::restore(informer, &world.file().resume_within(Duration::ZERO), &world.calls);
    let before = life.informer.lister().snapshot();
    life.start();
    life.settle();
    assert_eq!(life.values(), on_server(&world.server));
    let after = life.informer.lister().snapshot();
    let kept = before.iter().filter(|entry| after.get(entry.key()) == Some(entry)).count();
    assert_eq!((kept, after.len()), (3, 5));
    life.stop();
}

//! Tests servers that fail, hang or return garbage during the verification.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use kube_informer::ListWatchError;
use kube_testserver::{CutAfter, Fault, RequestMatch, Verb};

use crate::life::{Life, World, on_server, put};

fn version_check() -> RequestMatch {
    RequestMatch::verb(Verb::List).parameter("limit", "1")
}

/// The version of the server is unknown. A list verifies the contents.
#[test]
fn failed_check_of_version_is_followed_by_a_list() {
    let faults = [
        Fault::internal_error("etcd"),
        Fault::status(403, "Forbidden", None),
        Fault::initializing(1),
        Fault::Reset,
        Fault::json("{}"),
        Fault::json("[7]"),
        Fault::json(r#"{"kind":"Table","metadata":{"resourceVersion":"1"},"items":[]}"#),
        Fault::json(r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"900"},"items":"#),
        Fault::Cut(CutAfter::Bytes(30)),
        Fault::Hang,
    ];
    for fault in faults {
        let kind = format!("{fault:?}");
        let world = World::with_snapshot(3);
        put(&world.server, "o01", "second");
        world.server.faults().next(version_check(), fault);
        let life = world.start();
        assert_eq!(world.take_calls(), ["add o00", "add o01", "add o02"], "{kind}");
        assert_eq!(life.values(), on_server(&world.server), "{kind}");
        assert_eq!(world.requests()[1], "list limit=500", "{kind}");
        life.stop();
    }
}

/// A server whose versions have no order has another history.
#[test]
fn version_without_order_discards_contents() {
    for version in ["", "abc", "007"] {
        let world = World::with_snapshot(2);
        let list =
            format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#);
        world.server.faults().next(version_check(), Fault::json(list));
        let life = world.start();
        assert_eq!(life.values(), on_server(&world.server));
        assert_eq!(world.take_calls(), ["add o00", "add o01"]);
        life.stop();
    }
}

/// The deadline of a list also limits the check. The contents can be read during the check.
#[test]
fn deadline_of_a_list_limits_hanging_check() {
    let world = World::with_snapshot(2);
    world.server.faults().next(version_check(), Fault::Hang);
    let life = world.restore(&world.file());
    life.start();
    life.sleep(Duration::from_secs(115));
    assert!(!life.informer.has_synced());
    assert_eq!(life.names(), ["o00", "o01"]);
    life.sleep(Duration::from_secs(10));
    assert!(life.informer.has_synced());
    life.stop();
}

#[test]
fn rejected_watch_is_retried() {
    for fault in [Fault::gone(), Fault::internal_error("x"), Fault::Reset, Fault::json("nonsense")] {
        let kind = format!("{fault:?}");
        let world = World::with_snapshot(2);
        put(&world.server, "o01", "second");
        world.server.faults().next(RequestMatch::verb(Verb::Watch), fault);
        let life = world.start();
        life.sleep(Duration::from_secs(10));
        assert_eq!(life.values(), on_server(&world.server), "{kind}");
        assert_eq!(world.take_calls(), ["add o00", "add o01", "update o01"], "{kind}");
        life.stop();
    }
}

/// The file is not written before the verification.
#[test]
fn stop_during_verification_keeps_file() {
    for resumes in [true, false] {
        let world = World::with_snapshot(2);
        let before = std::fs::read(world.path()).unwrap();
        let matches =
            if resumes { version_check() } else { RequestMatch::verb(Verb::List).parameter("limit", "500") };
        let guard = world.server.faults().always(matches, Fault::Hang);
        let life = world.restore(&world.file().resume_within(Duration::ZERO));
        life.start();
        life.sleep(Duration::from_secs(5));
        assert!(!life.informer.has_synced());
        life.stop();
        assert_eq!(std::fs::read(world.path()).unwrap(), before);
        drop(guard);
        world.server.faults().clear();
        assert_eq!(world.run(), ["add o00", "add o01"]);
    }
}

/// The informer restarts after a panic of `on_error`. It does not use the version of the file again.
#[test]
fn panic_after_resume_is_followed_by_a_list() {
    let world = World::with_snapshot(2);
    put(&world.server, "o01", "second");
    let panics = AtomicBool::new(true);
    let on_error =
        move |_: &ListWatchError| assert!(!panics.swap(false, Relaxed), "the function panics once");
    world.server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Reset);
    let life = Life::restore(|| world.builder().on_error(on_error).build(), &world.file(), &world.calls);
    life.start();
    life.sleep(Duration::from_secs(40));
    let requests = world.requests();
    assert_eq!((requests.len(), requests[2].as_str()), (4, "list limit=500"), "{requests:?}");
    assert_eq!(life.values(), on_server(&world.server));
    assert_eq!(world.take_calls(), ["add o00", "add o01", "update o01"]);
    life.stop();
}

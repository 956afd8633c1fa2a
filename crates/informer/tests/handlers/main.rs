//! Tests the contract of handlers, with a source that the test controls.

mod backpressure;
mod blocking;
mod fake;
mod filtering;
mod log;
mod relist;
mod status;
mod synced;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fake::{Fake, object};
use futures_util::FutureExt;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Entry, Event, EventHandler, Informer, handler_fn};
use log::{Log, short};
use parking_lot::Mutex;

const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn handler_gets_initial_list_and_later_changes() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let _registration = informer.on_event(log.writer());
    informer.start();
    log.reach(2).await;
    fake.added(object("c", "3", 6)).await;
    fake.modified(object("a", "1", 7)).await;
    fake.deleted(object("b", "2", 8)).await;
    assert_eq!(log.reach(5).await, ["!a@3", "!b@4", "+c@6", "~a@3>7", "-b@8"]);
    informer.stop().await;
}

/// Property 6: the store and every index contain a change before the handler call.
#[tokio::test(start_paused = true)]
async fn store_and_indexes_contain_change_before_handler_call() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let by_uid = informer.add_index("uid", |object: &ConfigMap| object.metadata.uid.clone()).unwrap();
    let (log, other_log, lister) = (Log::new(), Log::new(), informer.lister());
    let writer = log.clone();
    let _registration = informer.on_event(move |event| {
        let indexed = by_uid.len(event.entry().metadata.uid.as_deref().unwrap());
        let version =
            lister.get_by_key(event.key()).and_then(|object| object.metadata.resource_version.clone());
        writer.write(format!("{indexed} {version:?}"));
    });
    let _other = informer.on_event(other_log.writer());
    informer.start();
    log.reach(1).await;
    fake.modified(object("a", "1", 6)).await;
    log.reach(2).await;
    fake.deleted(object("a", "1", 7)).await;
    assert_eq!(log.reach(3).await, ["1 Some(\"3\")", "1 Some(\"6\")", "0 None"]);
    informer.stop().await;
}

/// Property 9: a late handler receives each change once.
#[tokio::test(start_paused = true)]
async fn late_handler_gets_cached_state_then_every_change() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    fake.added(object("b", "2", 6)).await;
    let first = Log::new();
    let _first = informer.on_event(first.writer());
    first.reach(2).await;
    let late = Log::new();
    let registration = informer.on_event(late.writer());
    assert!(registration.wait_for_sync(WITHIN).await);
    fake.deleted(object("a", "1", 7)).await;
    let mut lines = late.reach(3).await;
    lines[..2].sort();
    assert_eq!(lines, ["!a@3", "!b@6", "-a@7"]);
    informer.stop().await;
}

/// Property 9, as a race: handlers are added during writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_added_during_writes_get_each_version_once() {
    const CHANGES: u64 = 2000;
    let fake = Fake::listing(5, &[object("a", "1", 5)]);
    let informer = fake.informer().coalesce_threshold(1_000_000).build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    let mut handlers = Vec::new();
    for version in 6..6 + CHANGES {
        fake.modified(object("a", "1", version)).await;
        if version % 100 == 0 {
            let versions = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&versions);
            let last = tokio::sync::watch::Sender::new(0);
            let ended = last.subscribe();
            let registration = informer.on_event(move |event| {
                let version: u64 = event.entry().id.version.to_string().parse().unwrap();
                let initial = matches!(event, Event::Added { initial: true, .. });
                seen.lock().push((version, initial));
                last.send_replace(version);
            });
            handlers.push((registration, versions, ended));
        }
    }
    for (_registration, versions, mut ended) in handlers {
        ended.wait_for(|version| *version == 5 + CHANGES).await.unwrap();
        let versions = versions.lock();
        assert!(
            versions.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
            "a gap or a repeat: {versions:?}"
        );
        let initial = versions.iter().filter(|(_, initial)| *initial);
        assert!(
            initial.eq(&versions[..1]),
            "the history starts with {:?} instead of the cached objects",
            versions[0]
        );
    }
    informer.stop().await;
}

/// Property 8: handlers that are added and removed do not affect each other or the remaining
/// handlers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_gets_all_events_while_handlers_are_added_and_removed() {
    const CHANGES: usize = 2000;
    let fake = Fake::listing(5, &[object("a", "1", 5)]);
    let informer = fake.informer().coalesce_threshold(1_000_000).build();
    let log = Log::new();
    let _stays = informer.on_event(log.writer());
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    let over = tokio::sync::watch::Sender::new(());
    let come_and_go = || {
        let (informer, over) = (informer.clone(), over.subscribe());
        async move {
            let mut rounds = 0_usize;
            while rounds < 2 || !over.has_changed().unwrap() {
                let registration = informer.on_event(|_| ());
                match rounds % 2 {
                    0 => registration.remove().await,
                    _ => registration.remove_after_delivery().await,
                }
                rounds += 1;
            }
        }
    };
    let fickle: Vec<_> = (0..4).map(|_| tokio::spawn(come_and_go())).collect();
    for version in (6..).take(CHANGES) {
        fake.modified(object("a", "1", version)).await;
    }
    let updates = (5..).take(CHANGES).map(|version: u64| format!("~a@{version}>{}", version + 1));
    let expected: Vec<_> = std::iter::once("!a@5".to_owned()).chain(updates).collect();
    assert_eq!(log.reach(expected.len()).await, expected);
    over.send_replace(());
    for handlers in fickle {
        tokio::time::timeout(WITHIN, handlers).await.expect("a removal must complete").unwrap();
    }
    informer.stop().await;
}

/// Property 8, and the contract of a panicking handler.
#[tokio::test(start_paused = true)]
async fn panicking_handler_remains_registered_without_side_effects() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let writer = log.clone();
    let panicking = informer.on_event(move |event| {
        writer.write(short(event));
        assert!(event.key().name() != "a", "event of a");
    });
    let calm = Log::new();
    let _calm = informer.on_event(calm.writer());
    informer.start();
    assert!(panicking.wait_for_sync(WITHIN).await);
    fake.modified(object("a", "1", 6)).await;
    fake.modified(object("b", "2", 7)).await;
    let all = ["!a@3", "!b@4", "~a@3>6", "~b@4>7"];
    assert_eq!(log.reach(4).await, all);
    assert_eq!(calm.reach(4).await, all);
    assert_eq!(panicking.panics(), 2);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removed_handler_is_never_called_again() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let (removed, stays) = (Log::new(), Log::new());
    let registration = informer.on_event(removed.writer());
    let _stays = informer.on_event(stays.writer());
    informer.start();
    removed.reach(1).await;
    registration.remove().await;
    fake.modified(object("a", "1", 6)).await;
    stays.reach(2).await;
    assert_eq!(removed.lines(), ["!a@3"]);
    assert_eq!(informer.status().handlers.len(), 1);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_registration_removes_handler() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let (dropped, detached) = (Log::new(), Log::new());
    let registration = informer.on_event(dropped.writer());
    informer.on_event(detached.writer()).detach();
    informer.start();
    dropped.reach(1).await;
    drop(registration);
    fake.modified(object("a", "1", 6)).await;
    detached.reach(2).await;
    assert_eq!(dropped.lines(), ["!a@3"]);
    assert_eq!(informer.status().handlers.len(), 1);
    informer.stop().await;
}

/// A dropped removal continues, and still delivers the queued events.
#[tokio::test(start_paused = true)]
async fn cancelled_removal_after_delivery_delivers_queued_events() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
    let informer = fake.informer().build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    let log = Log::new();
    let registration = informer.on_event(log.writer());
    assert!(registration.remove_after_delivery().now_or_never().is_none());
    assert_eq!(log.reach(2).await, ["!a@3", "!b@4"]);
    informer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_drops_or_delivers_queued_events() {
    for deliver in [false, true] {
        let objects: Vec<_> = (1..=50).map(|n| object(&format!("o{n}"), &n.to_string(), n)).collect();
        let fake = Fake::listing(50, &objects);
        let informer = fake.informer().build();
        let (enter, mut entered) = tokio::sync::mpsc::channel(1);
        let gate = Arc::new(std::sync::Barrier::new(2));
        let (log, wait) = (Log::new(), Arc::clone(&gate));
        let mut first = true;
        let writer = log.clone();
        let registration = informer.on_event(move |event| {
            if std::mem::take(&mut first) {
                enter.try_send(()).unwrap();
                wait.wait(); // a call is running while the handler is removed
            }
            writer.write(short(event));
        });
        informer.start();
        entered.recv().await.unwrap();
        let removing = async {
            if deliver { registration.remove_after_delivery().await } else { registration.remove().await }
        };
        let opening = async {
            while !informer.status().handlers.is_empty() {
                tokio::task::yield_now().await;
            }
            // The first poll has started the removal.
            tokio::task::yield_now().await;
            let gate = Arc::clone(&gate);
            tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
        };
        tokio::join!(removing, opening);
        assert_eq!(log.lines().len(), if deliver { 50 } else { 1 });
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn handler_that_always_panics_can_be_removed() {
    for deliver in [false, true] {
        let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
        let informer = fake.informer().build();
        let (held, log) = (Arc::new(()), Log::new());
        let (left, writer) = (Arc::downgrade(&held), log.clone());
        let registration = informer.on_event(move |event| {
            let _held = &held;
            writer.write(short(event));
            panic!("the handler panics at each call");
        });
        informer.start();
        log.reach(2).await;
        let removing = async {
            if deliver { registration.remove_after_delivery().await } else { registration.remove().await }
        };
        tokio::time::timeout(WITHIN, removing).await.expect("the removal must complete");
        assert!(left.upgrade().is_none(), "the handler must be dropped");
        assert_eq!(log.lines(), ["!a@3", "!b@4"]);
        let status = informer.status();
        assert_eq!(
            (status.handlers.len(), status.handler_panics),
            (0, 2),
            "the count includes removed handlers"
        );
        informer.stop().await;
    }
}

/// Property 15. Each handler has its own period.
#[tokio::test(start_paused = true)]
async fn resync_delivers_cached_state_at_period_of_each_handler() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().default_resync(Duration::from_secs(60)).build();
    let (minute, hour, never) = (Log::new(), Log::new(), Log::new());
    let _minute = informer.on_event(minute.writer());
    struct To(Log);
    impl EventHandler<ConfigMap> for To {
        fn on_update(&mut self, old: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
            assert!(Arc::ptr_eq(&old.object, &new.object), "a resync delivers one value as old and new");
            self.0.write(format!("~{}", new.id.version));
        }
    }
    let _hour = informer.add_handler_with_resync(To(hour.clone()), Some(Duration::from_secs(3600)));
    let _never = informer.add_handler_with_resync(To(never.clone()), None);
    informer.start();
    hour.reach(2).await;
    assert_eq!(minute.lines()[..3], ["!a@3", "~a@3>3", "~a@3>3"]);
    let minutes = minute.lines().len();
    assert!((115..=121).contains(&minutes), "{minutes} calls in two hours");
    assert!(never.lines().is_empty());
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stream_yields_same_events_until_informer_stops() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let mut events = informer.events();
    informer.start();
    assert_eq!(short(&events.next().await.unwrap()), "!a@3");
    assert!(!events.has_synced(), "the first event is not handled yet");
    fake.modified(object("a", "1", 6)).await;
    assert_eq!(short(&events.next().await.unwrap()), "~a@3>6");
    assert!(events.has_synced());
    fake.deleted(object("a", "1", 7)).await;
    let other = Log::new();
    let _other = informer.on_event(other.writer());
    while events.pending() == 0 {
        tokio::task::yield_now().await;
    }
    informer.stop().await;
    assert_eq!(
        events.next().await.as_ref().map(short).as_deref(),
        Some("-a@7"),
        "queued events are not lost"
    );
    assert!(events.next().await.is_none());
}

/// On a runtime with one thread, all other tasks would block, including the watch.
#[tokio::test(start_paused = true)]
async fn stream_with_many_events_yields_to_other_tasks() {
    const EVENTS: usize = 10_000;
    let informer = informer_with_events(EVENTS).await;
    let mut events = informer.events();
    let turns = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(events.by_ref().take(EVENTS).count().await, EVENTS);
    let turns = turns.load(Ordering::SeqCst);
    assert!(turns >= EVENTS / 1000, "{turns} turns of the other task during {EVENTS} events");
    other.abort();
    informer.stop().await;
}

/// Only a task of a runtime has a budget.
#[test]
fn stream_yields_many_events_outside_of_runtime() {
    const EVENTS: usize = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = runtime.block_on(informer_with_events(EVENTS));
    let mut events = informer.events();
    for _ in 0..EVENTS {
        assert!(events.next().now_or_never().flatten().is_some());
    }
    assert!(events.next().now_or_never().is_none());
}

/// Returns a synced informer with this number of objects.
async fn informer_with_events(objects: usize) -> Informer<ConfigMap> {
    let objects: Vec<_> = (0..objects).map(|n| object(&format!("o{n}"), &n.to_string(), 3)).collect();
    let informer = Fake::listing(5, &objects).informer().build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    informer
}

#[tokio::test(start_paused = true)]
async fn dropped_stream_is_unregistered() {
    let informer = Fake::listing(5, &[]).informer().build();
    let events = informer.events();
    assert_eq!(informer.status().handlers.len(), 1);
    drop(events);
    assert_eq!(informer.status().handlers.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_ignores_handlers_and_remains_readable() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let before = [informer.on_event(log.writer()), informer.on_event(log.writer())];
    informer.start();
    log.reach(2).await;
    informer.stop().await;
    informer.start();
    assert_eq!(informer.lister().len(), 1);
    let after = informer.on_event(|_: &Event<ConfigMap>| panic!("called after the stop"));
    let removing = async {
        let [first, second] = before;
        first.remove().await;
        second.remove_after_delivery().await;
        after.remove().await;
    };
    tokio::time::timeout(WITHIN, removing).await.expect("a removal must not wait for a stopped informer");
    assert_eq!(log.lines(), ["!a@3", "!a@3"]);
    assert!(informer.events().next().await.is_none());
}

/// Waits until the informer's tasks have dropped the source.
async fn released(source: &std::sync::Weak<()>) {
    let dropped = async {
        while source.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, dropped).await.expect("the unused informer must stop");
}

#[tokio::test(start_paused = true)]
async fn informer_stops_when_last_reference_is_dropped() {
    for keeper in ["nothing", "lister", "index", "handler", "stream"] {
        let fake = Fake::listing(5, &[object("a", "1", 3)]);
        let (informer, held) = fake.informer_with_canary();
        informer.start();
        informer.wait_for_sync(WITHIN).await.unwrap();
        let lister = (keeper == "lister").then(|| informer.lister());
        let index = informer.add_index("name", |object: &ConfigMap| object.metadata.name.clone()).unwrap();
        let index = (keeper == "index").then_some(index);
        let log = Log::new();
        let handler = (keeper == "handler").then(|| informer.on_event(log.writer()));
        let stream = (keeper == "stream").then(|| informer.events());
        drop(informer);
        if keeper != "nothing" {
            let seen = async {
                fake.added(object("b", "2", 6)).await;
                let arrived = || match (&lister, &index) {
                    (Some(lister), _) => lister.len() == 2,
                    (_, Some(index)) => index.len("b") == 1,
                    _ => true,
                };
                while !arrived() {
                    tokio::task::yield_now().await;
                }
                if handler.is_some() {
                    log.reach(2).await;
                }
            };
            tokio::time::timeout(WITHIN, seen)
                .await
                .unwrap_or_else(|_| panic!("the informer stopped although a {keeper} exists"));
        }
        drop((lister, index, stream));
        if let Some(handler) = handler {
            handler.remove().await;
        }
        released(&held).await;
    }
}

//! Tests handlers that may block, on their own threads.

use std::{
    cell::RefCell,
    sync::{Arc, Barrier, mpsc},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Entry, Event, EventHandler, handler_fn};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    WITHIN,
    fake::{Fake, object},
    log::{Log, short},
};

thread_local! {
    /// The thread that sets this value drops it when it exits.
    static AT_THE_END: RefCell<Option<watch::Sender<()>>> = const { RefCell::new(None) };
}

/// Returns a handler that logs its events, and a receiver that is closed when its thread has
/// exited.
fn on_a_thread(log: &Log) -> (impl FnMut(&Event<ConfigMap>) + Send + use<>, watch::Receiver<()>) {
    let (thread, ended) = watch::channel(());
    let (log, mut thread) = (log.clone(), Some(thread));
    let handler = move |event: &Event<ConfigMap>| {
        if let Some(thread) = thread.take() {
            AT_THE_END.with(|end| *end.borrow_mut() = Some(thread));
        }
        log.write(short(event));
    };
    (handler, ended)
}

fn has_ended(thread: &watch::Receiver<()>) -> bool {
    thread.has_changed().is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_handler_gets_same_events_and_delays_no_handler() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let (log, others) = (Log::new(), Log::new());
    let (go, gate) = mpsc::channel::<()>();
    let writer = log.clone();
    let blocking = handler_fn(move |event: &Event<ConfigMap>| {
        gate.recv().unwrap();
        writer.write(short(event));
        assert!(event.key().name() != "b", "event of b");
    });
    let registration = informer.add_blocking_handler(blocking).unwrap().named("writer of files");
    let _others = informer.on_event(others.writer());
    informer.start();
    others.reach(1).await;
    fake.added(object("b", "2", 6)).await;
    fake.modified(object("a", "1", 7)).await;
    others.reach(3).await;
    assert!(!registration.has_synced() && log.lines().is_empty());
    (0..3).for_each(|_| go.send(()).unwrap());
    assert_eq!(log.reach(3).await, ["!a@3", "+b@6", "~a@3>7"]);
    assert!(registration.wait_for_sync(WITHIN).await);
    assert_eq!(registration.panics(), 1);
    let status = informer.status().handlers;
    assert_eq!((status[0].name.as_str(), status[0].panics), ("writer of files", 1));
    informer.stop().await;
}

/// A handler that blocks until a test opens its gate.
struct Blocked {
    log: Log,
    entered: watch::Sender<bool>,
    gate: Arc<Barrier>,
    thread: Option<watch::Sender<()>>,
}

impl EventHandler<ConfigMap> for Blocked {
    fn on_add(&mut self, object: &Entry<ConfigMap>, initial: bool) {
        if let Some(thread) = self.thread.take() {
            AT_THE_END.with(|end| *end.borrow_mut() = Some(thread));
            self.entered.send_replace(true);
            self.gate.wait();
        }
        self.log.write(short(&Event::Added { object: object.clone(), initial }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove_and_stop_wait_for_running_call_and_thread() {
    for end in ["remove", "remove after delivery", "stop", "drop of the informer"] {
        let objects: Vec<_> = (1..=20).map(|n| object(&format!("o{n}"), &n.to_string(), n)).collect();
        let fake = Fake::listing(20, &objects);
        let informer = fake.informer().build();
        let (thread, ended) = watch::channel(());
        let (entered, mut has_entered) = watch::channel(false);
        let (log, gate) = (Log::new(), Arc::new(Barrier::new(2)));
        let blocked = Blocked { log: log.clone(), entered, gate: Arc::clone(&gate), thread: Some(thread) };
        let registration = informer.add_blocking_handler(blocked).unwrap();
        informer.start();
        has_entered.wait_for(|entered| *entered).await.unwrap();
        let other = informer.clone();
        let mut ending = Box::pin(async move {
            match end {
                "remove" => registration.remove().await,
                "remove after delivery" => registration.remove_after_delivery().await,
                "stop" => informer.stop().await,
                _ => {
                    // Only the handler keeps the informer alive, until its removal.
                    drop(informer);
                    registration.remove().await;
                }
            }
        });
        // The first poll removes the handler or stops the informer. Later polls only wait.
        assert!(
            futures_util::poll!(&mut ending).is_pending() && !has_ended(&ended),
            "{end}: a call is running"
        );
        assert!(other.status().handlers.is_empty());
        tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
        ending.await;
        assert!(has_ended(&ended), "{end}: the thread must have ended");
        assert_eq!(log.lines().len(), if end == "remove after delivery" { 20 } else { 1 }, "{end}");
        other.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn thread_of_uncalled_blocking_handler_exits() {
    struct Held(#[expect(dead_code, reason = "it is dropped with the handler")] watch::Sender<()>);
    impl EventHandler<ConfigMap> for Held {}
    for case in ["dropped unstarted", "stopped unstarted", "removed unstarted", "registered after stop"] {
        let informer = Fake::listing(5, &[]).informer().build();
        let (handler, mut ended) = watch::channel(());
        if case == "registered after stop" {
            informer.stop().await;
        }
        let registration = informer.add_blocking_handler(Held(handler)).unwrap();
        match case {
            "dropped unstarted" => drop((informer, registration)),
            "stopped unstarted" => {
                informer.stop().await;
                assert!(has_ended(&ended));
            }
            _ => {
                registration.remove().await;
                assert!(has_ended(&ended), "{case}");
            }
        }
        while ended.changed().await.is_ok() {}
    }
}

#[test]
fn handler_thread_exits_after_running_call_if_runtime_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
    let informer = fake.informer().build();
    let (thread, ended) = watch::channel(());
    let (entered, mut has_entered) = watch::channel(false);
    let (log, gate) = (Log::new(), Arc::new(Barrier::new(2)));
    let blocked = Blocked { log: log.clone(), entered, gate: Arc::clone(&gate), thread: Some(thread) };
    let registration = runtime.block_on(async {
        let registration = informer.add_blocking_handler(blocked).unwrap();
        informer.start();
        has_entered.wait_for(|entered| *entered).await.unwrap();
        registration
    });
    drop(runtime);
    assert!(!has_ended(&ended), "a call is running");
    let another = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    another.block_on(async {
        let stopping = informer.stop();
        tokio::pin!(stopping);
        assert!(futures_util::poll!(&mut stopping).is_pending(), "the stop waits for the call");
        gate.wait();
        stopping.await;
        assert!(!registration.wait_for_sync(Duration::from_secs(3600)).await, "the second add is dropped");
        registration.remove().await;
    });
    assert_eq!(log.lines(), ["!a@3"]);
}

/// Tasks, timers and `block_on` work like in `spawn_blocking`.
#[tokio::test]
async fn blocking_handler_can_spawn_and_block_on_futures() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let (log, lister) = (Log::new(), informer.lister());
    let writer = log.clone();
    let waiting = handler_fn(move |event: &Event<ConfigMap>| {
        let lister = lister.clone();
        let arrived = tokio::spawn(async move { lister.wait_until(&6.into(), WITHIN).await.is_ok() });
        assert!(Handle::current().block_on(arrived).unwrap());
        writer.write(short(event));
    });
    let registration = informer.add_blocking_handler(waiting).unwrap();
    informer.start();
    fake.added(object("b", "2", 6)).await;
    assert!(registration.wait_for_sync(WITHIN).await);
    assert_eq!(registration.panics(), 0);
    assert_eq!(log.reach(2).await, ["!a@3", "+b@6"]);
    informer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_handler_gets_resyncs_and_coalesced_events() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().coalesce_threshold(1).default_resync(Duration::from_secs(1)).build();
    let log = Log::new();
    let (handler, ended) = on_a_thread(&log);
    let registration = informer.add_blocking_handler(handler_fn(handler)).unwrap();
    informer.start();
    assert_eq!(log.reach(2).await, ["!a@3", "~a@3>3"]);
    registration.remove().await;
    assert!(has_ended(&ended));
    informer.stop().await;
}

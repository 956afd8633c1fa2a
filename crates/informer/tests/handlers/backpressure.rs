//! Tests handlers with backpressure. They receive every event, and the cache waits for them.

use std::sync::mpsc;

use super::*;

/// Returns the events of a handler with a threshold of one event, during a burst.
async fn events_of_burst(backpressure: bool) -> Vec<String> {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().coalesce_threshold(1).build();
    let log = Log::new();
    let _registration = if backpressure {
        informer.add_backpressured_handler(handler_fn(log.writer()))
    } else {
        informer.on_event(log.writer())
    };
    informer.start();
    log.reach(1).await;
    fake.modified(object("a", "1", 6)).await;
    fake.modified(object("a", "1", 7)).await;
    fake.modified(object("a", "1", 8)).await;
    fake.deleted(object("a", "1", 9)).await;
    fake.added(object("b", "2", 10)).await;
    fake.deleted(object("b", "2", 11)).await;
    fake.added(object("last", "3", 12)).await;
    while !log.lines().iter().any(|line| line == "+last@12") {
        log.reach(log.lines().len() + 1).await;
    }
    informer.stop().await;
    log.lines()
}

#[tokio::test(start_paused = true)]
async fn backpressured_handler_gets_every_event() {
    let every = ["!a@3", "~a@3>6", "~a@6>7", "~a@7>8", "-a@9", "+b@10", "-b@11", "+last@12"];
    assert_eq!(events_of_burst(true).await, every);
    let coalesced = events_of_burst(false).await;
    assert!(coalesced.len() < every.len(), "no events were coalesced: {coalesced:?}");
}

/// Tests that the cache waits while the handler blocks its thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cache_waits_for_backpressured_handler_until_removed() {
    let fake = Fake::listing(5, &[]);
    let informer = fake.informer().coalesce_threshold(2).queue_capacity(4).build();
    let (release, held) = mpsc::channel::<()>();
    let slow = informer.add_backpressured_handler(handler_fn(move |_: &Event<ConfigMap>| {
        _ = tokio::task::block_in_place(|| held.recv());
    }));
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    for version in 10..100 {
        fake.added(object(&format!("o{version}"), "u", version)).await;
    }
    let pending = || informer.status().handlers[0].pending;
    while pending() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The cache contains the current delivery, the events up to the threshold, and one batch.
    let cached = informer.lister().len();
    assert!(cached <= 4 + 2 + 4, "{cached} are cached");
    let mut removal = std::pin::pin!(slow.remove());
    assert!(removal.as_mut().now_or_never().is_none(), "the removal waits for the running call");
    // The handler is still blocked, so only the removal can wake the cache.
    informer.lister().wait_until(&"99".into(), WITHIN).await.unwrap();
    assert_eq!(informer.lister().len(), 90);
    drop(release);
    removal.await;
    informer.stop().await;
}

/// A panic payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn cache_does_not_wait_for_failed_handler() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().coalesce_threshold(1).queue_capacity(1).build();
    let ended =
        informer.add_backpressured_handler(handler_fn(|_: &Event<ConfigMap>| std::panic::panic_any(Bomb)));
    let log = Log::new();
    let _registration = informer.on_event(log.writer());
    informer.start();
    for version in 6..20 {
        fake.modified(object("a", "1", version)).await;
    }
    informer.lister().wait_until(&"19".into(), WITHIN).await.unwrap();
    while !log.lines().last().is_some_and(|line| line.ends_with(">19")) {
        log.reach(log.lines().len() + 1).await;
    }
    assert_eq!((ended.has_synced(), informer.status().handlers.len()), (false, 2));
    informer.stop().await;
}

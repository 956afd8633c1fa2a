//! Tests the status of an informer and its handlers.

use std::time::Duration;

use kube_informer::{Event, FilteringEventHandler, handler_fn};
use kube_listwatch::ListWatchError;

use crate::{
    WITHIN,
    fake::{Fake, expired, object},
    log::Log,
};

#[tokio::test(start_paused = true)]
async fn status_display_is_short_and_contains_no_object() {
    let fake = Fake::listing(5, &[object("secret", "1", 3)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let audit = informer.on_event(log.writer()).named("audit");
    let filtered = FilteringEventHandler::new(|_: &_| true, handler_fn(|_: &Event<_>| panic!("called")));
    let _unnamed = informer.add_handler(filtered);
    let unread = informer.events().named("unread");
    assert_eq!(
        informer.status().to_string().lines().next(),
        Some("ConfigMaps of a fake: not started, not synced, 0 objects")
    );
    informer.start();
    log.reach(1).await;
    fake.modified(object("secret", "1", 6)).await;
    log.reach(2).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    fake.fails(expired()).await;
    fake.list_from_now_on(9, &[object("secret", "1", 8)]);
    log.reach(3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(audit.wait_for_sync(WITHIN).await);
    assert_eq!(unread.pending(), 3);
    let expected = "\
ConfigMaps of a fake: watching, synced, 1 objects, up to resourceVersion 9
  last event 66 s ago, last bookmark never
  2 lists (start: 1, expired: 1), 1 watches closed (expired: 1)
  1 failed requests, recovered; last failure 5 s ago: WATCH function failed
  handler audit: synced, 0 pending, 0 panics
  handler #1: synced, 0 pending, 3 panics
  handler unread: not synced, 3 pending, 0 panics";
    let text = informer.status().to_string();
    let without_words = |text: &str| {
        text.lines().filter(|line| !line.contains("failed requests")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(without_words(&text), without_words(expected));
    assert!(text.contains("last failure 5 s ago: WATCH function failed"), "{text}");
    assert!(!format!("{text} {:?}", informer.status()).contains("secret"), "{text}");
    informer.stop().await;
    assert!(informer.status().to_string().starts_with("ConfigMaps of a fake: stopped, synced, 1 objects"));
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn status_reports_progress_of_each_handler() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().coalesce_threshold(2).build();
    let log = Log::new();
    let first = informer.on_event(log.writer());
    let stream = informer.events();
    informer.start();
    for version in 6..10 {
        fake.modified(object("a", "1", version)).await;
        log.reach(version as usize - 4).await;
    }
    let handlers = informer.status().handlers;
    assert_eq!(handlers.iter().map(|handler| handler.name.as_str()).collect::<Vec<_>>(), ["#0", "#1"]);
    assert_eq!(handlers.iter().map(|handler| handler.pending).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(handlers.iter().map(|handler| handler.coalescing).collect::<Vec<_>>(), [false, true]);
    assert_eq!(handlers.iter().map(|handler| handler.synced).collect::<Vec<_>>(), [true, false]);
    first.remove().await;
    let _third = informer.on_event(|_| ());
    let names: Vec<_> = informer.status().handlers.into_iter().map(|handler| handler.name).collect();
    assert_eq!(names, ["#1", "#2"], "a number is never reused");
    drop(stream);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn handlers_are_reported_in_order_of_registration() {
    let informer = Fake::listing(5, &[]).informer().build();
    let mut registrations: Vec<_> =
        ["a", "b", "c", "d"].map(|name| informer.on_event(|_| ()).named(name)).into();
    registrations.remove(0).remove().await;
    registrations.push(informer.on_event(|_| ()).named("a"));
    let names: Vec<_> = informer.status().handlers.into_iter().map(|handler| handler.name).collect();
    assert_eq!(names, ["b", "c", "d", "a"]);
}

#[tokio::test(start_paused = true)]
async fn ages_grow_until_next_event() {
    let fake = Fake::listing(5, &[]);
    let informer = fake.informer().build();
    let log = Log::new();
    let _registration = informer.on_event(log.writer());
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!((informer.status().event_age, informer.status().bookmark_age), (None, None));
    fake.added(object("a", "1", 6)).await;
    log.reach(1).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let status = informer.status();
    assert_eq!((status.event_age, status.bookmark_age), (Some(Duration::from_secs(40)), None));
    assert_eq!(status.reflector.events, 1);
    assert!(status.representation.ends_with("::ConfigMap"), "{}", status.representation);
    fake.bookmark(7).await;
    fake.fails(ListWatchError::watch_function("it broke")).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let status = informer.status();
    assert_eq!(
        (status.event_age.map(|age| age.as_secs()), status.bookmark_age.map(|age| age.as_secs())),
        (Some(40), Some(0))
    );
    assert_eq!(status.watermark, Some(7.into()));
    informer.stop().await;
}

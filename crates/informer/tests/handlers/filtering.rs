//! Tests handlers behind a filter.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Entry, Event, EventHandler, FilteringEventHandler, Removal, handler_fn};

use crate::{
    fake::{Fake, object},
    log::Log,
};

/// Returns an object that matches the predicate if `matches` is true.
fn object_that(name: &str, uid: &str, version: u64, matches: bool) -> ConfigMap {
    ConfigMap { immutable: Some(matches), ..object(name, uid, version) }
}

fn matches_filter(object: &Entry<ConfigMap>) -> bool {
    object.immutable == Some(true)
}

#[tokio::test(start_paused = true)]
async fn filter_crossings_become_adds_and_deletes() {
    let fake = Fake::listing(5, &[object_that("in", "1", 3, true), object_that("out", "2", 4, false)]);
    let informer = fake.informer().build();
    let (log, all) = (Log::new(), Log::new());
    let _filtered =
        informer.add_handler(FilteringEventHandler::new(matches_filter, handler_fn(log.writer())));
    let _all = informer.on_event(all.writer());
    informer.start();
    all.reach(2).await;
    fake.modified(object_that("out", "2", 6, true)).await;
    fake.modified(object_that("out", "2", 7, true)).await;
    fake.modified(object_that("in", "1", 8, false)).await;
    fake.deleted(object_that("in", "1", 9, false)).await;
    fake.added(object_that("never", "3", 10, false)).await;
    // The last state matches, but the handler has never received the object.
    fake.deleted(object_that("never", "3", 11, true)).await;
    // The last state does not match, but the handler has received the object.
    fake.deleted(object_that("out", "2", 12, false)).await;
    fake.added(object_that("end", "4", 13, true)).await;
    all.reach(10).await;
    assert_eq!(log.reach(6).await, ["!in@3", "+out@6", "~out@6>7", "<in@3", "-out@12", "+end@13"]);
    informer.stop().await;
}

/// Events of a lagging handler are coalesced. The predicate may therefore not have received the old
/// state.
#[tokio::test(start_paused = true)]
async fn filter_with_coalesced_events_keeps_deletes_exact() {
    let fake =
        Fake::listing(5, &[object_that("passed", "1", 3, true), object_that("ignored", "2", 4, false)]);
    let informer = fake.informer().coalesce_threshold(0).build();
    let log = Log::new();
    let (writer, lister) = (log.writer(), informer.lister());
    let filtered = informer.add_handler(FilteringEventHandler::new(matches_filter, handler_fn(writer)));
    informer.start();
    assert!(filtered.wait_for_sync(crate::WITHIN).await);
    // All changes are queued before the handler's task runs again, so each object has one delete.
    fake.modified(object_that("passed", "1", 6, false)).await;
    fake.modified(object_that("ignored", "2", 7, true)).await;
    fake.deleted(object_that("passed", "1", 8, false)).await;
    fake.deleted(object_that("ignored", "2", 9, true)).await;
    fake.added(object_that("end", "3", 10, true)).await;
    let lines = log.reach(3).await;
    assert_eq!(lines.first().map(String::as_str), Some("!passed@3"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("-passed")).count(), 1, "{lines:?}");
    let adds = lines.iter().filter(|line| line.starts_with("+untold")).count();
    let deletes = lines.iter().filter(|line| line.starts_with("-untold")).count();
    assert_eq!(adds, deletes, "{lines:?}");
    assert_eq!(lister.len(), 1);
    informer.stop().await;
}

/// Passes a coalesced history directly to the filter.
#[test]
fn filter_decides_by_passed_keys_not_by_old_state() {
    let log = Log::new();
    let mut handler: Box<dyn EventHandler<ConfigMap>> = Box::new(FilteringEventHandler::new(
        Box::new(matches_filter) as Box<dyn FnMut(&Entry<ConfigMap>) -> bool + Send>,
        Box::new(handler_fn(log.writer())) as Box<dyn EventHandler<ConfigMap>>,
    ));
    let entry = |name, version, matches| Entry::from_object(object_that(name, name, version, matches));
    handler.on_add(&entry("passed", 1, true), true);
    handler.on_delete(&entry("passed", 3, false), Removal::Deleted);
    handler.on_add(&entry("ignored", 1, false), true);
    handler.on_delete(&entry("ignored", 3, true), Removal::FinalStateUnknown);
    assert_eq!(log.lines(), ["!passed@1", "-passed@3"]);
}

#[tokio::test(start_paused = true)]
async fn panicking_predicate_counts_as_handler_panic() {
    let fake = Fake::listing(5, &[object_that("a", "1", 3, true)]);
    let informer = fake.informer().build();
    let (log, all) = (Log::new(), Log::new());
    let test = |object: &Entry<ConfigMap>| {
        assert!(object.id.version != 6.into(), "event of version 6");
        matches_filter(object)
    };
    let filtered = informer.add_handler(FilteringEventHandler::new(test, handler_fn(log.writer())));
    let _all = informer.on_event(all.writer());
    informer.start();
    all.reach(1).await;
    fake.modified(object_that("a", "1", 6, false)).await;
    fake.modified(object_that("a", "1", 7, true)).await;
    fake.deleted(object_that("a", "1", 8, true)).await;
    assert_eq!(log.reach(3).await, ["!a@3", "~a@6>7", "-a@8"]);
    assert_eq!(filtered.panics(), 1);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_predicate_takes_effect_with_next_resync() {
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let log = Log::new();
    let mut calls = 0;
    let test = move |_: &Entry<ConfigMap>| {
        calls += 1;
        calls % 2 == 0
    };
    let handler = FilteringEventHandler::new(test, handler_fn(log.writer()));
    let minute = std::time::Duration::from_secs(60);
    let _filtered = informer.add_handler_with_resync(handler, Some(minute));
    informer.start();
    assert_eq!(log.reach(3).await, ["+a@3", "<a@3", "+a@3"]);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn closures_trait_objects_and_streams_get_same_events() {
    use futures_util::StreamExt;
    let fake = Fake::listing(5, &[object("a", "1", 3)]);
    let informer = fake.informer().build();
    let (closure, boxed) = (Log::new(), Log::new());
    let _closure = informer.on_event(closure.writer());
    let handler: Box<dyn EventHandler<ConfigMap>> = Box::new(handler_fn(boxed.writer()));
    let _boxed = informer.add_handler(handler);
    let mut events = informer.events();
    informer.start();
    closure.reach(1).await;
    fake.modified(object("a", "1", 6)).await;
    fake.deleted(object("a", "1", 7)).await;
    let expected = ["!a@3", "~a@3>6", "-a@7"];
    assert_eq!(closure.reach(3).await, expected);
    assert_eq!(boxed.reach(3).await, expected);
    let streamed: Vec<Event<ConfigMap>> = events.by_ref().take(3).collect().await;
    assert_eq!(streamed.iter().map(crate::log::short).collect::<Vec<_>>(), expected);
    informer.stop().await;
}

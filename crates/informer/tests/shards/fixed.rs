//! Tests of an informer whose slots do not change.

use std::time::Duration;

use kube_informer::{ReflectorOptions, Shard, ShardKey, Slot, SlotsError};
use kube_testserver::Verb;

use crate::stack::{COUNT, Stack, division, set};

#[tokio::test(start_paused = true)]
async fn cache_contains_exactly_the_objects_of_its_slots() {
    for (supported, streaming_lists) in [(false, false), (false, true), (true, false), (true, true)] {
        for key in [ShardKey::Namespace, ShardKey::Uid] {
            let options = ReflectorOptions { streaming_lists, ..ReflectorOptions::default() };
            let stack = Stack::with_options(supported, key, options);
            for number in 0..40 {
                stack.create(number % 8, &format!("map-{number}"));
            }
            stack.set([1, 2, 6]);
            stack.informer.start();
            stack.informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
            stack.agrees(set([1, 2, 6])).await;
            assert!(stack.seen.0.lock().log.iter().all(|line| line.starts_with("++")), "initial adds");
            for number in 0..40 {
                match number % 3 {
                    0 => stack.patch(number % 8, &format!("map-{number}"), "new"),
                    1 => stack.delete(number % 8, &format!("map-{number}")),
                    _ => stack.create(number % 8, &format!("new-{number}")),
                }
            }
            stack.agrees(set([1, 2, 6])).await;
            let selector = stack.selector([1, 2, 6]);
            let requests = [stack.selectors(Verb::List), stack.selectors(Verb::Watch)].concat();
            assert!(requests.iter().all(|sent| *sent == selector), "{requests:?}");
            stack.informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn informer_without_slots_sends_no_request_and_is_synced() {
    let stack = Stack::new(true, ShardKey::Namespace);
    stack.create(1, "map");
    stack.informer.start();
    stack.informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
    stack.idle().await;
    assert_eq!(stack.server.journal().requests().len(), 0);
    stack.set([1]);
    stack.agrees(set([1])).await;
    stack.set([]);
    stack.agrees(set([])).await;
    stack.idle().await;
    assert_eq!(stack.server.open_watches(), 0, "the watch is closed");
    assert_eq!(stack.take_log(), ["+map", "<map"]);
    let mark = stack.server.journal().mark();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(stack.server.journal().count_since(mark, |_| true), 0);
    stack.set([1, 2]);
    stack.agrees(set([1, 2])).await;
}

/// Many pages contain no object of the slots.
#[tokio::test(start_paused = true)]
async fn pages_of_other_slots_do_not_end_the_list() {
    let options = ReflectorOptions { page_size: Some(1), ..ReflectorOptions::default() };
    let stack = Stack::with_options(false, ShardKey::Namespace, options);
    for number in 0..60 {
        stack.create(4, &format!("map-{number}"));
    }
    stack.create(7, "wanted");
    stack.set([7]);
    stack.informer.start();
    stack.agrees(set([7])).await;
    stack.set([7, 6]);
    stack.agrees(set([6, 7])).await;
    assert_eq!(stack.informer.status().reflector.errors, 0, "{}", stack.informer.status());
}

#[tokio::test(start_paused = true)]
async fn invalid_slots_are_rejected() {
    let stack = Stack::new(true, ShardKey::Uid);
    let error = stack.informer.set_slots(set([1, 8, 9])).unwrap_err();
    assert!(matches!(error, SlotsError::UnknownSlot { slot: Slot(8), count: COUNT, .. }), "{error}");
    assert_eq!(stack.informer.shard(), Some(division(ShardKey::Uid)), "the set did not change");
    stack.set([1, 7]);
    assert_eq!(stack.informer.shard(), Some(Shard { slots: set([1, 7]), ..division(ShardKey::Uid) }));
    let api = kube_client::Api::<k8s_openapi::api::core::v1::ConfigMap>::all(kube_client::Client::new(
        stack.server.service(),
        "default",
    ));
    let whole = kube_informer::Informer::<k8s_openapi::api::core::v1::ConfigMap>::builder(api).build();
    assert!(matches!(whole.set_slots(set([1])), Err(SlotsError::NotSharded { .. })));
    assert!(matches!(whole.filled_slots(), Err(SlotsError::NotSharded { .. })));
    assert_eq!(
        (whole.shard(), whole.lister().covers(&"a/b".parse::<kube_informer::ObjectKey>().unwrap())),
        (None, Some(true))
    );
}

/// The reflector removes the objects of other slots if the source returns them.
#[tokio::test(start_paused = true)]
async fn source_without_shards_is_filtered() {
    let stack = Stack::build(true, ShardKey::Uid, ReflectorOptions::default(), true);
    (0..40).for_each(|number| stack.create(number % 8, &format!("map-{number}")));
    stack.set([1, 2]);
    stack.informer.start();
    stack.agrees(set([1, 2])).await;
    stack.set([2, 5]);
    (0..40).for_each(|number| stack.patch(number % 8, &format!("map-{number}"), "new"));
    stack.agrees(set([2, 5])).await;
    stack.informer.wait_for_latest(Duration::from_secs(10)).await.unwrap();
    assert!(stack.selectors(Verb::Watch).iter().all(String::is_empty));
}

#[tokio::test(start_paused = true)]
async fn events_of_other_slots_move_position() {
    for plain_source in [false, true] {
        let stack = Stack::build(false, ShardKey::Namespace, ReflectorOptions::default(), plain_source);
        stack.create(1, "map");
        stack.set([1]);
        stack.informer.start();
        stack.agrees(set([1])).await;
        stack.idle().await;
        stack.create(2, "other");
        stack.delete(2, "other");
        stack.idle().await;
        let last = stack.server.resource_version().to_string();
        let position = || stack.informer.status().watermark.unwrap().to_string();
        assert_eq!(position(), last);
        stack.server.journal().clear();
        stack.server.close_watches();
        stack.until("watch", |stack| !stack.selectors(Verb::Watch).is_empty()).await;
        let request = stack.server.journal().last(|request| request.info.verb == Verb::Watch).unwrap();
        assert_eq!(request.parameter("resourceVersion"), Some(last));
    }
}

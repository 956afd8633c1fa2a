//! Tests of reads from a sharded informer: listers, waits and a `CachedApi`.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_informer::{CachedApi, CachedReadError, LabelSelector, ObjectKey, ShardKey};
use kube_testserver::{Fault, RequestMatch, Verb};
use tokio::time::{Instant, timeout};

use crate::stack::{NAMESPACES, Stack, set};

async fn watching(supported: bool, key: ShardKey) -> Stack {
    let stack = Stack::new(supported, key);
    (0..8).for_each(|namespace| stack.create(namespace, &format!("a{namespace}")));
    stack.set([1, 2]);
    stack.informer.start();
    stack.agrees(set([1, 2])).await;
    stack.idle().await;
    stack
}

fn key(namespace: usize, name: &str) -> ObjectKey {
    ObjectKey::new(Some(NAMESPACES[namespace]), name)
}

#[tokio::test(start_paused = true)]
async fn lister_reports_covered_keys() {
    let stack = watching(true, ShardKey::Namespace).await;
    let lister = stack.informer.lister();
    assert_eq!(lister.covers(&key(1, "absent")), Some(true));
    assert_eq!(lister.covers(&key(3, "a3")), Some(false));
    stack.set([3]);
    stack.filled(set([3])).await;
    assert_eq!(
        (lister.covers(&key(1, "absent")), lister.covers(&key(3, "absent"))),
        (Some(false), Some(true))
    );
    let stack = watching(true, ShardKey::Uid).await;
    assert_eq!(
        stack.informer.lister().covers(&key(1, "absent")),
        None,
        "the key does not determine the slot"
    );
}

#[tokio::test(start_paused = true)]
async fn wait_for_latest_waits_for_held_slots_only() {
    for (supported, by) in [
        (false, ShardKey::Namespace),
        (true, ShardKey::Namespace),
        (false, ShardKey::Uid),
        (true, ShardKey::Uid),
    ] {
        let stack = watching(supported, by).await;
        for round in 0..8 {
            (0..8).for_each(|namespace| stack.patch(namespace, &format!("a{namespace}"), &round.to_string()));
            let expected = stack.on_server(set([1, 2]));
            // The last write belongs to another slot.
            stack.patch(7, "a7", &format!("{round} again"));
            let began = Instant::now();
            stack.informer.wait_for_latest(Duration::from_secs(20)).await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            assert!(by == ShardKey::Uid || stack.cached() == expected);
        }
        let selector = stack.selector([1, 2]);
        assert!(stack.selectors(Verb::Watch).iter().all(|sent| *sent == selector), "also the short watches");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_latest_returns_without_slots() {
    let stack = Stack::new(true, ShardKey::Namespace);
    stack.informer.start();
    stack.informer.wait_for_latest(Duration::from_secs(1)).await.unwrap();
}

/// The watch does not deliver the last event of the short watch, because its slot was lost.
#[tokio::test(start_paused = true)]
async fn wait_for_latest_does_not_wait_for_lost_slots() {
    let stack = watching(true, ShardKey::Namespace).await;
    stack.server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Reset);
    stack.server.close_watches();
    stack.until("fault", |stack| stack.server.faults().pending() == 0).await;
    stack.patch(1, "a1", "unseen");
    let wait = stack.informer.wait_for_latest(Duration::from_secs(50));
    let lose = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        stack.set([2]);
    };
    let began = Instant::now();
    let (waited, ()) = futures_util::future::join(wait, lose).await;
    waited.unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

fn map(namespace: usize, name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some(NAMESPACES[namespace].to_owned());
    map
}

fn api(stack: &Stack, namespace: usize) -> CachedApi<ConfigMap> {
    let client = Client::new(stack.server.service(), "default");
    CachedApi::new(Api::namespaced(client, NAMESPACES[namespace]), &stack.informer)
}

#[tokio::test(start_paused = true)]
async fn reads_wait_only_for_writes_to_held_slots() {
    for supported in [false, true] {
        let stack = watching(supported, ShardKey::Namespace).await;
        let (held, other) = (api(&stack, 1), api(&stack, 6));
        held.create(&PostParams::default(), &map(1, "new")).await.unwrap();
        assert!(held.get("new").await.unwrap().is_some());
        let began = Instant::now();
        let written = other.create(&PostParams::default(), &map(6, "new")).await.unwrap();
        assert_eq!((other.selects(&written), held.selects(&map(1, "x"))), (Some(false), Some(true)));
        let error = other.get("new").await.unwrap_err();
        assert!(matches!(error, CachedReadError::OtherSlot { .. }), "{error}");
        let error = other.list(&"".parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, CachedReadError::OtherSlot { .. }), "{error}");
        assert!(held.get("absent").await.unwrap().is_none(), "the absence is proved");
        assert!(held.lister().await.is_ok());
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    }
}

/// The watch does not deliver a recorded write after its slot was lost.
#[tokio::test(start_paused = true)]
async fn read_does_not_wait_for_write_to_lost_slot() {
    let stack = watching(true, ShardKey::Namespace).await;
    stack.server.faults().times(2, &RequestMatch::verb(Verb::Watch), &Fault::Reset);
    stack.server.close_watches();
    stack.until("fault", |stack| stack.server.faults().pending() <= 1).await;
    let api = api(&stack, 1);
    api.create(&PostParams::default(), &map(1, "new")).await.unwrap();
    let (read, all) = (api.get("new"), api.lister());
    let lose = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        stack.set([2]);
    };
    let reads = async { futures_util::future::join3(read, all, lose).await };
    let (read, all, ()) = timeout(Duration::from_millis(500), reads).await.expect("the reads stop waiting");
    let is_other = |error| matches!(error, CachedReadError::OtherSlot { .. });
    assert!(read.is_err_and(is_other) && all.is_ok());
    assert!(api.get("new").await.is_err_and(is_other));
}

/// An empty result would say that no other object exists.
#[tokio::test(start_paused = true)]
async fn list_of_several_slots_is_an_error() {
    let incomplete = |error| matches!(error, CachedReadError::IncompleteList { .. });
    let selector = LabelSelector::default();
    for key in [ShardKey::Namespace, ShardKey::Name, ShardKey::Uid] {
        let stack = watching(false, key).await;
        let api = api(&stack, 1);
        let all = api.with_api(Api::all(Client::new(stack.server.service(), "default")));
        assert!(all.list(&selector).await.is_err_and(incomplete), "{key:?}");
        assert_eq!(api.list(&selector).await.is_err_and(incomplete), key != ShardKey::Namespace, "{key:?}");
        stack.set(0..8);
        stack.filled(set(0..8)).await;
        assert!(
            !all.list(&selector).await.unwrap().is_empty() && api.list(&selector).await.is_ok(),
            "{key:?}"
        );
        assert_eq!(api.get("absent").await.unwrap(), None, "each slot is cached");
    }
}

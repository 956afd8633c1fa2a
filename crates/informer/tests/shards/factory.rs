//! Tests of a factory whose informers cache only the objects of some slots.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::Client;
use kube_informer::{AnyInformer, FactoryError, InformerFactory, KeyRef, Lazy, ShardKey, SlotCount, SlotSet};
use kube_testserver::Server;
use serde_json::json;

use crate::stack::{COUNT, NAMESPACES, set};

const TIMEOUT: Duration = Duration::from_secs(60);

fn server() -> Server {
    let server = Server::new();
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(&namespace).unwrap();
        let metadata = json!({"name": "a", "namespace": name});
        server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
    server
}

fn factory(server: &Server, key: ShardKey) -> InformerFactory {
    let client = Client::new(server.service(), "default");
    InformerFactory::new(client).sharded(key, SlotCount::new(COUNT).unwrap())
}

async fn filled(informer: &AnyInformer, slots: SlotSet) {
    let mut filled = informer.filled_slots().unwrap();
    tokio::time::timeout(TIMEOUT, filled.wait_for(|filled| *filled == slots)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn informers_of_a_factory_share_their_slots() {
    let server = server();
    let factory = factory(&server, ShardKey::Namespace);
    let mut changes = factory.informers_changed();
    let maps = factory.informer::<ConfigMap>().unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    factory.start();
    factory.wait_for_sync(TIMEOUT).await.unwrap();
    assert_eq!(maps.lister().len(), 0, "no slot is requested");

    for informer in factory.informers() {
        informer.set_slots(set([1, 2])).unwrap();
        filled(&informer, set([1, 2])).await;
    }
    assert_eq!(maps.lister().len(), 2);

    // A later informer has the same slots, and is synced only after they are filled.
    let lazy = factory.informer::<Lazy<ConfigMap>>().unwrap();
    assert!(changes.has_changed().unwrap());
    lazy.wait_for_sync(TIMEOUT).await.unwrap();
    assert_eq!(lazy.lister().len(), 2);
    for informer in factory.informers() {
        informer.set_slots(set([3])).unwrap();
        filled(&informer, set([3])).await;
    }
    assert_eq!((maps.lister().len(), lazy.lister().len()), (1, 1));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn selection_of_all_slots_is_another_informer() {
    let server = server();
    let factory = factory(&server, ShardKey::Namespace);
    let some = factory.informer::<ConfigMap>().unwrap();
    let all = factory.select::<ConfigMap>().all_slots().informer().unwrap();
    assert_ne!(some.id(), all.id());
    assert_ne!(some.name(), all.name());
    assert!(all.shard().is_none());
    factory.start();
    factory.wait_for_sync(TIMEOUT).await.unwrap();
    assert_eq!((some.lister().len(), all.lister().len()), (0, NAMESPACES.len()));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn slot_label_is_part_of_the_requests_of_sharded_informers() {
    let server = server();
    let count = SlotCount::new(COUNT).unwrap();
    for name in NAMESPACES {
        let slot = count.slot_of_key(ShardKey::Namespace, KeyRef::new(Some(name), "b")).unwrap();
        let metadata =
            json!({"name": "b", "namespace": name, "labels": {"example.com/slot": slot.to_string()}});
        server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    }
    let factory = factory(&server, ShardKey::Namespace);
    let labelled = || factory.select::<ConfigMap>().slot_label("example.com/slot");
    let informer = labelled().informer().unwrap();
    assert_ne!(informer.id(), factory.informer::<ConfigMap>().unwrap().id());
    assert!(informer.name().ends_with(" of some slots in label example.com/slot"), "{}", informer.name());
    let error = factory.select::<ConfigMap>().slot_label("a=b").informer().err();
    assert!(matches!(error, Some(FactoryError::InvalidSelector { .. })), "{error:?}");
    let all = labelled().all_slots().informer().unwrap();
    assert_eq!(all.id(), factory.select::<ConfigMap>().all_slots().informer().unwrap().id(), "not sharded");

    factory.start();
    let mut total = 0;
    for slots in [set([0, 1]), set([2, 3])] {
        for informer in factory.informers().iter().filter(|informer| informer.shard().is_some()) {
            informer.set_slots(slots).unwrap();
            filled(informer, slots).await;
        }
        assert!(informer.lister().keys().iter().all(|key| key.name() == "b"));
        total += informer.lister().len();
    }
    let expected = NAMESPACES.iter().filter(|name| {
        set([0, 1, 2, 3])
            .contains(count.slot_of_key(ShardKey::Namespace, KeyRef::new(Some(name), "b")).unwrap())
    });
    assert_eq!(total, expected.count());
    let queries: Vec<String> =
        server.journal().requests().iter().map(|request| request.query.clone()).collect();
    let has_slots = |slots: &str| queries.iter().any(|query| query.contains(slots));
    assert!(has_slots("slot+in+%280%2C1%29") && has_slots("slot+in+%282%2C3%29"), "{queries:?}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_types_are_sharded_only_by_uid() {
    let server = server();
    for (key, is_sharded) in [(ShardKey::Namespace, false), (ShardKey::Uid, true)] {
        let namespaces = factory(&server, key).informer::<Namespace>().unwrap();
        assert_eq!(namespaces.shard().is_some(), is_sharded, "{key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn informer_reaches_the_version_of_a_later_write() {
    let server = server();
    let factory = factory(&server, ShardKey::Namespace);
    factory.informer::<ConfigMap>().unwrap();
    let informer = factory.informers().remove(0);
    informer.set_slots(set([1])).unwrap();
    factory.start();
    filled(&informer, set([1])).await;
    // The object belongs to another slot.
    let patch = json!({"data": {"key": "value"}});
    let patched = server.patch_untyped("v1", "ConfigMap", Some(NAMESPACES[5]), "a", &patch).unwrap();
    let version = patched["metadata"]["resourceVersion"].as_str().unwrap().into();
    let waited = tokio::time::timeout(Duration::from_secs(1), informer.wait_for_version(&version));
    waited.await.expect("the event arrives before the next bookmark");
    factory.shutdown().await;
}

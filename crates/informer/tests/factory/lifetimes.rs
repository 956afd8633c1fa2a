//! Tests the lifetimes of reference-counted, removed, stopped and adopted informers of a factory.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_informer::{Event, FactoryError, Informer, ListWatch, Phase, handler_fn};
use parking_lot::Mutex;

use crate::{WITHIN, client, factory, server, watched};

#[tokio::test(start_paused = true)]
async fn ref_counted_informer_stops_when_unused() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let first = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    let second = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    second.wait_for_sync(WITHIN).await.unwrap();
    let until_open = async |watches| {
        while server.open_watches() != watches {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    until_open(1).await;
    drop(first);
    let registration = second.on_event(|_| {});
    drop(second);
    tokio::time::sleep(WITHIN).await;
    assert_eq!((server.open_watches(), factory.status().len()), (1, 1), "a registration keeps the informer");
    registration.remove().await;
    until_open(0).await;
    assert_eq!(factory.status().len(), 0);
    let lister = factory.select::<ConfigMap>().ref_counted_informer().unwrap().lister();
    until_open(1).await;
    assert_eq!(lister.len(), 3, "the request returns a new informer");
    factory.shutdown().await;
    assert_eq!(server.open_watches(), 0);
}

/// A lister or a registration keeps an informer alive, even before the start.
#[tokio::test(start_paused = true)]
async fn ref_counted_informer_waits_for_factory_start() {
    let server = server();
    let factory = factory(&server);
    let lister = factory.select::<ConfigMap>().ref_counted_informer().unwrap().lister();
    let calls = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&calls);
    let registration = factory
        .select::<ConfigMap>()
        .labels("app=web")
        .ref_counted_informer()
        .unwrap()
        .on_event(move |_| *counter.lock() += 1);
    drop(factory.select::<ConfigMap>().labels("app=db").ref_counted_informer().unwrap());
    assert_eq!(factory.status().len(), 2, "the third informer was dropped");
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(lister.len(), 3);
    tokio::time::sleep(WITHIN).await;
    assert_eq!((*calls.lock(), server.open_watches()), (2, 2));
    drop(lister);
    tokio::time::sleep(WITHIN).await;
    assert_eq!(
        (factory.status().len(), server.open_watches()),
        (1, 1),
        "the start does not keep informers alive"
    );
    drop(registration);
    tokio::time::sleep(WITHIN).await;
    assert_eq!((factory.status().len(), server.open_watches()), (0, 0));
    factory.shutdown().await;
}

/// A detached handler belongs to its informer and does not keep it running.
#[tokio::test(start_paused = true)]
async fn detached_handler_ends_with_its_informer() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let informer = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    let calls = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&calls);
    informer.on_event(move |_| *counter.lock() += 1).detach();
    informer.wait_for_sync(WITHIN).await.unwrap();
    tokio::time::sleep(WITHIN).await;
    assert_eq!((*calls.lock(), Arc::strong_count(&calls)), (3, 2));
    drop(informer);
    tokio::time::sleep(WITHIN).await;
    assert_eq!((factory.status().len(), server.open_watches()), (0, 0));
    assert_eq!(Arc::strong_count(&calls), 1, "the handler was not dropped");
}

/// The factory owns its informers. When it is dropped, they stop.
#[tokio::test(start_paused = true)]
async fn dropped_factory_stops_its_unused_informers() {
    let server = server();
    let factory = factory(&server);
    let lister = factory.informer::<ConfigMap>().unwrap().lister();
    factory.select::<ConfigMap>().labels("app=web").informer().unwrap().on_event(|_| ()).detach();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    tokio::time::sleep(WITHIN).await;
    assert_eq!(server.open_watches(), 2);
    drop(factory);
    tokio::time::sleep(WITHIN).await;
    assert_eq!(server.open_watches(), 1, "the lister keeps its informer");
    drop(lister);
    tokio::time::sleep(WITHIN).await;
    assert_eq!(server.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_before_start_stops_held_informers() {
    let factory = factory(&server());
    let lister = factory.select::<ConfigMap>().ref_counted_informer().unwrap().lister();
    let _detached =
        factory.select::<ConfigMap>().labels("app=web").ref_counted_informer().unwrap().on_event(|_| {});
    tokio::time::timeout(WITHIN, factory.shutdown())
        .await
        .expect("a shutdown must not wait for unstarted informers");
    assert!(!lister.is_synced());
}

#[tokio::test(start_paused = true)]
async fn informer_also_requested_without_ref_count_is_kept() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let counted = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    drop(factory.informer::<ConfigMap>().unwrap());
    drop(counted);
    tokio::time::sleep(WITHIN).await;
    assert_eq!((server.open_watches(), factory.status().len()), (1, 1));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn removed_informer_is_stopped_and_replaced_on_request() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let removed = factory.informer::<ConfigMap>().unwrap();
    removed.wait_for_sync(WITHIN).await.unwrap();
    assert!(factory.select::<ConfigMap>().remove().await);
    assert_eq!((server.open_watches(), removed.status().reflector.phase), (0, Phase::Stopped));
    assert!(!factory.select::<ConfigMap>().remove().await);
    assert_eq!(removed.lister().len(), 3, "the cache can still be read");
    let second_request = factory.informer::<ConfigMap>().unwrap();
    second_request.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(watched(&server, "watch", "true"), 2);
    factory.shutdown().await;
}

/// Property 20: a shutdown waits for all tasks of the factory, including tasks of earlier
/// informers.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_tasks_of_earlier_informers() {
    for case in ["stopped", "removed", "dropped"] {
        let server = server();
        let factory = factory(&server);
        factory.start();
        let old = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
        let (called, mut in_a_call) = tokio::sync::mpsc::channel(16);
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let blocks = move |_: &Event<ConfigMap>| {
            _ = called.try_send(());
            _ = goes_on.recv();
        };
        let registration = old.add_blocking_handler(handler_fn(blocks)).unwrap();
        in_a_call.recv().await.unwrap();
        match case {
            "stopped" => assert!(old.stop().now_or_never().is_none()),
            "removed" => assert!(factory.select::<ConfigMap>().remove().now_or_never().is_none()),
            _ => assert!(registration.remove().now_or_never().is_none()),
        }
        drop(old);
        let new = factory.informer::<ConfigMap>().unwrap();
        new.wait_for_sync(WITHIN).await.unwrap();
        let mut shutdown = std::pin::pin!(factory.shutdown());
        let early = tokio::time::timeout(WITHIN, &mut shutdown).await;
        assert!(early.is_err(), "{case}: a handler is still being called");
        assert!(
            tokio::time::timeout(WITHIN, factory.shutdown()).await.is_err(),
            "{case}: the other call also waits"
        );
        drop(go_on);
        shutdown.await;
        factory.shutdown().await;
    }
}

/// The cache of a stopped informer is never updated again, so the factory must not return it.
#[tokio::test(start_paused = true)]
async fn stopped_informer_is_not_returned_by_factory() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let stopped = factory.informer::<ConfigMap>().unwrap();
    stopped.wait_for_sync(WITHIN).await.unwrap();
    stopped.stop().await;
    let second_request = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    second_request.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!((second_request.status().reflector.phase, server.open_watches()), (Phase::Watching, 1));
    assert_eq!(factory.status().len(), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn adopted_informer_is_started_reported_and_stopped() {
    let (server, elsewhere) = (server(), server());
    let (factory, other) = (factory(&server), factory(&elsewhere));
    let own = factory.informer::<ConfigMap>().unwrap();
    let built = other.informer::<ConfigMap>().unwrap();
    for _ in 0..2 {
        factory.adopt(&own).unwrap();
        factory.adopt(&built).unwrap();
    }
    assert_eq!(factory.status().len(), 2, "own and adopted informers are not adopted again");
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(built.lister().len(), 3);
    let late: Informer<ConfigMap> =
        Informer::from_source(ListWatch::new(Api::all(client(&elsewhere)))).build();
    factory.adopt(&late).unwrap();
    late.wait_for_sync(WITHIN).await.expect("the factory is started");
    factory.shutdown().await;
    assert_eq!((server.journal().unanswered(), elsewhere.journal().unanswered()), (0, 0));
    assert!(matches!(factory.adopt(&late), Err(FactoryError::ShutDown(_))));
    assert!(factory.status().is_empty());
}

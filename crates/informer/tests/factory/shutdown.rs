//! Tests which informers a shutdown stops, and for which tasks it waits.

use std::{future::Future, sync::Arc};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_informer::{Event, Informer, InformerFactory, ListWatch, Phase, handler_fn};
use parking_lot::Mutex;

use crate::{WITHIN, client, factory, server};

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, future).await.expect("the call did not return")
}

/// Invariant: a call that panics because it runs within an index function changes nothing.
#[tokio::test(start_paused = true)]
async fn call_refused_in_index_function_can_be_repeated() {
    type Call = fn(&InformerFactory);
    let calls: [(&str, Call); 3] = [
        ("shutdown", |factory| _ = factory.shutdown().now_or_never()),
        ("remove", |factory| _ = factory.select::<ConfigMap>().labels("app=web").remove().now_or_never()),
        ("start", InformerFactory::start),
    ];
    for (name, call) in calls {
        let server = server();
        let factory = factory(&server);
        let before = factory.informer::<ConfigMap>().unwrap();
        let caller = factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
        let after = factory.select::<ConfigMap>().labels("app=db").informer().unwrap();
        let same = factory.clone();
        let index = move |_: &ConfigMap| {
            call(&same);
            Some(1)
        };
        caller.add_index("caller", index).unwrap();
        caller.start();
        in_time(caller.wait_for_sync(WITHIN)).await.unwrap();
        assert_eq!(caller.lister().stats().index_panics, 2, "{name} is refused");
        assert_eq!(factory.status().len(), 3, "{name} removed an informer");
        assert_eq!(before.status().reflector.phase, Phase::Idle, "{name} changed another informer");
        factory.start();
        in_time(factory.wait_for_sync(WITHIN)).await.unwrap();
        assert!(in_time(factory.select::<ConfigMap>().labels("app=web").remove()).await, "{name}");
        in_time(factory.shutdown()).await;
        assert!([before, caller, after].iter().all(Informer::is_stopped), "{name}");
        assert_eq!(server.open_watches(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_poll_of_shutdown_stops_all_informers() {
    let factory = factory(&server());
    let of = |n: usize| factory.select::<ConfigMap>().namespace(format!("n{n}")).informer().unwrap();
    let informers: Vec<_> = (0..100).map(of).collect();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    assert!(factory.shutdown().now_or_never().is_none());
    assert!(informers.iter().all(Informer::is_stopped));
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn second_shutdown_waits_for_adopted_informers() {
    let factory = factory(&server());
    let adopted: Informer<ConfigMap> =
        Informer::from_source(ListWatch::new(Api::all(client(&server())))).build();
    factory.adopt(&adopted).unwrap();
    let (called, mut in_a_call) = tokio::sync::mpsc::channel(16);
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let goes_on = Arc::new(Mutex::new(goes_on));
    let blocks = move |_: &Event<ConfigMap>| {
        _ = called.try_send(());
        _ = goes_on.lock().recv();
    };
    adopted.add_blocking_handler(handler_fn(blocks)).unwrap().detach();
    factory.start();
    in_a_call.recv().await.unwrap();
    drop(adopted);
    let mut running = std::pin::pin!(factory.shutdown());
    assert!((&mut running).now_or_never().is_none(), "the handler is being called");
    for call in ["concurrent", "later"] {
        let shutdown = tokio::time::timeout(WITHIN, factory.shutdown()).await;
        assert!(shutdown.is_err(), "the {call} shutdown did not wait");
    }
    assert!(factory.status().is_empty());
    drop(go_on);
    running.await;
    in_time(factory.shutdown()).await;
}

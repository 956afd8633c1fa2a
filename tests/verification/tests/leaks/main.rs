//! Creates and drops informers, handlers, indexes, streams, namespaces and reads repeatedly.
//! Afterwards, the process must have the same memory and the same tasks as before.
//!
//! A counting allocator counts the bytes, so each test of this file runs alone in one test function.

mod stub;

use std::{
    alloc::System,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_informer::{
    CachedApi, Entry, Event, FilteringEventHandler, Informer, InformerFactory, LabelSelector, Object,
    ObjectKey, ReflectorOptions, Uid, handler_fn,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::runtime::Handle;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rounds before the first measurement. They fill caches and grow tables that keep their capacity.
const WARM_UP: usize = 300;
const ROUNDS: usize = 500;
const WITHIN: Duration = Duration::from_secs(60);

/// The live bytes and the live tasks of the process.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    bytes: isize,
    tasks: usize,
}

fn usage() -> Usage {
    let stats = ALLOCATOR.stats();
    let bytes =
        isize::try_from(stats.bytes_allocated).unwrap() - isize::try_from(stats.bytes_deallocated).unwrap();
    Usage { bytes, tasks: Handle::current().metrics().num_alive_tasks() }
}

/// Lets tasks that were cancelled complete.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

/// Runs a round repeatedly, and compares the usage before and after.
async fn assert_no_leak<F: Future<Output = ()>>(name: &str, mut round: impl FnMut(usize) -> F) {
    for number in 0..WARM_UP {
        round(number).await;
    }
    settle().await;
    let before = usage();
    for number in 0..ROUNDS {
        round(WARM_UP + number).await;
    }
    settle().await;
    assert_eq!(usage(), before, "{name}: usage after and before {ROUNDS} rounds");
}

fn options() -> ReflectorOptions {
    ReflectorOptions { streaming_lists: false, seed: Some(1), ..ReflectorOptions::default() }
}

fn factory() -> InformerFactory {
    InformerFactory::new(stub::client()).reflector_options(options())
}

async fn started() -> (InformerFactory, Informer<ConfigMap>) {
    let factory = factory();
    let informer = factory.informer::<ConfigMap>().unwrap();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    (factory, informer)
}

#[test]
fn usage_returns_to_its_start() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        informers_of_namespaces().await;
        informers_that_never_start().await;
        factories().await;
        subscribers().await;
        namespaces().await;
        reads().await;
        writes_of_stopped_informer().await;
        joins_and_resyncs_of_large_cache().await;
    });
}

/// Reference-counted informers of namespaces that are created and deleted.
async fn informers_of_namespaces() {
    let factory = factory();
    factory.start();
    let round = |number: usize| {
        let selection = factory.select::<ConfigMap>().namespace(format!("namespace-{number:06}"));
        async move {
            let informer = selection.ref_counted_informer().unwrap();
            informer.wait_for_sync(WITHIN).await.unwrap();
            assert_eq!(informer.lister().len(), stub::OBJECTS);
        }
    };
    assert_no_leak("informers of namespaces", round).await;
    factory.shutdown().await;
}

/// Informers of a factory that is not started.
async fn informers_that_never_start() {
    let factory = factory();
    let round = |number: usize| {
        let selection = factory.select::<ConfigMap>().namespace(format!("namespace-{number:06}"));
        async move {
            let informer = selection.ref_counted_informer().unwrap();
            let registration = informer.on_event(|_| ());
            registration.remove().await;
        }
    };
    assert_no_leak("informers that never start", round).await;
}

/// Factories that are shut down, or dropped while their informers run.
async fn factories() {
    let round = |number: usize| async move {
        let (factory, informer) = started().await;
        let _handler = informer.on_event(|_| ());
        // The function, its lister and the cache refer to each other until the informer stops.
        let lister = informer.lister();
        let is_cached = move |map: &ConfigMap| [lister.get_by_key(map.id().key).is_some()];
        informer.add_index("is cached", is_cached).unwrap();
        if number.is_multiple_of(2) {
            factory.shutdown().await;
        } else {
            informer.stop().await;
        }
    };
    assert_no_leak("factories", round).await;
}

/// Handlers, streams and indexes of one informer. An index cannot be removed, so each round has a new
/// informer.
async fn subscribers() {
    let round = |_: usize| async move {
        let (factory, informer) = started().await;
        let by_name = informer.add_index("name", |map: &ConfigMap| map.metadata.name.clone()).unwrap();
        let mut stream = informer.events();
        futures_util::StreamExt::next(&mut stream).await.unwrap();
        let filter = FilteringEventHandler::new(
            |map: &Entry<ConfigMap>| map.key().name() != "a",
            handler_fn(|_: &Event<ConfigMap>| ()),
        );
        let registrations = [
            informer.on_event(|_| ()),
            informer.add_handler(filter),
            informer.add_backpressured_handler(handler_fn(|_: &Event<ConfigMap>| ())),
            informer.add_handler_with_resync(handler_fn(|_: &Event<ConfigMap>| ()), Some(WITHIN)),
        ];
        for registration in registrations {
            assert!(registration.wait_for_sync(WITHIN).await);
            registration.remove().await;
        }
        assert_eq!(by_name.get("a").len(), 1);
        drop((by_name, stream));
        factory.shutdown().await;
    };
    assert_no_leak("subscribers", round).await;
    let (factory, informer) = started().await;
    let informer = &informer;
    let round = |_: usize| async move {
        let registration = informer.on_event(|_| ());
        assert!(registration.wait_for_sync(WITHIN).await);
        registration.remove().await;
        drop(informer.events());
    };
    assert_no_leak("handlers of one informer", round).await;
    factory.shutdown().await;
}

/// Namespaces of one `MultiNamespaceInformer`.
async fn namespaces() {
    let factory = factory();
    factory.start();
    let maps = factory.select::<ConfigMap>().namespaces(["first"]).unwrap();
    let registration = maps.add_handler(handler_fn(|_: &Event<ConfigMap>| ()));
    let maps = &maps;
    let round = |number: usize| async move {
        let namespace = format!("namespace-{number:06}");
        assert!(maps.add_namespace(&namespace).await.unwrap());
        maps.wait_for_sync(WITHIN).await.unwrap();
        assert!(maps.remove_namespace(&namespace).await);
    };
    assert_no_leak("namespaces", round).await;
    registration.remove().await;
    factory.shutdown().await;
}

/// The objects of a large cache, and the bound of the memory that all its handlers need together.
const LARGE: usize = 20_000;
const BOUND: isize = 1 << 20;

/// The initial adds and the resyncs of handlers are created in pages.
async fn joins_and_resyncs_of_large_cache() {
    let factory = InformerFactory::new(stub::client_of(LARGE)).reflector_options(options());
    let informer = factory.informer::<ConfigMap>().unwrap();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    settle().await;
    let before = usage().bytes;
    let measured = Arc::new(Measured { calls: AtomicUsize::new(0), highest: AtomicIsize::new(before) });
    let registrations: Vec<_> = (0..6)
        .map(|_| {
            let measured = Arc::clone(&measured);
            let count = handler_fn(move |_: &Event<ConfigMap>| {
                measured.calls.fetch_add(1, Relaxed);
                measured.highest.fetch_max(usage().bytes, Relaxed);
            });
            informer.add_handler_with_resync(count, Some(Duration::from_secs(600)))
        })
        .collect();
    let joined = usage().bytes - before;
    assert!(joined < BOUND, "six handlers of {LARGE} objects need {joined} bytes to join");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert_eq!(
        measured.calls.load(Relaxed),
        6 * 2 * LARGE,
        "each handler receives its initial adds and one resync"
    );
    let needed = measured.highest.load(Relaxed) - before;
    assert!(needed < BOUND, "joins and resyncs of {LARGE} objects need {needed} bytes");
    drop(registrations);
    factory.shutdown().await;
}

/// The calls of all handlers, and the highest number of live bytes during a call.
struct Measured {
    calls: AtomicUsize,
    highest: AtomicIsize,
}

async fn reads() {
    let (factory, informer) = started().await;
    let by_name = informer.add_index("name", |map: &ConfigMap| map.metadata.name.clone()).unwrap();
    let (informer, by_name) = (&informer, &by_name);
    let round = |_: usize| async move {
        let lister = informer.lister();
        let snapshot = lister.snapshot();
        assert_eq!(lister.list(&LabelSelector::everything()).len(), stub::OBJECTS);
        assert_eq!((snapshot.len(), by_name.get("a").len()), (stub::OBJECTS, 1));
        assert!(lister.wait_until(&1_000_000.into(), Duration::from_secs(1)).await.is_err());
    };
    assert_no_leak("reads", round).await;
    factory.shutdown().await;
}

/// Writes that are recorded after the stop. The cache never shows them.
async fn writes_of_stopped_informer() {
    let (factory, informer) = started().await;
    let maps = &CachedApi::new(Api::all(stub::client()), &informer);
    factory.shutdown().await;
    let round = |number: usize| async move {
        let (name, uid) = (format!("map-{number:06}"), format!("{number:06}"));
        let (key, deleted) = (ObjectKey::new(None, &name), Uid::new(&uid));
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name);
        map.metadata.uid = Some(uid);
        map.metadata.resource_version = Some(format!("{}", 1_000_000 + number));
        maps.record_write(&map);
        maps.record_delete(key, deleted);
    };
    assert_no_leak("writes of a stopped informer", round).await;
}

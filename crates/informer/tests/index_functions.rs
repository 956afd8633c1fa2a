//! Tests index functions that call methods of their informer, or drop its registrations and streams.

use std::{
    future::Future,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{
    CachedApi, Event, EventStream, HandlerRegistration, Informer, InformerFactory, MultiNamespaceInformer,
    MultiNamespaceRegistration, ResourceVersion, handler_fn,
};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Builder;

const WITHIN: Duration = Duration::from_secs(30);

fn config_map(server: &Server, name: &str) {
    config_map_in(server, "default", name);
}

fn config_map_in(server: &Server, namespace: &str, name: &str) {
    let metadata = json!({"name": name, "namespace": namespace});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

/// Returns a server with one ConfigMap, and a factory for the namespace of this object.
fn server() -> (Server, InformerFactory) {
    let server = Server::new();
    config_map(&server, "first");
    let factory = InformerFactory::new(Client::new(server.service(), "default")).namespace("default");
    (server, factory)
}

/// Values that an index function takes.
struct Slot<V>(Arc<Mutex<Vec<V>>>);

impl<V: Send + 'static> Slot<V> {
    /// Adds an index whose function takes the values and passes them to `take`.
    fn index(informer: &Informer<ConfigMap>, take: impl Fn(V) + Send + Sync + 'static) -> Self {
        let values = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&values);
        let function = move |_: &ConfigMap| {
            let values = std::mem::take(&mut *taken.lock());
            values.into_iter().for_each(&take);
            Some(1)
        };
        informer.add_index("takes", function).unwrap();
        Self(values)
    }

    fn push(&self, value: V) {
        self.0.lock().push(value);
    }
}

/// Waits until the cache contains the object with this name, and until all handlers were called.
async fn wait_for(informer: &Informer<ConfigMap>, name: &str) {
    while informer.lister().namespace("default").get(name).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn counts(calls: &Arc<AtomicUsize>) -> impl FnMut(&Event<ConfigMap>) + Send + 'static {
    let calls = Arc::clone(calls);
    move |_| _ = calls.fetch_add(1, Ordering::SeqCst)
}

/// Runs a test on another thread. A deadlock therefore fails the test, and does not block it.
fn without_deadlock<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let running = std::thread::spawn(move || {
        Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(test());
        done.send(()).unwrap();
    });
    match finished.recv_timeout(WITHIN) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a deadlock"),
        _ => running.join().unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_dropped_in_index_function_is_removed() {
    let (server, factory) = server();
    let informer = factory.informer::<ConfigMap>().unwrap();
    let handlers = Slot::index(&informer, drop::<HandlerRegistration<ConfigMap>>);
    let kept = Arc::new(AtomicUsize::new(0));
    let _kept = informer.on_event(counts(&kept));
    factory.start();
    wait_for(&informer, "first").await;
    let (streams, lister) = (Arc::new(Mutex::new(Vec::<EventStream<ConfigMap>>::new())), informer.lister());
    let dropped = Arc::clone(&streams);
    informer.add_index("drops", move |_: &ConfigMap| dropped.lock().pop().map(|_| lister.len())).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    for number in 0..3 {
        let registration = informer.on_event(counts(&calls));
        assert!(registration.wait_for_sync(WITHIN).await);
        handlers.push(registration);
        streams.lock().push(informer.events());
        assert_eq!(informer.status().handlers.len(), 3);
        config_map(&server, &format!("late{number}"));
        wait_for(&informer, &format!("late{number}")).await;
        assert_eq!(informer.status().handlers.len(), 1, "a dropped subscriber is registered");
        assert_eq!(Arc::strong_count(&calls), 1, "the handler was not dropped");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1 + 2 + 3, "a handler was called after its drop");
    assert_eq!(kept.load(Ordering::SeqCst), 4);
    assert_eq!(informer.lister().stats().index_panics, 0);
    factory.shutdown().await;
}

/// Without the refusal, each of these calls waits until the index function has returned.
#[tokio::test(start_paused = true)]
async fn removal_in_index_function_is_refused_and_handler_removed() {
    type Removal = fn(HandlerRegistration<ConfigMap>);
    let removals: [(&str, Removal); 2] = [
        ("remove", |registration| _ = registration.remove().now_or_never()),
        ("remove_after_delivery", |registration| _ = registration.remove_after_delivery().now_or_never()),
    ];
    for (name, remove) in removals {
        let (server, factory) = server();
        let informer = factory.informer::<ConfigMap>().unwrap();
        let slot = Slot::index(&informer, remove);
        factory.start();
        wait_for(&informer, "first").await;
        let calls = Arc::new(AtomicUsize::new(0));
        let registration = informer.on_event(counts(&calls));
        assert!(registration.wait_for_sync(WITHIN).await);
        slot.push(registration);
        config_map(&server, "second");
        wait_for(&informer, "second").await;
        assert_eq!(informer.lister().stats().index_panics, 1, "{name} is refused");
        assert_eq!(informer.status().handlers.len(), 0, "{name}");
        assert_eq!((calls.load(Ordering::SeqCst), Arc::strong_count(&calls)), (1, 1), "{name}");
        factory.shutdown().await;
    }
}

/// On a runtime with one thread, a call that blocks the index function would never return.
#[tokio::test(start_paused = true)]
async fn wait_in_index_function_is_refused() {
    type Wait = fn(&Informer<ConfigMap>, &CachedApi<ConfigMap>, &HandlerRegistration<ConfigMap>);
    let waits: [(&str, Wait); 6] = [
        ("wait_for_sync", |informer, _, _| _ = informer.wait_for_sync(WITHIN).now_or_never()),
        ("wait_until", |informer, _, _| {
            _ = informer.lister().wait_until(&ResourceVersion::new("1000000"), WITHIN).now_or_never();
        }),
        ("wait_for", |informer, _, _| _ = informer.lister().wait_for(WITHIN, |_| false).now_or_never()),
        ("wait_for_writes", |informer, _, _| _ = informer.wait_for_writes(None, WITHIN).now_or_never()),
        ("CachedApi::get", |_, api, _| _ = api.get("first").now_or_never()),
        ("wait_for_sync of a handler", |_, _, registration| {
            _ = registration.wait_for_sync(WITHIN).now_or_never();
        }),
    ];
    for (name, wait) in waits {
        let (server, factory) = server();
        let informer = factory.informer::<ConfigMap>().unwrap();
        let api =
            CachedApi::new(Api::namespaced(Client::new(server.service(), "default"), "default"), &informer);
        let (same, registration) = (informer.clone(), informer.on_event(|_| ()));
        let function = move |_: &ConfigMap| {
            wait(&same, &api, &registration);
            Some(1)
        };
        let index = informer.add_index("waits", function).unwrap();
        factory.start();
        wait_for(&informer, "first").await;
        assert_eq!((index.len(&1), informer.lister().stats().index_panics), (0, 1), "{name}");
        informer.stop().await;
    }
}

/// Another thread adds a handler or the namespace, and holds its lock while it waits for the index
/// function.
#[test]
fn namespace_registration_dropped_during_change_is_removed() {
    for adds_handler in [true, false] {
        without_deadlock(move || drop_registration_during_change(adds_handler));
    }
}

async fn drop_registration_during_change(adds_handler: bool) {
    let (server, factory) = server();
    let informer = factory.select::<ConfigMap>().ref_counted_informer().unwrap();
    // If the factory were started, `add_namespace` would wait before it holds its lock.
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    let namespace = adds_handler.then_some("default");
    let namespaces = factory.select::<ConfigMap>().namespaces(namespace).unwrap();
    let (entered, mut inside) = tokio::sync::mpsc::channel(16);
    let (change_starts, change_started) = mpsc::channel();
    let change_started = Mutex::new(change_started);
    let take = move |registration: MultiNamespaceRegistration<ConfigMap>| {
        entered.try_send(()).unwrap();
        change_started.lock().recv().unwrap();
        // Meanwhile, the change starts to wait for this function.
        (0..100_000).for_each(|_| std::thread::yield_now());
        drop(registration);
    };
    let slot = Slot::index(&informer, take);
    let calls = Arc::new(AtomicUsize::new(0));
    slot.push(namespaces.add_handler(handler_fn(counts(&calls))));
    config_map(&server, "second");
    inside.recv().await.unwrap();
    let change = tokio::spawn(async move {
        change_starts.send(()).unwrap();
        if adds_handler {
            namespaces.add_handler(handler_fn(|_: &Event<ConfigMap>| ())).detach();
        } else {
            assert_eq!(namespaces.add_namespace("default").await, Ok(true));
        }
        namespaces
    });
    let namespaces = change.await.unwrap();
    while Arc::strong_count(&calls) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(informer.status().handlers.len(), usize::from(adds_handler));
    assert_eq!(namespaces.informers().len(), 1);
    factory.shutdown().await;
}

/// Each of two index functions drops a handler of both informers while the other function runs.
#[test]
fn namespace_registrations_dropped_in_two_index_functions_are_removed() {
    without_deadlock(drop_registrations_in_two_index_functions);
}

async fn drop_registrations_in_two_index_functions() {
    let (server, factory) = server();
    let namespaces = factory.select::<ConfigMap>().namespaces(["default", "kube-system"]).unwrap();
    factory.start();
    namespaces.wait_for_sync(WITHIN).await.unwrap();
    let both = Arc::new(Barrier::new(2));
    let slots: Vec<_> = namespaces
        .informers()
        .iter()
        .map(|informer| {
            let both = Arc::clone(&both);
            Slot::index(informer, move |registration: MultiNamespaceRegistration<ConfigMap>| {
                both.wait();
                drop(registration);
                both.wait();
            })
        })
        .collect();
    let calls = Arc::new(AtomicUsize::new(0));
    for slot in slots {
        slot.push(namespaces.add_handler(handler_fn(counts(&calls))));
    }
    for namespace in ["default", "kube-system"] {
        config_map_in(&server, namespace, "second");
    }
    while Arc::strong_count(&calls) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for informer in namespaces.informers() {
        assert_eq!(informer.status().handlers.len(), 0);
    }
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn change_of_namespaces_in_index_function_is_refused() {
    type Change = fn(&MultiNamespaceInformer<ConfigMap>, MultiNamespaceRegistration<ConfigMap>);
    let changes: [(&str, Change); 5] = [
        ("add_handler", |namespaces, _| namespaces.add_handler(handler_fn(|_: &Event<_>| ())).detach()),
        ("add_namespace", |namespaces, _| _ = namespaces.add_namespace("b").now_or_never()),
        ("remove_namespace", |namespaces, _| _ = namespaces.remove_namespace("default").now_or_never()),
        ("remove", |_, registration| _ = registration.remove().now_or_never()),
        ("wait_for_sync", |_, registration| _ = registration.wait_for_sync(WITHIN).now_or_never()),
    ];
    for (name, change) in changes {
        let (server, factory) = server();
        let namespaces = factory.select::<ConfigMap>().namespaces(["default"]).unwrap();
        let informer = namespaces.informer("default").unwrap();
        let same = namespaces.clone();
        let slot = Slot::index(&informer, move |registration| change(&same, registration));
        factory.start();
        wait_for(&informer, "first").await;
        let calls = Arc::new(AtomicUsize::new(0));
        let registration = namespaces.add_handler(handler_fn(counts(&calls)));
        assert!(registration.wait_for_sync(WITHIN).await);
        slot.push(registration);
        config_map(&server, "second");
        wait_for(&informer, "second").await;
        assert_eq!(informer.lister().stats().index_panics, 1, "{name} is refused");
        assert_eq!(Arc::strong_count(&calls), 1, "{name}: the dropped handler was not removed");
        assert_eq!(informer.status().handlers.len(), 0, "{name}");
        assert_eq!(namespaces.namespaces().len(), 1, "{name}");
        factory.shutdown().await;
    }
}

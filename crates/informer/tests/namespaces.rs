//! Tests `MultiNamespaceInformer`: the events of a handler describe the objects of the active
//! namespaces.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube_client::Client;
use kube_informer::{
    Event, FactoryError, InformerFactory, KeyRef, LabelSelector, MultiNamespaceInformer,
    MultiNamespaceRegistration, ObjectKey, Removal, handler_fn,
};
use kube_testserver::{Server, Verb};
use parking_lot::Mutex;
use serde_json::json;

const WITHIN: Duration = Duration::from_secs(60);

fn config_map(server: &Server, namespace: &str, name: &str) {
    let metadata = json!({"name": name, "namespace": namespace});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

/// Returns a server with one object in each of four namespaces.
fn server() -> Server {
    let server = Server::new();
    for namespace in ["a", "b", "c", "d"] {
        server
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        config_map(&server, namespace, "first");
    }
    server
}

fn factory(server: &Server) -> InformerFactory {
    let factory = InformerFactory::new(Client::new(server.service(), "default"));
    factory.start();
    factory
}

/// Records the events of a handler as text, and the resulting set of objects.
#[derive(Clone, Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    objects: Arc<Mutex<BTreeMap<ObjectKey, String>>>,
}

impl Recorder {
    fn register(
        &self,
        informers: &MultiNamespaceInformer<ConfigMap>,
    ) -> MultiNamespaceRegistration<ConfigMap> {
        let recorder = self.clone();
        informers.add_handler(handler_fn(move |event: &Event<ConfigMap>| recorder.record(event)))
    }

    fn record(&self, event: &Event<ConfigMap>) {
        let (key, mut objects) = (event.key(), self.objects.lock());
        let version = |object: &ConfigMap| object.metadata.resource_version.clone().unwrap();
        let line = match event {
            Event::Added { object, initial } => {
                assert_eq!(objects.insert(key.clone(), version(object)), None, "{key} is added twice");
                format!("+{key}{}", if *initial { " initially" } else { "" })
            }
            Event::Updated { old, new } => {
                let before = objects.insert(key.clone(), version(new));
                assert_eq!(before, Some(version(old)), "the update of {key} is out of order");
                format!("~{key}")
            }
            Event::Deleted { removal, .. } => {
                assert!(objects.remove(key).is_some(), "{key} is deleted twice");
                format!(
                    "-{key}{}",
                    match removal {
                        Removal::Deleted => "",
                        Removal::FinalStateUnknown => " unknown",
                        Removal::Left => " left",
                    }
                )
            }
        };
        self.lines.lock().push(line);
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }

    /// Waits until the recorded set of objects is equal to this set.
    async fn wait_for(&self, objects: &BTreeMap<ObjectKey, String>) {
        for _ in 0..100 {
            if *self.objects.lock() == *objects {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(*self.objects.lock(), *objects);
    }
}

/// Returns the objects of these namespaces on the server.
fn server_objects(server: &Server, namespaces: &[&str]) -> BTreeMap<ObjectKey, String> {
    let objects = server.list_untyped("v1", "ConfigMap", None).unwrap();
    let text = |object: &serde_json::Value, field| object["metadata"][field].as_str().unwrap().to_owned();
    let keyed = objects.iter().map(|object| {
        let key = ObjectKey::new(Some(&text(object, "namespace")), &text(object, "name"));
        (key, text(object, "resourceVersion"))
    });
    keyed.filter(|(key, _)| namespaces.contains(&key.namespace().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn handler_gets_events_of_added_and_removed_namespaces() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a", "b"]).unwrap();
    let recorder = Recorder::default();
    let registration = recorder.register(&informers);
    assert!(registration.wait_for_sync(WITHIN).await);
    let mut lines = recorder.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["+a/first initially", "+b/first initially"]);

    assert_eq!(informers.add_namespace("c").await, Ok(true));
    assert_eq!(informers.add_namespace("c").await, Ok(false));
    assert!(registration.wait_for_sync(WITHIN).await);
    assert_eq!(recorder.lines(), ["+c/first initially"]);
    config_map(&server, "c", "second");
    recorder.wait_for(&server_objects(&server, &["a", "b", "c"])).await;
    assert_eq!(recorder.lines(), ["+c/second"]);

    assert!(informers.remove_namespace("a").await);
    assert!(!informers.remove_namespace("a").await);
    assert_eq!(recorder.lines(), ["-a/first left"], "the deletes are delivered before the removal returns");
    config_map(&server, "a", "unseen");
    tokio::time::sleep(WITHIN).await;
    assert_eq!(recorder.lines(), [""; 0]);
    assert_eq!(server.open_watches(), 2, "the watch of a removed namespace is closed");
    assert_eq!(informers.namespaces().into_iter().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(informers.list(&LabelSelector::everything()).len(), 3);
    assert!(informers.get(KeyRef::new(Some("c"), "second")).is_some());
    assert!(informers.get(KeyRef::new(Some("a"), "first")).is_none());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn namespace_is_added_again_only_after_deletes_are_delivered() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a"]).unwrap();
    let recorder = Recorder::default();
    let registration = recorder.register(&informers);
    assert!(registration.wait_for_sync(WITHIN).await);
    for _ in 0..3 {
        let (removed, added) = tokio::join!(informers.remove_namespace("a"), informers.add_namespace("a"));
        assert_eq!((removed, added), (true, Ok(true)));
        assert!(registration.wait_for_sync(WITHIN).await);
    }
    let back = ["-a/first left", "+a/first initially"];
    assert_eq!(recorder.lines(), [&["+a/first initially"][..], &back, &back, &back].concat());

    assert!(
        informers.remove_namespace("a").now_or_never().is_none(),
        "the removal cannot complete in one poll"
    );
    assert_eq!(informers.add_namespace("a").await, Ok(true));
    recorder.wait_for(&server_objects(&server, &["a"])).await;
    assert_eq!(recorder.lines(), back);
    factory.shutdown().await;
}

/// Otherwise, the handler would receive the objects again before their deletes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn namespace_is_added_again_only_after_each_handler_has_ended() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a"]).unwrap();
    let fast = Recorder::default();
    let fast_registration = fast.register(&informers);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let slow_registration = informers.add_handler(handler_fn(move |event: &Event<ConfigMap>| {
        if matches!(event, Event::Deleted { .. }) {
            released.recv().unwrap();
        }
    }));
    assert!(fast_registration.wait_for_sync(WITHIN).await && slow_registration.wait_for_sync(WITHIN).await);
    assert_eq!(informers.remove_namespace("a").now_or_never(), None);
    fast.wait_for(&BTreeMap::new()).await;
    let again = informers.clone();
    let mut added = tokio::spawn(async move { again.add_namespace("a").await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut added).await;
    assert!(early.is_err(), "the slow handler has not received its delete");
    release.send(()).unwrap();
    assert_eq!(added.await.unwrap(), Ok(true));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shared_informer_survives_removal_of_its_namespace() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a", "b"]).unwrap();
    let informer_of_a = factory.select::<ConfigMap>().namespace("a").ref_counted_informer().unwrap();
    let recorder = Recorder::default();
    let registration = recorder.register(&informers);
    assert!(registration.wait_for_sync(WITHIN).await);
    assert_eq!(server.journal().count(Verb::Watch, "configmaps"), 2, "the informer is shared");
    assert!(informers.remove_namespace("a").await);
    config_map(&server, "a", "second");
    while informer_of_a.lister().len() < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    recorder.wait_for(&server_objects(&server, &["b"])).await;
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn removed_or_dropped_handler_gets_no_events() {
    for drops in [false, true] {
        let server = server();
        let factory = factory(&server);
        let informers = factory.select::<ConfigMap>().namespaces(["a", "b"]).unwrap();
        let (recorder, other) = (Recorder::default(), Recorder::default());
        let (registration, others) = (recorder.register(&informers), other.register(&informers));
        assert!(registration.wait_for_sync(WITHIN).await && others.wait_for_sync(WITHIN).await);
        if drops {
            drop(registration);
        } else {
            registration.remove().await;
        }
        recorder.lines();
        assert_eq!(informers.add_namespace("c").await, Ok(true));
        assert!(informers.remove_namespace("a").await);
        config_map(&server, "b", "second");
        other.wait_for(&server_objects(&server, &["b", "c"])).await;
        assert_eq!(recorder.lines(), [""; 0], "the registration is dropped: {drops}");
        assert_eq!(
            Arc::strong_count(&recorder.lines),
            1,
            "the handler was not freed; the registration is dropped: {drops}"
        );
        factory.shutdown().await;
        assert!(others.wait_for_sync(Duration::MAX).await, "a synced handler stays synced");
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_type_and_empty_namespace_are_rejected() {
    let factory = factory(&server());
    let error = factory.select::<Node>().namespaces(["a"]).err();
    let expected = FactoryError::InvalidNamespace { kind: "Node".into(), namespace: "a".into() };
    assert_eq!(error, Some(expected));
    let informers = factory.select::<ConfigMap>().namespaces([""; 0]).unwrap();
    assert!(matches!(informers.add_namespace("").await, Err(FactoryError::InvalidNamespace { .. })));
    informers.wait_for_sync(WITHIN).await.expect("there is no namespace to wait for");
    factory.shutdown().await;
    assert!(matches!(informers.add_namespace("a").await, Err(FactoryError::ShutDown(_))));
}

#[tokio::test(start_paused = true)]
async fn handler_of_stopped_informer_is_never_synced() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a", "b"]).unwrap();
    let registration = Recorder::default().register(&informers);
    informers.informer("a").unwrap().stop().await;
    assert!(!registration.wait_for_sync(Duration::MAX).await);
    assert!(informers.wait_for_sync(WITHIN).await.unwrap_err().to_string().contains("/namespaces/a/"));
    assert!(informers.remove_namespace("a").await);
    assert!(registration.wait_for_sync(WITHIN).await, "removed namespaces are not awaited");
    factory.shutdown().await;
}

/// The cache of a stopped informer is never updated again.
#[tokio::test(start_paused = true)]
async fn namespace_with_stopped_informer_can_be_added_again() {
    let server = server();
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a"]).unwrap();
    let recorder = Recorder::default();
    let registration = recorder.register(&informers);
    assert!(registration.wait_for_sync(WITHIN).await);
    informers.informer("a").unwrap().stop().await;
    config_map(&server, "a", "second");
    // The handler receives no delete of the first object.
    recorder.objects.lock().clear();
    recorder.lines();
    assert_eq!(informers.add_namespace("a").await, Ok(true));
    assert_eq!(informers.add_namespace("a").await, Ok(false));
    assert!(registration.wait_for_sync(WITHIN).await);
    assert_eq!(recorder.lines(), ["+a/first initially", "+a/second initially"]);
    assert_eq!(informers.list(&LabelSelector::everything()).len(), 2);
    factory.shutdown().await;
}

/// An index function runs while its cache is written, and the registration of a handler waits for
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn index_function_can_read_namespaces_during_changes() {
    for adds_handler in [true, false] {
        let server = server();
        let factory = factory(&server);
        let informer_of_a = factory.select::<ConfigMap>().namespace("a").ref_counted_informer().unwrap();
        informer_of_a.wait_for_sync(WITHIN).await.unwrap();
        let informers = factory.select::<ConfigMap>().namespaces(adds_handler.then_some("a")).unwrap();
        let _registration = Recorder::default().register(&informers);
        let (entered, mut inside) = tokio::sync::mpsc::channel(16);
        let (change_starts, change_started) = std::sync::mpsc::channel::<()>();
        let (change_started, all) = (Mutex::new(change_started), informers.clone());
        let read_all = move |map: &ConfigMap| {
            if map.metadata.name.as_deref() == Some("second") {
                entered.try_send(()).unwrap();
                change_started.lock().recv().unwrap();
                for _ in 0..10_000 {
                    std::thread::yield_now();
                    all.list(&LabelSelector::everything());
                }
            }
            Some(())
        };
        informer_of_a.add_index("reads all", read_all).unwrap();
        config_map(&server, "a", "second");
        inside.recv().await.unwrap();
        let all = informers.clone();
        let adding = tokio::spawn(async move {
            change_starts.send(()).unwrap();
            if adds_handler {
                drop(Recorder::default().register(&all));
            } else {
                assert_eq!(all.add_namespace("a").await, Ok(true));
            }
        });
        tokio::time::timeout(WITHIN, adding).await.expect("the registration must not deadlock").unwrap();
        factory.shutdown().await;
    }
}

/// Property 5, for several namespaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_one_handler_never_overlap() {
    let server = server();
    for n in 0..100 {
        for namespace in ["a", "b", "c", "d"] {
            config_map(&server, namespace, &format!("object-{n}"));
        }
    }
    let factory = factory(&server);
    let informers = factory.select::<ConfigMap>().namespaces(["a", "b", "c", "d"]).unwrap();
    let (running, overlapped) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&overlapped);
    let registration = informers.add_handler(handler_fn(move |_: &Event<ConfigMap>| {
        flag.fetch_or(running.swap(true, Ordering::SeqCst), Ordering::SeqCst);
        std::thread::yield_now();
        running.store(false, Ordering::SeqCst);
    }));
    assert!(registration.wait_for_sync(WITHIN).await);
    assert!(!overlapped.load(Ordering::SeqCst));
    factory.shutdown().await;
}

/// Properties 2, 5 and 8: namespaces and objects are added and removed in any order. The events of
/// each object form a history, and the final set of objects is correct.
#[tokio::test(start_paused = true)]
async fn handler_state_matches_active_namespaces() {
    const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
    for seed in 0..20_u64 {
        let server = server();
        let factory = factory(&server);
        let informers = factory.select::<ConfigMap>().namespaces([""; 0]).unwrap();
        let recorder = Recorder::default();
        let _registration = recorder.register(&informers);
        let mut random = seed;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for step in 0..100 {
            let namespace = NAMESPACES[draw(4) as usize];
            match draw(6) {
                0 => _ = informers.add_namespace(namespace).await.unwrap(),
                1 => _ = informers.remove_namespace(namespace).await,
                // Starts a removal and drops its future.
                2 => _ = informers.remove_namespace(namespace).now_or_never(),
                3 => config_map(&server, namespace, &format!("object-{step}")),
                4 => {
                    let objects = server.list_untyped("v1", "ConfigMap", None).unwrap();
                    let Some(last) = objects.last() else { continue };
                    let [namespace, name] =
                        ["namespace", "name"].map(|field| last["metadata"][field].as_str().unwrap());
                    server.delete_untyped("v1", "ConfigMap", Some(namespace), name).unwrap();
                }
                _ => tokio::time::sleep(Duration::from_secs(draw(3))).await,
            }
        }
        let active = informers.namespaces();
        let active: Vec<_> = active.iter().map(String::as_str).collect();
        recorder.wait_for(&server_objects(&server, &active)).await;
        factory.shutdown().await;
    }
}

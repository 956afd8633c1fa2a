//! Controllers of kube-runtime that share an informer's watch and cache.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, future::ready};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt as _};
use kube_informer::{Informer, InformerFactory, ListWatch, ResourceVersion};
use kube_runtime::controller::Action;
use kube_runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube_testserver::{Server, Verb};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The deadline of each wait. The clock is paused, so this costs no time.
const DEADLINE: Duration = Duration::from_secs(60);

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn informer(server: &Server) -> (InformerFactory, Informer<ConfigMap>) {
    let factory = InformerFactory::new(Client::new(server.service(), "default"));
    let maps = factory.informer().unwrap();
    (factory, maps)
}

/// Type and name, the way expectations are written.
fn brief(event: watcher::Result<watcher::Event<ConfigMap>>) -> String {
    match event.unwrap() {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(map) => format!("init {}", map.name_any()),
        watcher::Event::InitDone => "done".to_owned(),
        watcher::Event::Apply(map) => format!("+{}", map.name_any()),
        watcher::Event::Delete(map) => format!("-{}", map.name_any()),
    }
}

#[tokio::test(start_paused = true)]
async fn informer_events_are_converted_to_watcher_events() {
    let server = Server::new();
    create(&server, "a");
    create(&server, "b");
    let (factory, maps) = informer(&server);
    let early = maps.watcher_events().map(brief);
    factory.start();
    factory.wait_for_sync(DEADLINE).await.unwrap();
    let late = maps.watcher_events().map(brief);
    for mut events in [early.boxed(), late.boxed()] {
        let initial: Vec<_> = events.by_ref().take(4).collect().await;
        assert_eq!(initial, ["init", "init a", "init b", "done"]);
    }
    let mut events = maps.watcher_events().map(brief).skip(4);
    create(&server, "c");
    server.patch_untyped("v1", "ConfigMap", Some("default"), "a", &json!({"data": {"k": "v"}})).unwrap();
    server.delete_untyped("v1", "ConfigMap", Some("default"), "b").unwrap();
    for expected in ["+c", "+a", "-b"] {
        assert_eq!(timeout(DEADLINE, events.next()).await.unwrap().as_deref(), Some(expected));
    }
    factory.shutdown().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn empty_initial_state_is_also_marked_as_done() {
    let server = Server::new();
    let (factory, maps) = informer(&server);
    let mut events = maps.watcher_events().map(brief);
    assert_eq!(events.next().await.as_deref(), Some("init"));
    factory.start();
    assert_eq!(timeout(DEADLINE, events.next()).await.unwrap().as_deref(), Some("done"));
    create(&server, "a");
    assert_eq!(timeout(DEADLINE, events.next()).await.unwrap().as_deref(), Some("+a"));
    factory.shutdown().await;
}

/// All events above the mark are coalesced, and a coalesced history is also a valid history.
#[tokio::test(start_paused = true)]
async fn coalesced_events_are_converted_to_watcher_events() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        create(&server, name);
    }
    let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(server.service(), "default")));
    let maps = Informer::from_source(source).coalesce_threshold(1).build();
    let mut unread = maps.watcher_events();
    maps.start();
    maps.wait_for_sync(DEADLINE).await.unwrap();
    let status = || maps.status().handlers.remove(0);
    server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    server.patch_untyped("v1", "ConfigMap", Some("default"), "b", &json!({"data": {"k": "1"}})).unwrap();
    for name in ["d", "e"] {
        create(&server, name);
    }
    server.delete_untyped("v1", "ConfigMap", Some("default"), "d").unwrap();
    server.delete_untyped("v1", "ConfigMap", Some("default"), "c").unwrap();
    create(&server, "c");
    let version = ResourceVersion::from(server.resource_version());
    maps.lister().wait_until(&version, DEADLINE).await.unwrap();
    assert!(status().coalescing);
    let mut received = Vec::new();
    let mut objects = std::collections::BTreeMap::new();
    while let Ok(Some(event)) = timeout(DEADLINE, unread.next()).await {
        match event.as_ref().unwrap() {
            watcher::Event::InitApply(map) | watcher::Event::Apply(map) => {
                objects.insert(map.name_any(), map.metadata.resource_version.clone());
            }
            watcher::Event::Delete(map) => _ = objects.remove(&map.name_any()),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
        received.push(brief(event));
    }
    assert_eq!(received[0], "init");
    let done = received.iter().position(|event| event == "done").expect("the initial state is complete");
    assert!(received[..done].iter().skip(1).all(|event| event.starts_with("init ")), "{received:?}");
    assert!(received[done + 1..].iter().all(|event| event.starts_with(['+', '-'])), "{received:?}");
    assert!(received.len() < 12, "no event was coalesced: {received:?}");
    let cached = maps.lister().list_all();
    let cached = cached.iter().map(|map| (map.name_any(), map.metadata.resource_version.clone())).collect();
    assert_eq!(objects, cached, "{received:?}");
    assert!(status().synced);
    maps.stop().await;
}

/// A resync repeats delivered states. It must not complete an initial state that is still being read.
#[tokio::test(start_paused = true)]
async fn resync_does_not_complete_initial_state() {
    for mark in [1, 1024] {
        let server = Server::new();
        for name in ["a", "b", "c"] {
            create(&server, name);
        }
        let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(server.service(), "default")));
        let maps = Informer::from_source(source)
            .coalesce_threshold(mark)
            .default_resync(Duration::from_secs(10))
            .build();
        let mut events = maps.watcher_events().map(brief);
        assert_eq!(events.next().await.as_deref(), Some("init"));
        maps.start();
        let mut received = Vec::new();
        // Waits longer than the period of the resyncs.
        while received.len() < 8 {
            tokio::time::sleep(Duration::from_secs(15)).await;
            received.push(timeout(DEADLINE, events.next()).await.unwrap().unwrap());
        }
        let mut initial = received[..3].to_vec();
        initial.sort_unstable();
        assert_eq!(initial, ["init a", "init b", "init c"], "{received:?}");
        assert_eq!(received[3], "done", "{received:?}");
        assert!(received[4..].iter().all(|event| event.starts_with('+')), "{received:?}");
        maps.stop().await;
        assert_eq!(events.filter(|event| ready(event.starts_with("init"))).count().await, 0);
    }
}

/// The controller sees the last state of each object, however far behind it has been.
#[tokio::test(start_paused = true)]
async fn controller_handles_coalesced_and_resynced_events() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        create(&server, name);
    }
    let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(server.service(), "default")));
    let maps =
        Informer::from_source(source).coalesce_threshold(1).default_resync(Duration::from_secs(10)).build();
    let (reconciled, controller) = run_controller(&maps);
    maps.start();
    maps.wait_for_sync(DEADLINE).await.unwrap();
    server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    create(&server, "d");
    let all_have = async |count: usize| {
        let of = |name: &str| reconciled.lock().iter().filter(|other| *other == name).count();
        while ["b", "c", "d"].iter().any(|name| of(name) < count) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(DEADLINE, all_have(3)).await.expect("resyncs reconcile each object again");
    let gone = reconciled.lock().iter().filter(|name| *name == "a").count();
    timeout(DEADLINE, all_have(6)).await.unwrap();
    assert_eq!(reconciled.lock().iter().filter(|name| *name == "a").count(), gone, "it is deleted");
    maps.stop().await;
    timeout(DEADLINE, controller).await.unwrap().unwrap();
}

type Reconciled = Arc<Mutex<Vec<String>>>;

/// A controller that records its reconciles. The controller stops with the informer.
fn run_controller(maps: &Informer<ConfigMap>) -> (Reconciled, JoinHandle<()>) {
    let reconciled = Reconciled::default();
    let (reader, writer) = reflector::store::<ConfigMap>();
    let touched = reflector(writer, maps.watcher_events()).applied_objects();
    let reconcile = |map: Arc<ConfigMap>, names: Arc<Reconciled>| {
        names.lock().push(map.name_any());
        ready(Ok::<_, std::convert::Infallible>(Action::await_change()))
    };
    let controller = Controller::for_stream(touched, reader)
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(Arc::clone(&reconciled)))
        .for_each(|_| ready(()));
    (reconciled, tokio::spawn(controller))
}

#[tokio::test(start_paused = true)]
async fn two_controllers_share_one_watch() {
    let server = Server::new();
    create(&server, "a");
    let (factory, maps) = informer(&server);
    let running = [run_controller(&maps), run_controller(&maps)];
    factory.start();
    let all_have = async |count: usize| {
        timeout(DEADLINE, async {
            while running.iter().any(|(reconciled, _)| reconciled.lock().len() < count) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
        .unwrap();
    };
    all_have(1).await;
    create(&server, "b");
    all_have(2).await;
    server.patch_untyped("v1", "ConfigMap", Some("default"), "a", &json!({"data": {"k": "v"}})).unwrap();
    all_have(3).await;
    for (reconciled, _) in &running {
        assert_eq!(*reconciled.lock(), ["a", "b", "a"]);
    }
    assert_eq!(server.journal().count(Verb::Watch, "configmaps"), 1);
    factory.shutdown().await;
    for (_, controller) in running {
        timeout(DEADLINE, controller).await.unwrap().unwrap();
    }
}

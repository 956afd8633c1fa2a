//! Controllers of kube-runtime that share an informer's watch and cache.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, future::ready};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt as _};
use kube_informer::{Informer, InformerFactory};
use kube_runtime::controller::Action;
use kube_runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube_testserver::{Server, Verb};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bounds each wait; the clock is paused, so that nobody waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

fn create(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
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
async fn an_informer_tells_its_events_in_the_words_of_a_watcher() {
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
    server.patch("v1", "ConfigMap", Some("default"), "a", &json!({"data": {"k": "v"}})).unwrap();
    server.delete("v1", "ConfigMap", Some("default"), "b").unwrap();
    for expected in ["+c", "+a", "-b"] {
        assert_eq!(timeout(DEADLINE, events.next()).await.unwrap().as_deref(), Some(expected));
    }
    factory.shutdown().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_of_nothing_is_done_too() {
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

type Reconciled = Arc<Mutex<Vec<String>>>;

/// A controller that notes what it is called for. It ends with the informer.
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
    server.patch("v1", "ConfigMap", Some("default"), "a", &json!({"data": {"k": "v"}})).unwrap();
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

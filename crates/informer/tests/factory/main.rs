//! Tests factories with the embedded server: identity, start, stop and requests of their informers.

mod lifetimes;
mod shutdown;

use std::{borrow::Cow, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_client::{
    Client, Resource,
    api::{DynamicObject, PartialObjectMeta},
    core::{ApiResource, NamespaceResourceScope},
};
use kube_informer::{Event, FactoryError, InformerFactory, Phase, ReflectorOptions, Scope};
use kube_testserver::{Fault, Request, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

const WITHIN: Duration = Duration::from_secs(60);

fn config_map(server: &Server, namespace: &str, name: &str, app: &str) {
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": app}});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

/// Returns a server with two ConfigMaps in `default` and one in `kube-system`.
fn server() -> Server {
    let server = Server::new();
    config_map(&server, "default", "a", "web");
    config_map(&server, "default", "b", "db");
    config_map(&server, "kube-system", "c", "web");
    server
}

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn factory(server: &Server) -> InformerFactory {
    InformerFactory::new(client(server))
}

fn last_request(server: &Server, verb: Verb) -> Request {
    let requests = server.journal().requests();
    requests.into_iter().find(|request| request.info.verb == verb).expect("the request was not sent")
}

#[tokio::test(start_paused = true)]
async fn same_type_shares_informer_and_representation_does_not() {
    let server = server();
    let factory = factory(&server);
    let (first, second) =
        (factory.informer::<ConfigMap>().unwrap(), factory.clone().informer::<ConfigMap>().unwrap());
    first.add_index("name", |object: &ConfigMap| object.metadata.name.clone()).unwrap();
    assert!(second.index::<String>("name").is_some());
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>().unwrap();
    assert!(metadata.index::<String>("name").is_none());
    factory.start();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(server.journal().count(Verb::Watch, "configmaps"), 2, "two informers use streaming lists");
    assert_eq!(factory.status().len(), 2);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn handlers_use_coalesce_threshold_of_factory() {
    for (mark, coalesces) in [(1, true), (1024, false)] {
        let server = server();
        let factory = factory(&server).coalesce_threshold(mark);
        let informer = factory.informer::<ConfigMap>().unwrap();
        factory.start();
        factory.wait_for_sync(WITHIN).await.unwrap();
        let _unread = informer.events();
        config_map(&server, "default", "d", "web");
        tokio::time::sleep(WITHIN).await;
        let handler = &informer.status().handlers[0];
        assert_eq!((handler.pending, handler.coalescing), (4, coalesces), "with a threshold of {mark}");
        factory.shutdown().await;
    }
}

/// A batch of the queue is one write. The index functions for a batch run before the write, so they
/// can measure the length of the batch.
#[tokio::test(start_paused = true)]
async fn informers_use_queue_capacity_of_factory() {
    for (bound, seen) in [(1, [3, 4, 5]), (1024, [3, 3, 3])] {
        let server = server();
        let factory = factory(&server).queue_capacity(bound);
        let informer = factory.informer::<ConfigMap>().unwrap();
        factory.start();
        factory.wait_for_sync(WITHIN).await.unwrap();
        tokio::time::sleep(WITHIN).await;
        let (lister, lengths) = (informer.lister(), Arc::new(Mutex::new(Vec::new())));
        let noting = Arc::clone(&lengths);
        informer
            .add_index("length", move |_: &ConfigMap| (noting.lock().push(lister.len()), None::<()>).1)
            .unwrap();
        lengths.lock().clear(); // the lengths of the initial list
        ["d", "e", "f"].iter().for_each(|name| config_map(&server, "default", name, "web"));
        tokio::time::sleep(WITHIN).await;
        assert_eq!(*lengths.lock(), seen, "with a capacity of {bound}");
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_of_started_factory_starts_immediately() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    factory.wait_for_sync(WITHIN).await.expect("no informer must be awaited");
    let late = factory.informer::<ConfigMap>().unwrap();
    late.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(late.lister().len(), 3);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn typed_dynamic_and_metadata_only_informers_share_server() {
    let server = server();
    let factory = factory(&server);
    let resource = ApiResource::erase::<ConfigMap>(&());
    let typed = factory.informer::<ConfigMap>().unwrap();
    let dynamic = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>().unwrap();
    let nodes = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let nodes = factory.dynamic_informer::<DynamicObject>(&nodes, Scope::Cluster).unwrap();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    let lens = [typed.lister().len(), dynamic.lister().len(), metadata.lister().len(), nodes.lister().len()];
    assert_eq!(lens, [3, 3, 3, 0]);
    config_map(&server, "default", "later", "web");
    for mut events in [
        typed.events().map(drop).boxed(),
        dynamic.events().map(drop).boxed(),
        metadata.events().map(drop).boxed(),
    ] {
        for _ in 0..4 {
            tokio::time::timeout(WITHIN, events.next()).await.expect("an event is missing");
        }
    }
    let later = dynamic.lister().namespace("default").get("later").unwrap();
    assert_eq!(later.types.as_ref().unwrap().kind, "ConfigMap");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sync_error_lists_each_unsynced_informer_with_cause() {
    let server = server();
    let forbidden = Fault::status(403, "Forbidden", None);
    let _pods = server.faults().always(RequestMatch::any().resource("pods"), forbidden.clone());
    let _nodes = server.faults().always(RequestMatch::any().resource("nodes"), forbidden);
    let factory = factory(&server);
    let synced = factory.informer::<ConfigMap>().unwrap();
    factory.informer::<Pod>().unwrap();
    factory.informer::<k8s_openapi::api::core::v1::Node>().unwrap();
    let unstarted = factory.wait_for_sync(WITHIN).await.unwrap_err();
    assert_eq!(unstarted.informers.len(), 3);
    assert!(unstarted.to_string().contains("ConfigMap /api/v1/configmaps: not started"), "{unstarted}");
    factory.start();
    let late = factory.wait_for_sync(WITHIN).await.unwrap_err();
    assert!(synced.has_synced());
    let names: Vec<_> = late.informers.iter().map(|late| late.informer.as_str()).collect();
    assert_eq!(names, ["Node /api/v1/nodes", "Pod /api/v1/pods"], "each informer once, sorted by name");
    for late in &late.informers {
        let why = late.last_error.as_deref().unwrap();
        assert!(why.contains("403 Forbidden") && why.contains("LIST /api/v1/"), "{why}");
    }
    drop((_pods, _nodes));
    factory.wait_for_sync(Duration::MAX).await.expect("the informers continue to retry");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_completes_all_tasks_and_watches() {
    let server = server();
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let factory = factory(&server);
    let (maps, pods) = (factory.informer::<ConfigMap>().unwrap(), factory.informer::<Pod>().unwrap());
    let _handlers: Vec<_> = (0..10).map(|_| maps.on_event(|_| ())).collect();
    let mut events = maps.events();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    while server.open_watches() < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(alive() > before);
    tokio::join!(factory.shutdown(), factory.shutdown());
    assert_eq!(server.open_watches(), 0);
    assert_eq!(events.by_ref().count().await, 3);
    for informer in [maps.status(), pods.status()] {
        assert_eq!((informer.reflector.phase, informer.handlers.len()), (Phase::Stopped, 0));
    }
    assert_eq!(maps.lister().len(), 3, "the cache can still be read");
    let error = factory.informer::<ConfigMap>().err();
    assert_eq!(error, Some(FactoryError::ShutDown("ConfigMap /api/v1/configmaps".into())));
    // The client has its own task. The task completes when the last clone of the client is dropped.
    drop((factory, maps, pods, events));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn namespace_and_options_apply_to_each_list_and_watch() {
    let server = server();
    let factory = factory(&server)
        .namespace("default")
        .labels("app=web")
        .fields("metadata.name!=z")
        .reflector_options(ReflectorOptions { streaming_lists: false, ..ReflectorOptions::default() })
        .tweak_list_options(|options| options.parameters.push(("pretty".into(), "false".into())));
    let maps = factory.informer::<ConfigMap>().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let registration = maps.on_event(move |event| lines.lock().push(short(event)));
    factory.start();
    assert!(registration.wait_for_sync(WITHIN).await);
    while server.open_watches() == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for verb in [Verb::List, Verb::Watch] {
        let request = last_request(&server, verb);
        assert_eq!(request.path, "/api/v1/namespaces/default/configmaps");
        assert_eq!(request.parameter("labelSelector").as_deref(), Some("app=web"));
        assert_eq!(request.parameter("fieldSelector").as_deref(), Some("metadata.name!=z"));
        assert_eq!(request.parameter("pretty").as_deref(), Some("false"));
    }
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    server.patch_untyped("v1", "ConfigMap", Some("default"), "b", &label("web")).unwrap();
    server.patch_untyped("v1", "ConfigMap", Some("default"), "a", &label("db")).unwrap();
    config_map(&server, "kube-system", "d", "web");
    config_map(&server, "default", "z", "web");
    config_map(&server, "default", "e", "web");
    while log.lock().len() < 4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(*log.lock(), ["+a", "+b", "-a", "+e"]);
    factory.shutdown().await;
}

fn short(event: &Event<ConfigMap>) -> String {
    let sign = match event {
        Event::Added { .. } => '+',
        Event::Updated { .. } => '~',
        Event::Deleted { .. } => '-',
    };
    format!("{sign}{}", event.key().name())
}

#[tokio::test(start_paused = true)]
async fn empty_namespace_means_all_namespaces() {
    let server = server();
    let factory = factory(&server).namespace("");
    let maps = factory.informer::<ConfigMap>().unwrap();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(maps.lister().len(), 3);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn handlers_use_resync_period_of_factory() {
    let server = server();
    let factory = factory(&server).namespace("kube-system").default_resync(WITHIN);
    let maps = factory.informer::<ConfigMap>().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let _registration = maps.on_event(move |event| lines.lock().push(short(event)));
    factory.start();
    tokio::time::sleep(WITHIN * 2 + Duration::from_secs(1)).await;
    assert_eq!(*log.lock(), ["+c", "~c", "~c"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn factory_configured_after_start_drops_its_informers() {
    let server = server();
    let all = factory(&server);
    drop(all.informer::<ConfigMap>().unwrap());
    all.start();
    all.wait_for_sync(WITHIN).await.unwrap();
    let one = all.namespace("kube-system");
    let maps = one.informer::<ConfigMap>().unwrap();
    assert_eq!(maps.status().reflector.phase, Phase::Idle, "the new factory is not started");
    one.start();
    one.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(maps.lister().len(), 1);
    tokio::time::sleep(WITHIN).await;
    assert_eq!(server.open_watches(), 1, "the old informer is unused");
    one.shutdown().await;
}

/// A ConfigMap with a hook. The hook runs immediately before the informer is registered.
#[derive(Deserialize)]
struct Hooked {
    metadata: ObjectMeta,
}

#[derive(Clone)]
struct Hook(Arc<dyn Fn() + Send + Sync>);

impl Resource for Hooked {
    type DynamicType = Hook;
    type Scope = NamespaceResourceScope;

    fn kind(_: &Hook) -> Cow<'_, str> {
        "ConfigMap".into()
    }
    fn group(_: &Hook) -> Cow<'_, str> {
        "".into()
    }
    fn version(_: &Hook) -> Cow<'_, str> {
        "v1".into()
    }
    fn api_version(hook: &Hook) -> Cow<'_, str> {
        (hook.0)();
        "v1".into()
    }
    fn plural(_: &Hook) -> Cow<'_, str> {
        "configmaps".into()
    }
    fn url_path(_: &Hook, _: Option<&str>) -> String {
        "/api/v1/configmaps".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn informer_request_during_shutdown_is_rejected() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let factory_clone = factory.clone();
    let hook =
        Hook(Arc::new(move || factory_clone.shutdown().now_or_never().expect("no informer must be awaited")));
    let late = factory.dynamic_informer::<Hooked>(&hook, Scope::Namespaced);
    assert!(late.is_err(), "an informer was created during the shutdown");
    tokio::time::sleep(WITHIN).await;
    assert_eq!((server.open_watches(), factory.status().len()), (0, 0));
}

/// Returns the number of watches with this parameter.
fn watched(server: &Server, parameter: &str, value: &str) -> usize {
    let requests = server.journal().requests();
    let alike = |request: &&Request| {
        request.info.verb == Verb::Watch && request.parameter(parameter).as_deref() == Some(value)
    };
    requests.iter().filter(alike).count()
}

#[tokio::test(start_paused = true)]
async fn each_selection_has_its_own_informer() {
    let server = server();
    let factory = factory(&server);
    factory.start();
    let web = factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
    let second_request = factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
    let db = factory.select::<ConfigMap>().labels("app=db").informer().unwrap();
    let named = factory.select::<ConfigMap>().fields("metadata.name=a").informer().unwrap();
    let system = factory.select::<ConfigMap>().namespace("kube-system").informer().unwrap();
    let all = factory.informer::<ConfigMap>().unwrap();
    factory.wait_for_sync(WITHIN).await.unwrap();
    let lens = [&web, &second_request, &db, &named, &system, &all].map(|informer| informer.lister().len());
    assert_eq!(lens, [2, 2, 1, 1, 1, 3]);
    assert_eq!(watched(&server, "labelSelector", "app=web"), 1);
    let names: Vec<_> = factory.status().into_iter().map(|status| status.name).collect();
    assert_eq!(names.len(), 5);
    assert!(names.contains(&"ConfigMap /api/v1/configmaps labels app=web".to_owned()), "{names:?}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn selection_overrides_selectors_of_factory() {
    let server = server();
    let factory = factory(&server).namespace("default").labels("app=db");
    factory.start();
    let selected = factory.select::<ConfigMap>().namespace("").labels("").informer().unwrap();
    selected.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(selected.lister().len(), 3);
    let nodes = factory.select::<k8s_openapi::api::core::v1::Node>().namespace("default").informer().unwrap();
    assert_eq!(nodes.status().name, "Node /api/v1/nodes labels app=db", "nodes are cluster-scoped");
    factory.shutdown().await;
}

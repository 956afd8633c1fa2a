//! Tests that reads through a `CachedApi` contain the program's own writes although the cache lags.

use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube_client::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use kube_informer::{
    CachedApi, CachedReadError, InformerFactory, LabelSelector, Phase, ReflectorOptions, Scope,
};
use kube_testserver::{Fault, Lag, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::time::Instant;

const WITHIN: Duration = Duration::from_secs(60);
/// The delay of the servers' watch events.
const LAG: Lag = Lag::Time(Duration::from_secs(2));

/// Returns a factory that is not started, and a `CachedApi`. `label` restricts the informer.
fn cached(server: &Server, label: &str) -> (InformerFactory, CachedApi<ConfigMap>) {
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone()).namespace("default").labels(label);
    let maps = CachedApi::new(Api::namespaced(client, "default"), &factory.informer().unwrap());
    (factory, maps)
}

async fn started(server: &Server, label: &str) -> (InformerFactory, CachedApi<ConfigMap>) {
    let (factory, maps) = cached(server, label);
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    (factory, maps)
}

/// Returns a factory and a `CachedApi` of Pods with these fields.
async fn started_pods(server: &Server, fields: &str) -> (InformerFactory, CachedApi<Pod>) {
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone()).namespace("default");
    let informer = factory.select::<Pod>().fields(fields).informer().unwrap();
    let pods = CachedApi::new(Api::<Pod>::namespaced(client, "default"), &informer);
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    (factory, pods)
}

fn map(name: &str, app: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": app}}})).unwrap()
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn merge(patch: serde_json::Value) -> Patch<serde_json::Value> {
    Patch::Merge(patch)
}

/// The cache cannot contain a write immediately. The next read waits, so it returns the write.
#[tokio::test(start_paused = true)]
async fn each_kind_of_write_is_visible_to_next_read() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    server.set_lag(LAG);
    let post = PostParams::default();
    let mut created = maps.create(&post, &map("a", "web")).await.unwrap();
    let cached = maps.get("a").await.unwrap().unwrap();
    assert_eq!(cached.metadata.resource_version, created.metadata.resource_version);
    created.data = Some([("k".to_owned(), "1".to_owned())].into());
    maps.replace("a", &post, &created).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().unwrap().data, created.data);
    maps.patch("a", &PatchParams::default(), &merge(json!({"data": {"k": "2"}}))).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().unwrap().data.as_ref().unwrap()["k"], "2");
    maps.create(&post, &map("b", "web")).await.unwrap();
    assert_eq!(maps.list(&LabelSelector::everything()).await.unwrap().len(), 2);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get("a").await.unwrap().is_none());
    assert_eq!(maps.lister().await.unwrap().len(), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_object_with_finalizer_is_read_with_timestamp() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    let mut held = map("a", "web");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    server.set_lag(LAG);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get("a").await.unwrap().unwrap().metadata.deletion_timestamp.is_some());
    factory.shutdown().await;
}

/// The finalizers of a namespace are in its spec.
#[tokio::test(start_paused = true)]
async fn deleted_namespace_is_read_with_deletion_timestamp() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone());
    let informer = factory.informer::<Namespace>().unwrap();
    let namespaces = CachedApi::new(Api::all(client), &informer);
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let held = json!({"name": "a", "namespace": "shop", "finalizers": ["example.com/hold"]});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})).unwrap();
    server.set_lag(LAG);
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    let read = namespaces.get("shop").await.unwrap();
    assert!(read.unwrap().metadata.deletion_timestamp.is_some());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn write_is_visible_through_every_cached_api_of_informer() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let shop: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &shop).await.unwrap();
    let factory = InformerFactory::new(client.clone());
    let informer = factory.informer::<ConfigMap>().unwrap();
    let (writes, reads) = [(); 2].map(|()| CachedApi::new(Api::all(client.clone()), &informer)).into();
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    server.set_lag(LAG);
    writes.namespace("shop").create(&PostParams::default(), &map("a", "web")).await.unwrap();
    assert!(reads.namespace("shop").get("a").await.unwrap().is_some());
    assert!(reads.namespace("default").get("a").await.unwrap().is_none());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_is_not_recorded_as_write() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&dry, &map("a", "web")).await.unwrap();
    assert!(maps.get("a").await.unwrap().is_none());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_of_all_writes_changes_nothing_and_delays_no_read() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    let (post, patch) = (PostParams::default(), PatchParams::default());
    let stored = maps.create(&post, &map("a", "web")).await.unwrap();
    maps.get("a").await.unwrap();
    let mark = server.journal().mark();
    let dry = maps.clone().dry_run().namespace("default");
    dry.create(&post, &map("b", "web")).await.unwrap();
    let changed = ConfigMap { data: Some([("k".to_owned(), "1".to_owned())].into()), ..stored.clone() };
    assert_eq!(dry.replace("a", &post, &changed).await.unwrap().data, changed.data);
    let patched = dry.patch("a", &patch, &merge(json!({"data": {"k": "2"}}))).await.unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    assert!(dry.create(&post, &stored).await.is_err(), "the server checks a dry run");
    dry.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(server.journal().count_since(mark, |request| request.info.verb != Verb::Watch), 5);
    let start = Instant::now();
    assert_eq!(maps.get("a").await.unwrap().unwrap().data, None);
    assert_eq!(maps.list(&LabelSelector::everything()).await.unwrap().len(), 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(server.get_untyped("v1", "ConfigMap", Some("default"), "b").is_err());
    assert_eq!(
        server.get_untyped("v1", "ConfigMap", Some("default"), "a").unwrap()["data"],
        serde_json::Value::Null
    );
    factory.shutdown().await;
}

/// The watch never reports an object outside of the selection.
#[tokio::test(start_paused = true)]
async fn write_outside_selection_does_not_delay_reads() {
    let server = Server::new();
    let (factory, maps) = started(&server, "app=web").await;
    let start = tokio::time::Instant::now();
    maps.create(&PostParams::default(), &map("other", "db")).await.unwrap();
    assert!(maps.get("other").await.unwrap().is_none());
    assert!(maps.list(&LabelSelector::everything()).await.unwrap().is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn write_that_leaves_selection_is_read_as_missing() {
    let server = Server::new();
    let (factory, maps) = started(&server, "app=web").await;
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    assert!(maps.get("a").await.unwrap().is_some());
    server.set_lag(LAG);
    let patch = merge(json!({"metadata": {"labels": {"app": "db"}}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert!(maps.get("a").await.unwrap().is_none());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn read_timeout_error_reports_version_of_cache() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    let before = maps.create(&PostParams::default(), &map("before", "web")).await.unwrap();
    maps.get("before").await.unwrap();
    let silent = server
        .faults()
        .always(RequestMatch::verb(Verb::Watch), Fault::status(503, "ServiceUnavailable", None));
    server.close_watches();
    let written = maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    let error = maps.get("a").await.unwrap_err();
    let versions = [&written, &before].map(|map| map.metadata.resource_version.clone().unwrap());
    assert_eq!(
        error.to_string(),
        format!(
            "cache of ConfigMap /api/v1/namespaces/default/configmaps does not contain the write at resourceVersion {} \
             after 5s; the cache is at resourceVersion {}",
            versions[0], versions[1]
        )
    );
    // A read of an object without pending writes returns immediately.
    assert!(maps.get("before").await.unwrap().is_some());
    drop(silent);
    let patient = maps.clone().read_timeout(WITHIN);
    assert!(
        patient.get("a").await.unwrap().is_some(),
        "the clone shares the pending writes, and the cache reaches the write"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn read_before_initial_list_is_error() {
    let server = Server::new();
    let (factory, maps) = cached(&server, "");
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    let start = Instant::now();
    for early in [maps.get("b").await.err(), maps.lister().await.err()] {
        let early = early.unwrap().to_string();
        assert!(
            early.contains("not cached within 5s") || early.contains("has no resourceVersion"),
            "{early}"
        );
    }
    assert_eq!(
        maps.get("b").await.unwrap_err().to_string(),
        "initial list not cached within 5s: ConfigMap /api/v1/namespaces/default/configmaps: not started"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    let slow = server
        .faults()
        .always(RequestMatch::any().resource("configmaps"), Fault::Delay(Duration::from_secs(3)));
    factory.start();
    assert!(maps.get("b").await.unwrap().is_none() && maps.get("a").await.unwrap().is_some());
    assert_eq!(start.elapsed(), Duration::from_secs(18), "the read waits only for the list");
    drop(slow);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_returns_when_informer_stops() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    server.set_lag(LAG);
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    let (read, ()) = tokio::join!(maps.get("a"), factory.shutdown());
    assert!(matches!(read, Err(CachedReadError::Stopped { .. })), "{read:?}");
}

/// Property 13, for one reader.
#[tokio::test(start_paused = true)]
async fn server_restore_is_reported_once() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let options = ReflectorOptions { watch_timeout: Duration::from_secs(5), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).reflector_options(options);
    let maps = CachedApi::new(Api::namespaced(client, "default"), &factory.informer::<ConfigMap>().unwrap())
        .read_timeout(Duration::from_secs(600));
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    maps.get("a").await.unwrap();
    let backup = server.resource_version();
    for name in ["b", "c", "d"] {
        maps.create(&PostParams::default(), &map(name, "web")).await.unwrap();
    }
    maps.lister().await.unwrap();
    let unheard = server
        .faults()
        .always(RequestMatch::verb(Verb::Watch), Fault::status(503, "ServiceUnavailable", None));
    server.close_watches();
    maps.create(&PostParams::default(), &map("lost", "web")).await.unwrap();
    server.restore(backup).unwrap();
    drop(unheard);
    let error = maps.get("lost").await.unwrap_err();
    assert!(matches!(error, CachedReadError::ServerRestored { .. }), "{error}");
    assert!(maps.get("lost").await.unwrap().is_none());
    factory.shutdown().await;
}

/// Tests property 13 for concurrent readers. No reader returns the restored state as its write.
#[tokio::test(start_paused = true)]
async fn every_waiting_read_reports_server_restore() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let options = ReflectorOptions { watch_timeout: Duration::from_secs(5), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).reflector_options(options);
    let maps = CachedApi::new(Api::namespaced(client, "default"), &factory.informer::<ConfigMap>().unwrap())
        .read_timeout(Duration::from_secs(600));
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    let backup = server.resource_version();
    for name in ["b", "c", "d"] {
        maps.create(&PostParams::default(), &map(name, "web")).await.unwrap();
    }
    maps.lister().await.unwrap();
    let unheard = server
        .faults()
        .always(RequestMatch::verb(Verb::Watch), Fault::status(503, "ServiceUnavailable", None));
    server.close_watches();
    for name in ["lost", "too"] {
        maps.create(&PostParams::default(), &map(name, "web")).await.unwrap();
    }
    let others = [maps.clone(), maps.clone()];
    let restoring = async {
        tokio::task::yield_now().await;
        server.restore(backup).unwrap();
        drop(unheard);
    };
    let (lost, too, all, unwritten, ()) = tokio::join!(
        maps.get("lost"),
        others[0].get("too"),
        others[1].lister(),
        others[1].get("a"),
        restoring
    );
    assert!(matches!(lost, Err(CachedReadError::ServerRestored { .. })), "{lost:?}");
    assert!(matches!(too, Err(CachedReadError::ServerRestored { .. })), "{too:?}");
    assert!(matches!(all, Err(CachedReadError::ServerRestored { .. })));
    assert!(unwritten.unwrap().is_some(), "a read without a pending write does not wait");
    assert!(others[0].get("too").await.unwrap().is_none());
    assert_eq!(maps.list(&LabelSelector::everything()).await.unwrap().len(), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn write_excluded_by_selected_field_is_not_awaited() {
    let server = Server::new();
    let (factory, pods) = started_pods(&server, "spec.nodeName=here").await;
    server.set_lag(LAG);
    for (name, node) in [("waits", None), ("other", Some("there"))] {
        pods.create(&PostParams::default(), &pod(name, node)).await.unwrap();
        assert!(pods.get(name).now_or_never().expect("the read does not wait").unwrap().is_none());
        assert!(pods.lister().now_or_never().is_some_and(|all| all.is_ok()));
    }
    pods.create(&PostParams::default(), &pod("mine", Some("here"))).await.unwrap();
    assert!(pods.get("mine").now_or_never().is_none());
    assert!(pods.get("mine").await.unwrap().is_some());
    factory.shutdown().await;
}

/// Other tasks continue to write while a read waits. The read ignores their writes.
#[tokio::test(start_paused = true)]
async fn read_waits_only_for_earlier_writes() {
    let server = Server::new();
    let (factory, maps) = started(&server, "").await;
    maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
    maps.get("a").await.unwrap();
    server.set_lag(LAG);
    let (writer, mut number) = (maps.clone(), 0);
    let writing = tokio::spawn(async move {
        loop {
            number += 1;
            let patch = merge(json!({"data": {"number": number.to_string()}}));
            writer.patch("a", &PatchParams::default(), &patch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        maps.list(&LabelSelector::everything()).await.unwrap();
        maps.get("a").await.unwrap();
    }
    writing.abort();
    let _aborted = writing.await;
    factory.shutdown().await;
}

/// Only the server can decide whether the informer selects a write. After the next event or
/// bookmark, the cache has passed the version of the write.
#[tokio::test(start_paused = true)]
async fn undecidable_selector_waits_for_next_event_or_bookmark() {
    let server = Server::new();
    let (factory, pods) = started_pods(&server, "spec.hostNetwork=false").await;
    let pods = pods.read_timeout(4 * WITHIN);
    server.set_lag(LAG);
    pods.create(&PostParams::default(), &pod("mine", None)).await.unwrap();
    assert!(pods.get("mine").await.unwrap().is_some());
    let mut other = pod("other", None);
    other.spec.as_mut().unwrap().host_network = Some(true);
    pods.create(&PostParams::default(), &other).await.unwrap();
    assert!(pods.get("mine").now_or_never().is_some(), "a visible write is not awaited");
    assert!(pods.get("other").now_or_never().is_none(), "the informer may select the object");
    assert!(pods.get("other").await.unwrap().is_none());
    // The object leaves the selection on the server.
    let patch = merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    pods.patch("mine", &PatchParams::default(), &patch).await.unwrap();
    assert!(pods.get("mine").await.unwrap().unwrap().metadata.labels.is_some());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn name_without_namespace_is_error() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone());
    let maps = CachedApi::new(Api::all(client.clone()), &factory.informer::<ConfigMap>().unwrap());
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let dynamic = CachedApi::new(Api::all_with(client, &resource), &dynamic);
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
    let error = maps.get("a").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read \"a\" without a namespace: ConfigMap /api/v1/configmaps caches namespaced objects; \
         use an `Api` of one namespace, or a lister"
    );
    assert!(dynamic.get("a").await.unwrap().is_none(), "no object exists");
    let metadata = json!({"name": "a", "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    while dynamic.lister().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let error = dynamic.get("a").await.unwrap_err();
    assert!(matches!(error, CachedReadError::NamespaceRequired { .. }), "{error}");
    assert_eq!(maps.list(&LabelSelector::everything()).await.unwrap().len(), 1);
    factory.shutdown().await;
}

/// If the server returns HTTP 404 during a wait, the wait continues until the resource exists again
/// or the timeout expires.
#[tokio::test(start_paused = true)]
async fn read_waits_while_resource_is_removed_and_restored() {
    for clear_when_gone in [false, true] {
        let server = Server::new();
        let client = Client::new(server.service(), "default");
        let options = ReflectorOptions { clear_when_gone, ..ReflectorOptions::default() };
        let factory = InformerFactory::new(client.clone()).namespace("default").reflector_options(options);
        let maps =
            CachedApi::new(Api::namespaced(client, "default"), &factory.informer::<ConfigMap>().unwrap());
        let multi = factory.select::<ConfigMap>().namespaces(["default"]).unwrap();
        factory.start();
        factory.wait_for_sync(WITHIN).await.unwrap();
        maps.create(&PostParams::default(), &map("before", "web")).await.unwrap();
        assert!(maps.get("before").await.unwrap().is_some());
        let not_found = [Verb::List, Verb::Watch].map(|verb| {
            let reads = RequestMatch::verb(verb).resource("configmaps");
            server.faults().always(reads, Fault::status(404, "NotFound", None))
        });
        server.close_watches();
        maps.create(&PostParams::default(), &map("a", "web")).await.unwrap();
        let late = maps.get("a").await.unwrap_err();
        assert!(matches!(late, CachedReadError::WriteNotVisible { .. }), "{late}");
        assert_eq!(factory.status()[0].reflector.phase, Phase::Suspended);
        let cached = if clear_when_gone { 0 } else { 1 };
        assert_eq!(multi.list(&LabelSelector::everything()).len(), cached);
        assert!(multi.has_synced());
        assert_eq!(maps.get("before").await.unwrap().is_some(), !clear_when_gone);
        drop(not_found);
        assert!(maps.clone().read_timeout(WITHIN).get("a").await.unwrap().is_some());
        assert_eq!(multi.list(&LabelSelector::everything()).len(), 2);
        factory.shutdown().await;
    }
}

//! Tests of `Informer::wait_for_latest` with a test server, under a paused clock.

use std::time::Duration;

use futures_util::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Client, core::PartialObjectMeta};
use kube_informer::{
    Informer, InformerFactory, Lazy, ListWatch, ListWatchError, ReflectorOptions, WaitForLatestError,
};
use kube_listwatch::{ListPage, WatchEvent};
use kube_testserver::{Fault, Lag, Request, RequestMatch, Server, Status, Verb};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_secs(10);

fn factory(server: &Server) -> InformerFactory {
    InformerFactory::new(Client::new(server.service(), "default"))
}

async fn start(factory: &InformerFactory) {
    factory.start();
    factory.wait_for_sync(WITHIN).await.unwrap();
}

/// Returns a server with the ConfigMap `a`, and a synced informer of ConfigMaps.
async fn started() -> (Server, InformerFactory, Informer<ConfigMap>) {
    started_on(Server::new()).await
}

async fn started_on(server: Server) -> (Server, InformerFactory, Informer<ConfigMap>) {
    write(&server, "a");
    let factory = factory(&server);
    let maps = factory.informer().unwrap();
    start(&factory).await;
    sleep(SECOND).await;
    (server, factory, maps)
}

/// Creates a ConfigMap without a request of the client.
fn write(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

/// Increases the resourceVersion of the server, without an event for ConfigMaps.
fn write_secret(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
}

/// Selects the watches that `wait_for_latest` opens.
fn short_watches() -> RequestMatch {
    RequestMatch::any().when(is_short)
}

fn is_short(request: &Request) -> bool {
    request.info.verb == Verb::Watch && request.parameter("timeoutSeconds").as_deref() == Some("4")
}

/// Selects the watches of the reflector.
fn own_watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).when(|request| !is_short(request))
}

fn checks() -> RequestMatch {
    RequestMatch::any().when(is_check)
}

fn is_check(request: &Request) -> bool {
    request.info.verb == Verb::List && request.parameter("limit").as_deref() == Some("1")
}

/// Returns the number of LIST requests for the version, and of short watches.
fn requests(server: &Server) -> (usize, usize) {
    (server.journal().count_where(is_check), server.journal().count_where(is_short))
}

#[tokio::test(start_paused = true)]
async fn cache_at_current_version_needs_no_watch() {
    let (server, factory, maps) = started().await;
    let began = Instant::now();
    maps.wait_for_latest(WITHIN).await.unwrap();
    assert_eq!((requests(&server), began.elapsed()), ((1, 0), Duration::ZERO));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn writes_to_other_types_need_one_short_watch() {
    let (server, factory, maps) = started().await;
    write_secret(&server, "s");
    let (began, before) = (Instant::now(), maps.status().watermark);
    maps.wait_for_latest(WITHIN).await.unwrap();
    assert_eq!(requests(&server), (1, 1));
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
    assert_eq!(maps.status().watermark, before, "the own watch received no event");
    let watch = server.journal().last(is_short).unwrap();
    assert_eq!(watch.parameter("resourceVersion"), before.map(|version| version.to_string()));
    assert_eq!(watch.parameter("allowWatchBookmarks").as_deref(), Some("true"));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn cache_contains_writes_before_the_call_although_watches_lag() {
    for lag in [Lag::Time(2 * SECOND), Lag::Time(5 * SECOND)] {
        let (server, factory, maps) = started().await;
        server.set_lag(lag);
        for name in ["b", "c"] {
            write(&server, name);
            maps.wait_for_latest(WITHIN).await.unwrap();
            assert!(maps.lister().namespace("default").get(name).is_some(), "{lag:?} {name}");
        }
        server.delete_untyped("v1", "ConfigMap", Some("default"), "b").unwrap();
        write_secret(&server, "s");
        maps.wait_for_latest(WITHIN).await.unwrap();
        assert_eq!(maps.lister().len(), 2, "{lag:?}");
        factory.shutdown().await;
    }
}

/// A watch cache that never catches up.
#[tokio::test(start_paused = true)]
async fn frozen_watch_cache_is_a_timeout() {
    let (server, factory, maps) = started().await;
    server.set_lag(Lag::Frozen);
    write(&server, "b");
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err();
    assert!(matches!(error, WaitForLatestError::Timeout { last_error: None, .. }), "{error}");
    factory.shutdown().await;
}

/// The watch of the informer is open, but delivers no events.
#[tokio::test(start_paused = true)]
async fn stalled_informer_lacks_only_writes_to_its_objects() {
    let server = Server::new();
    server.faults().next(own_watches(), Fault::Silence);
    let (server, factory, maps) = started_on(server).await;
    write_secret(&server, "s");
    maps.wait_for_latest(WITHIN).await.unwrap();
    write(&server, "b");
    let began = Instant::now();
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err();
    assert_eq!(began.elapsed(), WITHIN);
    let text = error.to_string();
    assert!(matches!(error, WaitForLatestError::Timeout { .. }), "{text}");
    assert!(text.contains("is not known to contain the latest writes after 10s"), "{text}");
    assert_eq!(maps.lister().len(), 1, "the cache is stale");

    maps.relist();
    maps.wait_for_latest(WITHIN).await.unwrap();
    assert_eq!(maps.lister().len(), 2);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn relist_completes_wait_without_a_bookmark() {
    let (server, factory, maps) = started().await;
    write_secret(&server, "s");
    let _hanging = server.faults().always(short_watches(), Fault::Hang);
    let waiting = maps.wait_for_latest(WITHIN);
    let relisting = async {
        sleep(2 * SECOND).await;
        maps.relist();
    };
    let began = Instant::now();
    let (waited, ()) = tokio::join!(waiting, relisting);
    waited.unwrap();
    assert_eq!(began.elapsed(), 2 * SECOND);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn server_without_bookmarks_decides_only_by_events() {
    let (server, factory, maps) = started_on(Server::builder().watch_cache(false).build()).await;
    write_secret(&server, "s");
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err();
    assert!(matches!(error, WaitForLatestError::Timeout { .. }), "{error}");
    let waiting = maps.wait_for_latest(WITHIN);
    let writing = async {
        sleep(SECOND).await;
        write(&server, "b");
    };
    let (waited, ()) = tokio::join!(waiting, writing);
    waited.unwrap();
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_repeated_until_timeout() {
    let (server, factory, maps) = started().await;
    write_secret(&server, "s");
    let faults = server.faults();
    faults.next(checks(), Fault::internal_error("etcd"));
    faults.next(checks(), Fault::Throttled { retry_after: 2 });
    for fault in [Fault::gone(), Fault::error(Status::expired()), Fault::Reset] {
        faults.next(short_watches(), fault);
    }
    maps.wait_for_latest(60 * SECOND).await.unwrap();
    assert_eq!((faults.pending(), requests(&server)), (0, (3, 4)));
    faults.next(short_watches(), Fault::Hang);
    maps.wait_for_latest(WITHIN).await.unwrap();

    let _failing = faults.always(checks(), Fault::internal_error("etcd"));
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err().to_string();
    assert!(error.contains("the resourceVersion of the server is unknown"), "{error}");
    assert!(error.contains("last failed request: LIST /api/v1/configmaps?limit=1"), "{error}");
    factory.shutdown().await;
}

/// The watch of the informer does not fail, so the informer has not detected the restore.
#[tokio::test(start_paused = true)]
async fn lower_version_of_server_is_an_error() {
    let (server, factory, maps) = started().await;
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
    server.faults().next(checks(), Fault::json(list.to_string()));
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err();
    assert!(matches!(error, WaitForLatestError::ServerRestored { .. }), "{error}");
    factory.shutdown().await;
}

/// The informer detects a restore while the call waits.
#[tokio::test(start_paused = true)]
async fn restore_during_wait_is_an_error() {
    let (server, factory, maps) = started().await;
    let before = server.resource_version();
    write(&server, "b");
    sleep(SECOND).await;
    write_secret(&server, "s");
    let _hanging = server.faults().always(short_watches(), Fault::Hang);
    let restoring = async {
        sleep(SECOND).await;
        server.restore(before).unwrap();
    };
    let (waited, ()) = tokio::join!(maps.wait_for_latest(60 * SECOND), restoring);
    let error = waited.unwrap_err();
    assert!(matches!(error, WaitForLatestError::ServerRestored { .. }), "{error}");
    assert_eq!(maps.lister().len(), 1, "after a relist");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn versions_without_order_are_an_error() {
    for (cached, listed) in [("abc", "abc"), ("7", "abc"), ("7", ""), ("", "7"), ("0", "7")] {
        let versions = std::sync::Mutex::new(vec![listed, cached]);
        let list = move |_| {
            let mut versions = versions.lock().unwrap();
            let version = if versions.len() > 1 { versions.pop() } else { versions.last().copied() };
            let page = ListPage::<ConfigMap> { items: vec![], version: version.unwrap().into(), next: None };
            async move { Ok(page) }
        };
        let watch = |_| stream::pending::<Result<WatchEvent<ConfigMap>, ListWatchError>>();
        let informer = Informer::from_source(ListWatch::from_functions(list, watch)).build();
        informer.start();
        let error = informer.wait_for_latest(WITHIN).await.unwrap_err();
        assert!(matches!(error, WaitForLatestError::NotComparable { .. }), "{cached:?} {listed:?}: {error}");
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_that_does_not_run_is_an_error() {
    let (server, factory, maps) = started().await;
    let idle = self::factory(&server).informer::<Secret>().unwrap();
    let error = idle.wait_for_latest(SECOND).await.unwrap_err();
    assert!(matches!(error, WaitForLatestError::NotSynced(_)), "{error}");

    write_secret(&server, "s");
    let stopping = async {
        sleep(SECOND).await;
        maps.stop().await;
    };
    let began = Instant::now();
    let (waited, ()) = tokio::join!(maps.wait_for_latest(WITHIN), stopping);
    let error = waited.unwrap_err();
    assert!(matches!(error, WaitForLatestError::Stopped { .. }), "{error}");
    let error = maps.wait_for_latest(WITHIN).await.unwrap_err();
    assert!(matches!(error, WaitForLatestError::Stopped { .. }), "{error}");
    assert_eq!(began.elapsed(), SECOND);
    factory.shutdown().await;
}

#[test]
fn call_outside_of_a_runtime_is_an_error() {
    let informer = InformerFactory::new(offline_client()).informer::<ConfigMap>().unwrap();
    let error = futures_util::FutureExt::now_or_never(informer.wait_for_latest(WITHIN)).unwrap().unwrap_err();
    assert!(matches!(error, WaitForLatestError::NoRuntime { .. }), "{error}");
}

fn offline_client() -> Client {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { Client::new(Server::new().service(), "default") })
}

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_its_requests() {
    let (server, factory, maps) = started().await;
    write_secret(&server, "s");
    let watches = server.open_watches();
    assert!(timeout(SECOND, maps.wait_for_latest(WITHIN)).await.is_err());
    sleep(SECOND).await;
    assert_eq!(server.open_watches(), watches);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn selectors_and_representations_keep_their_requests() {
    let server = Server::new();
    let options = ReflectorOptions { streaming_lists: true, ..ReflectorOptions::default() };
    let factory = factory(&server).namespace("default").reflector_options(options);
    let labelled = factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>().unwrap();
    let lazy = factory.informer::<Lazy<ConfigMap>>().unwrap();
    start(&factory).await;
    server.set_lag(Lag::Time(SECOND));
    write(&server, "a");

    labelled.wait_for_latest(WITHIN).await.unwrap();
    let watch = server.journal().last(is_short).unwrap();
    assert_eq!(watch.parameter("labelSelector").as_deref(), Some("app=web"));
    assert_eq!(labelled.lister().len(), 0);
    metadata.wait_for_latest(WITHIN).await.unwrap();
    let accepts_metadata = |request: &Request| {
        request.accept.as_deref().is_some_and(|accept| accept.contains("PartialObjectMetadata"))
    };
    assert!(server.journal().last(is_check).is_some_and(|list| accepts_metadata(&list)));
    lazy.wait_for_latest(WITHIN).await.unwrap();
    assert_eq!((metadata.lister().len(), lazy.lister().len()), (1, 1));
    factory.shutdown().await;
}

/// A relist contains an item without a name, so the deleted object remains cached.
#[tokio::test(start_paused = true)]
async fn incomplete_list_does_not_prove_deletions() {
    let server = Server::new();
    server.faults().next(own_watches(), Fault::Silence);
    let (server, factory, maps) = started_on(server).await;
    server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    let metadata = json!({"resourceVersion": server.resource_version().to_string()});
    let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [{"metadata": {}}]});
    let lists = RequestMatch::verb(Verb::List).when(|request| !is_check(request));
    server.faults().next(lists, Fault::json(list.to_string()));
    maps.relist();
    while server.faults().pending() > 0 {
        sleep(SECOND / 100).await;
    }
    assert_eq!(maps.lister().len(), 1, "the list is incomplete");
    maps.wait_for_latest(WITHIN).await.unwrap();
    assert_eq!(maps.lister().len(), 0, "after a complete list");
    factory.shutdown().await;
}

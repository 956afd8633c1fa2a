//! Replicas with different lags and one storage.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{ApiService, Disruption, Lag, LoadBalancing, Replicas, Server};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::client::{CONFIGMAPS, Lines, Response, configmaps, delete, event, get, post, server};
use crate::crds::{CRDS, WIDGETS, crd, widget};

async fn send(service: &ApiService, path: &str) -> Response {
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    let (parts, body) = service.clone().respond(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Response { code: parts.status.as_u16(), headers: parts.headers, text }
}

#[tokio::test(start_paused = true)]
async fn stale_replica_affects_only_reads_from_the_cache() {
    let server = server();
    let behind = configmaps(&server, &["a", "b"]);
    let now = configmaps(&server, &["c", "d"]);
    let replica = server.replica(Lag::Revisions(2));
    let service = replica.service();
    assert_eq!(replica.resource_version(), behind);
    let any = send(&service, &format!("{CONFIGMAPS}?resourceVersion=0")).await;
    assert_eq!(any.names(), ["a", "b"]);
    assert_eq!(any.json()["metadata"]["resourceVersion"], behind.to_string());
    let start = Instant::now();
    assert_eq!(send(&service, CONFIGMAPS).await.names(), ["a", "b", "c", "d"]);
    assert_eq!(start.elapsed(), Duration::from_secs(3), "the list waits for the cache first");
    let exact = format!("{CONFIGMAPS}?resourceVersion={now}&resourceVersionMatch=Exact");
    assert_eq!(send(&service, &exact).await.names().len(), 4);
    let fresh = send(&service, &format!("{CONFIGMAPS}?resourceVersion={now}")).await;
    assert_eq!(fresh.code, 504);
    assert!(fresh.message().ends_with(&format!("Too large resource version: {now}, current: {behind}")));
    assert_eq!(send(&service, &format!("{CONFIGMAPS}/c?resourceVersion=0")).await.code, 404);
    assert_eq!(send(&service, &format!("{CONFIGMAPS}/c")).await.code, 200);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?resourceVersion=0")).await.names().len(), 4);
    let replicas: Vec<_> = server.journal().requests().iter().map(|request| request.replica).collect();
    assert_eq!((replicas[0], replicas.last()), (replica.number(), Some(&0)));
}

#[tokio::test(start_paused = true)]
async fn read_waits_for_a_cache_with_a_short_lag() {
    let server = server();
    configmaps(&server, &["a"]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let service = server.replica(Lag::Time(Duration::from_secs(2))).service();
    let now = configmaps(&server, &["b"]);
    assert_eq!(send(&service, &format!("{CONFIGMAPS}?resourceVersion=0")).await.names(), ["a"]);
    let start = Instant::now();
    assert_eq!(send(&service, &format!("{CONFIGMAPS}?resourceVersion={now}")).await.names(), ["a", "b"]);
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

/// A waiting read of the old CRD reads the objects of the new CRD, because both have one history in etcd.
/// A waiting watch closes without the bookmark at the end of the list, because its watch cache stops with
/// the old CRD.
#[tokio::test(start_paused = true)]
async fn waiting_reads_see_objects_of_recreated_crd() {
    let server = server();
    post(&server, CRDS, crd()).await;
    let replica = server.replica(Lag::Frozen);
    let service = replica.service();
    post(&server, WIDGETS, widget("old", &json!({}))).await;
    let version = server.resource_version() + 1;
    let read = |query: String| {
        let service = service.clone();
        tokio::spawn(async move { send(&service, &format!("{WIDGETS}{query}")).await })
    };
    let latest = read(String::new());
    let not_older = read(format!("?resourceVersion={version}&resourceVersionMatch=NotOlderThan"));
    let object = read(format!("/new?resourceVersion={version}"));
    let streaming_list =
        "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let watch = read(streaming_list.to_owned());
    tokio::time::sleep(Duration::from_secs(1)).await;
    delete(&server, &format!("{CRDS}/widgets.ex.test"), "").await;
    post(&server, CRDS, crd()).await;
    post(&server, WIDGETS, widget("new", &json!({}))).await;
    replica.set_lag(Lag::None);
    assert_eq!(object.await.unwrap().code, 200);
    assert_eq!(watch.await.unwrap().text, "");
    for list in [latest.await.unwrap(), not_older.await.unwrap()] {
        assert_eq!(list.names(), ["new"]);
        assert_eq!(list.json()["metadata"]["resourceVersion"], server.resource_version().to_string());
    }
}

/// A new watch cache starts with the state at the creation of the CRD, even if the replica is frozen.
#[tokio::test(start_paused = true)]
async fn frozen_replica_serves_list_of_recreated_crd_at_its_creation() {
    let server = server();
    post(&server, CRDS, crd()).await;
    let replica = server.replica(Lag::Frozen);
    post(&server, WIDGETS, widget("old", &json!({}))).await;
    let service = replica.service();
    let list = tokio::spawn(async move { send(&service, WIDGETS).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    delete(&server, &format!("{CRDS}/widgets.ex.test"), "").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    post(&server, CRDS, crd()).await;
    let created = server.resource_version();
    post(&server, WIDGETS, widget("new", &json!({}))).await;
    let list = list.await.unwrap();
    assert_eq!(list.names(), [""; 0]);
    assert_eq!(list.json()["metadata"]["resourceVersion"], created.to_string());
}

async fn lines(service: &ApiService, path: &str) -> Lines {
    let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
    Lines::from(service.clone().respond(request).await.unwrap().into_body())
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_stale_replica_sends_only_cached_events() {
    let server = server();
    let first = configmaps(&server, &["a"]);
    let replica = server.replica(Lag::Revisions(1));
    let mut watch = lines(&replica.service(), &format!("{CONFIGMAPS}?watch=1&resourceVersion={first}")).await;
    configmaps(&server, &["b", "c"]);
    assert_eq!(watch.event().await, event("ADDED", "b", first + 1));
    assert!(timeout(Duration::from_secs(60), watch.line()).await.is_err());
    server
        .create(&serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))
        .unwrap();
    assert_eq!(watch.event().await, event("ADDED", "c", first + 2));
    replica.set_lag(Lag::Time(Duration::from_secs(5)));
    configmaps(&server, &["d"]);
    let start = Instant::now();
    assert_eq!(watch.event().await.1, "d");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    replica.set_lag(Lag::Frozen);
    configmaps(&server, &["e"]);
    assert!(timeout(Duration::from_secs(600), watch.line()).await.is_err());
    replica.set_lag(Lag::None);
    assert_eq!(watch.event().await.1, "e");
}

#[tokio::test(start_paused = true)]
async fn streaming_list_waits_for_a_stale_cache() {
    let server = server();
    server.set_lag(Lag::Time(Duration::from_secs(2)));
    configmaps(&server, &["a"]);
    let stream = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let start = Instant::now();
    let mut fresh = Lines::open(&server, &format!("{CONFIGMAPS}?{stream}")).await;
    assert_eq!(fresh.event().await.1, "a");
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    configmaps(&server, &["b"]);
    let mut any = Lines::open(&server, &format!("{CONFIGMAPS}?{stream}&resourceVersion=0")).await;
    assert_eq!(any.event().await.1, "a");
    assert_eq!(any.event().await.0, "BOOKMARK");
    assert_eq!(any.event().await.1, "b");
}

#[tokio::test(start_paused = true)]
async fn load_balanced_reads_can_return_older_states() {
    let server = server();
    configmaps(&server, &["a", "b"]);
    let both = |turn| Replicas::new(&server.primary_replica(), [server.replica(Lag::Revisions(1))], turn);
    let counts = async |service: ApiService, times: usize| {
        let mut counts = Vec::new();
        for _ in 0..times {
            counts.push(send(&service, &format!("{CONFIGMAPS}?resourceVersion=0")).await.names().len());
        }
        counts
    };
    assert_eq!(counts(both(LoadBalancing::RoundRobin).service(), 4).await, [2, 1, 2, 1]);
    let connections = both(LoadBalancing::PerConnection);
    assert_eq!(counts(connections.service(), 2).await, [2, 2]);
    assert_eq!(counts(connections.service(), 2).await, [1, 1]);
    let drawn = counts(both(LoadBalancing::Random(1)).service(), 20).await;
    assert_eq!(drawn, counts(both(LoadBalancing::Random(1)).service(), 20).await);
    assert!(drawn.contains(&1) && drawn.contains(&2), "{drawn:?}");
}

#[tokio::test]
async fn tcp_connection_keeps_its_replica() {
    let server = server();
    configmaps(&server, &["a", "b"]);
    let both =
        Replicas::new(&server.primary_replica(), [server.replica(Lag::Frozen)], LoadBalancing::PerConnection);
    let listening = both.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    configmaps(&server, &["c"]);
    let path = format!("{CONFIGMAPS}?resourceVersion=0");
    let mut first = crate::tcp::Connection::open(listening.local_addr()).await;
    let mut second = crate::tcp::Connection::open(listening.local_addr()).await;
    for _ in 0..2 {
        assert!(first.get(&path).await.contains("\"c\""));
        assert!(!second.get(&path).await.contains("\"c\""));
    }
    drop((first, second));
    listening.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_restart_independently() {
    let server = server();
    let first = configmaps(&server, &["a"]);
    let replica = server.replica(Lag::None);
    let last = configmaps(&server, &["b"]);
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={last}");
    let mut on_server = Lines::open(&server, &path).await;
    let mut on_replica = lines(&replica.service(), &path).await;
    replica.restart();
    assert!(on_replica.line().await.unwrap().is_err());
    let from = format!("{CONFIGMAPS}?watch=1&resourceVersion={first}&timeoutSeconds=1");
    assert!(send(&replica.service(), &from).await.text.contains("\"code\":410"));
    assert!(!get(&server, &from).await.text.contains("\"code\":410"));
    configmaps(&server, &["c"]);
    assert_eq!(on_server.event().await.1, "c");
}

#[tokio::test(start_paused = true)]
async fn compaction_keeps_the_history_of_a_stale_cache() {
    let server = Server::builder().history(1).build();
    configmaps(&server, &["a"]);
    let replica = server.replica(Lag::Frozen);
    configmaps(&server, &["b", "c", "d"]);
    server.disrupt(Disruption::Compact);
    assert_eq!(send(&replica.service(), &format!("{CONFIGMAPS}?resourceVersion=0")).await.names(), ["a"]);
    replica.set_lag(Lag::None);
    assert_eq!(send(&replica.service(), &format!("{CONFIGMAPS}?resourceVersion=0")).await.names().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn compaction_does_not_remove_events_the_cache_has_not_read() {
    let server = server();
    configmaps(&server, &["a"]);
    let replica = server.replica(Lag::Frozen);
    configmaps(&server, &["b", "c"]);
    server.compact();
    let mut watch = lines(&replica.service(), &format!("{CONFIGMAPS}?watch=1")).await;
    assert_eq!(watch.event().await.1, "a");
    assert!(timeout(Duration::from_secs(60), watch.line()).await.is_err());
    replica.set_lag(Lag::None);
    assert_eq!(watch.event().await.1, "b");
}

#[tokio::test(start_paused = true)]
async fn cache_with_a_large_lag_has_a_separate_window() {
    let server = Server::builder().history(4).build();
    let replica = server.replica(Lag::Revisions(10));
    configmaps(&server, &["a"]);
    let mut watch = lines(&replica.service(), &format!("{CONFIGMAPS}?watch=1")).await;
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        while all.len() < 20 {
            all.push(watch.event().await);
            if all.last().unwrap().0 == "ERROR" {
                break;
            }
        }
        all
    });
    for n in 0..40 {
        configmaps(&server, &[&format!("b{n:02}")]);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    let all = timeout(Duration::from_secs(60), reader).await.unwrap().unwrap();
    assert_eq!(all.len(), 20, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn age_of_an_event_starts_when_the_cache_reads_it() {
    let server = Server::builder().expire_watches_after(Duration::from_secs(10)).build();
    let start = configmaps(&server, &["a"]);
    tokio::time::advance(Duration::from_secs(60)).await;
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={start}");
    let (late, behind) =
        (server.replica(Lag::Time(Duration::from_secs(30))), server.replica(Lag::Revisions(1)));
    let mut late = lines(&late.service(), &path).await;
    let mut behind = lines(&behind.service(), &path).await;
    configmaps(&server, &["b"]);
    assert_eq!(late.event().await.1, "b");
    tokio::time::advance(Duration::from_secs(60)).await;
    configmaps(&server, &["c"]);
    assert_eq!(behind.event().await.1, "b");
    // The age limit also applies to events that a cache with a time lag has read.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(get(&server, &path).await.text.contains("\"code\":410"));
}

/// The watch cache of a kind is created when the kind is first served, from the state of etcd.
#[tokio::test(start_paused = true)]
async fn frozen_cache_contains_a_new_kind_from_its_creation() {
    let server = server();
    let replica = server.replica(Lag::Frozen);
    configmaps(&server, &["a"]);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let served = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [served]}
    });
    server.create(&crd).unwrap();
    let made = server.resource_version();
    configmaps(&server, &["b"]);
    let widgets = send(&replica.service(), "/apis/example.com/v1/widgets?resourceVersion=0").await;
    assert_eq!(widgets.json()["metadata"]["resourceVersion"], made.to_string());
    let watch = format!("/apis/example.com/v1/widgets?watch=1&resourceVersion={made}");
    let mut watch = lines(&replica.service(), &watch).await;
    assert!(timeout(Duration::from_secs(60), watch.line()).await.is_err());
    assert_eq!(send(&replica.service(), &format!("{CONFIGMAPS}?resourceVersion=0")).await.names(), [""; 0]);
}

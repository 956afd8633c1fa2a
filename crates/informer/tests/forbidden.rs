//! Tests missing and revoked permissions. The status contains the error, the cache keeps its
//! objects, and other informers are not delayed.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_client::Client;
use kube_informer::{Event, InformerFactory, Object, Phase, ReflectorOptions};
use kube_listwatch::ErrorClass;
use kube_testserver::{Fault, FaultGuard, RequestMatch, Server};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

/// The events of the handlers.
type EventLog = Arc<Mutex<TimedLines>>;

fn forbid(server: &Server, resource: &str) -> FaultGuard {
    server.faults().always(RequestMatch::any().resource(resource), Fault::Forbidden { user: "nobody".into() })
}

fn factory(server: &Server, streaming_lists: bool) -> InformerFactory {
    let options = ReflectorOptions { streaming_lists, seed: Some(7), ..ReflectorOptions::default() };
    InformerFactory::new(Client::new(server.service(), "default")).reflector_options(options)
}

fn write(server: &Server, kind: &str, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap();
}

fn writer<T: Object>(events: &EventLog) -> impl FnMut(&Event<T>) + Send + 'static {
    let (events, start) = (Arc::clone(events), Instant::now());
    move |event| {
        let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
        let sign = match event {
            Event::Added { .. } => '+',
            Event::Updated { .. } => '~',
            Event::Deleted { .. } => '-',
        };
        events.lock().push((start.elapsed(), format!("{sign}{kind} {}", event.key().name())));
    }
}

/// Lines with their times since the start.
type TimedLines = Vec<(Duration, String)>;

/// Runs a factory for ten minutes, in which ConfigMaps and Secrets change alternately. Returns the
/// events of the handlers, and the requests for both types. Reads of Pods are forbidden if
/// `is_forbidden` is true.
async fn run_ten_minutes(is_forbidden: bool, streaming: bool) -> (TimedLines, TimedLines) {
    let server = Server::new();
    write(&server, "ConfigMap", "first");
    let _refused = is_forbidden.then(|| forbid(&server, "pods"));
    let factory = factory(&server, streaming);
    let pods = factory.informer::<Pod>().unwrap();
    let (maps, secrets) = (factory.informer::<ConfigMap>().unwrap(), factory.informer::<Secret>().unwrap());
    let events = EventLog::default();
    let _registrations = (maps.on_event(writer(&events)), secrets.on_event(writer(&events)));
    let mark = server.journal().mark();
    let start = Instant::now();
    factory.start();
    for second in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kind = if second % 2 == 0 { "ConfigMap" } else { "Secret" };
        write(&server, kind, &format!("o{second}"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(601), "a task blocked the thread");
    assert_eq!(pods.has_synced(), !is_forbidden);
    let requests = server.journal().since(mark);
    let of_others = requests.iter().filter(|request| request.info.resource != "pods");
    let requests_of_others =
        of_others.map(|request| (request.at, format!("{}?{}", request.path, request.query)));
    let mut requests_of_others: TimedLines = requests_of_others.collect();
    requests_of_others.sort(); // the order within one second is not defined
    factory.shutdown().await;
    let events = events.lock().clone();
    (events, requests_of_others)
}

/// kube-runtime's controller waits for all of its watches if one is forbidden.
#[tokio::test(start_paused = true)]
async fn forbidden_type_does_not_delay_other_types() {
    for streaming in [true, false] {
        let (events, requests_of_others) = run_ten_minutes(true, streaming).await;
        let (expected_events, expected_requests) = run_ten_minutes(false, streaming).await;
        assert_eq!(events.len(), 601);
        assert_eq!(events, expected_events, "streaming: {streaming}");
        assert_eq!(requests_of_others, expected_requests, "streaming: {streaming}");
        let late = events.iter().filter(|(at, _)| at.subsec_nanos() > 0).collect::<Vec<_>>();
        assert!(late.is_empty(), "events delivered later than in the second of the change: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn revoked_permission_is_in_status_and_keeps_cache() {
    for streaming in [true, false] {
        let server = Server::new();
        write(&server, "ConfigMap", "a");
        let factory = factory(&server, streaming);
        let maps = factory.informer::<ConfigMap>().unwrap();
        let events = EventLog::default();
        let registration = maps.on_event(writer(&events));
        factory.start();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let revoked = forbid(&server, "configmaps");
        server.close_watches();
        tokio::time::sleep(Duration::from_secs(1)).await;
        write(&server, "ConfigMap", "b");
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let status = maps.status();
            assert_eq!(
                (status.reflector.failing, status.reflector.phase),
                (Some(ErrorClass::Forbidden), Phase::Waiting)
            );
            assert!(status.to_string().contains("403 Forbidden"), "{status}");
            assert_eq!((status.synced, status.objects, registration.has_synced()), (true, 1, true));
        }
        assert_eq!(maps.status().reflector.lists, 1, "no event was lost, so no second list is needed");
        drop(revoked);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let status = maps.status();
        assert_eq!((status.reflector.failing, status.objects), (None, 2), "{status}");
        let events: Vec<_> = events.lock().iter().map(|(_, line)| line.clone()).collect();
        assert_eq!(events, ["+ConfigMap a", "+ConfigMap b"]);
        factory.shutdown().await;
    }
}

//! Missing or revoked permissions: the error stays visible, the cache stays, and other informers are
//! not delayed.

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
type Told = Arc<Mutex<Story>>;

fn refuse(server: &Server, resource: &str) -> FaultGuard {
    server.faults().always(RequestMatch::any().resource(resource), Fault::Forbidden { user: "nobody".into() })
}

fn factory(server: &Server, streaming_lists: bool) -> InformerFactory {
    let options = ReflectorOptions { streaming_lists, seed: Some(7), ..ReflectorOptions::default() };
    InformerFactory::new(Client::new(server.service(), "default")).reflector_options(options)
}

fn write(server: &Server, kind: &str, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap();
}

fn writer<T: Object>(told: &Told) -> impl FnMut(&Event<T>) + Send + 'static {
    let (told, began) = (Arc::clone(told), Instant::now());
    move |event| {
        let kind = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
        let sign = match event {
            Event::Added { .. } => '+',
            Event::Updated { .. } => '~',
            Event::Deleted { .. } => '-',
        };
        told.lock().push((began.elapsed(), format!("{sign}{kind} {}", event.key().name())));
    }
}

/// Events with their times.
type Story = Vec<(Duration, String)>;

/// Runs ten minutes of a factory whose ConfigMaps and Secrets change in turn. Returns the events of
/// its handlers and the requests for both. If `refused`, reads of Pods are forbidden.
async fn ten_minutes(refused: bool, streaming: bool) -> (Story, Story) {
    let server = Server::new();
    write(&server, "ConfigMap", "first");
    let _refused = refused.then(|| refuse(&server, "pods"));
    let factory = factory(&server, streaming);
    let pods = factory.informer::<Pod>().unwrap();
    let (maps, secrets) = (factory.informer::<ConfigMap>().unwrap(), factory.informer::<Secret>().unwrap());
    let told = Told::default();
    let _detached = (maps.on_event(writer(&told)), secrets.on_event(writer(&told)));
    let mark = server.journal().mark();
    let began = Instant::now();
    factory.start();
    for second in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kind = if second % 2 == 0 { "ConfigMap" } else { "Secret" };
        write(&server, kind, &format!("o{second}"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(601), "a task blocked the thread");
    assert_eq!(pods.has_synced(), !refused);
    let requests = server.journal().since(mark);
    let of_others = requests.iter().filter(|request| request.info.resource != "pods");
    let asked = of_others.map(|request| (request.at, format!("{}?{}", request.path, request.query)));
    let mut asked: Story = asked.collect();
    asked.sort(); // the order within one second is not defined
    factory.shutdown().await;
    let told = told.lock().clone();
    (told, asked)
}

/// kube-runtime's controller waits for all of its watches if one is forbidden.
#[tokio::test(start_paused = true)]
async fn forbidden_type_delays_no_other_type() {
    for streaming in [true, false] {
        let (told, asked) = ten_minutes(true, streaming).await;
        let (told_otherwise, asked_otherwise) = ten_minutes(false, streaming).await;
        assert_eq!(told.len(), 601);
        assert_eq!(told, told_otherwise, "streaming: {streaming}");
        assert_eq!(asked, asked_otherwise, "streaming: {streaming}");
        let late = told.iter().filter(|(at, _)| at.subsec_nanos() > 0).collect::<Vec<_>>();
        assert!(late.is_empty(), "events delivered later than in the second of the change: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn revoked_permission_stays_in_status_and_keeps_cache() {
    for streaming in [true, false] {
        let server = Server::new();
        write(&server, "ConfigMap", "a");
        let factory = factory(&server, streaming);
        let maps = factory.informer::<ConfigMap>().unwrap();
        let told = Told::default();
        let registration = maps.on_event(writer(&told));
        factory.start();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let revoked = refuse(&server, "configmaps");
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
        let told: Vec<_> = told.lock().iter().map(|(_, line)| line.clone()).collect();
        assert_eq!(told, ["+ConfigMap a", "+ConfigMap b"]);
        factory.shutdown().await;
    }
}

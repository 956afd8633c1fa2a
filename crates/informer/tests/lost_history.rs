//! Tests servers that return from an outage with an older or an empty history.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Informer, InformerFactory, ListWatch, Lister, ReflectorOptions};
use kube_testserver::{Fault, Outage, Request, RequestMatch, Server, Verb};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(60);
const INFORMERS: usize = 20;

fn write(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

fn factory(server: &Server) -> InformerFactory {
    let options = ReflectorOptions { seed: Some(7), ..ReflectorOptions::default() };
    InformerFactory::new(Client::new(server.service(), "default")).reflector_options(options)
}

/// Returns the listers of synced informers with different selections.
async fn listers(factory: &InformerFactory) -> Vec<Lister<ConfigMap>> {
    let informers: Vec<_> = (0..INFORMERS)
        .map(|n| factory.select::<ConfigMap>().labels(format!("app=web,absent!={n}")).informer().unwrap())
        .collect();
    factory.start();
    factory.wait_for_sync(TIMEOUT).await.unwrap();
    informers.iter().map(|informer| informer.lister()).collect()
}

fn is_check(request: &Request) -> bool {
    request.info.verb == Verb::List && request.parameter("limit").as_deref() == Some("1")
}

/// No event and no expired version shows the loss: the type is quiet, and a watch from a future version
/// is accepted.
#[tokio::test(start_paused = true)]
async fn lost_history_is_detected_within_a_minute_after_reconnect() {
    for attempts in [0, 3] {
        let server = Server::builder().build();
        let empty = server.resource_version();
        for name in ["a", "b", "c", "d"] {
            write(&server, name);
        }
        let factory = factory(&server);
        let listers = listers(&factory).await;
        assert!(listers.iter().all(|lister| lister.len() == 4));

        let mark = server.journal().mark();
        let outage = server.outage(Outage::Refused);
        server.restore(empty).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        // The first checks fail.
        server.faults().times(attempts, &checks(), &Fault::status(429, "TooManyRequests", None));
        drop(outage);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(listers.iter().all(|lister| lister.is_empty()), "{}", factory.status()[0]);
        let checks = server.journal().count_since(mark, is_check);
        assert!((1 + attempts..=3 + attempts).contains(&checks), "{checks} checks of {INFORMERS} informers");
        assert!(factory.status().iter().all(|status| status.reflector.failing.is_none()));
        factory.shutdown().await;
    }
}

fn checks() -> RequestMatch {
    RequestMatch::verb(Verb::List).parameter("limit", "1")
}

#[tokio::test(start_paused = true)]
async fn outage_without_loss_causes_a_check_and_no_list() {
    let server = Server::builder().build();
    write(&server, "a");
    let factory = factory(&server);
    let listers = listers(&factory).await;
    let mark = server.journal().mark();
    server.outage_for(Duration::from_secs(10), Outage::Refused);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(listers.iter().all(|lister| lister.len() == 1));
    let lists = server.journal().count_since(mark, |request| request.info.verb == Verb::List);
    assert_eq!(lists, server.journal().count_since(mark, is_check));
    assert!((1..=3).contains(&lists), "{lists} checks of {INFORMERS} informers");
    // The open watch ends the failure, although it has sent nothing.
    assert!(factory.status().iter().all(|status| status.reflector.failing.is_none()));
    factory.shutdown().await;
}

/// A check must not transfer all objects.
#[tokio::test(start_paused = true)]
async fn check_without_chunking_requests_one_object() {
    let server = Server::builder().build();
    write(&server, "a");
    let api = Api::<ConfigMap>::all(Client::new(server.service(), "default"));
    let options = ReflectorOptions { streaming_lists: false, seed: Some(7), ..ReflectorOptions::default() };
    let source = ListWatch::<ConfigMap>::new(api).disable_chunking();
    let informer = Informer::from_source(source).reflector_options(options).build();
    let mark = server.journal().mark();
    informer.start();
    informer.wait_for_sync(TIMEOUT).await.unwrap();
    assert_eq!(server.journal().count_since(mark, is_check), 0, "the list has no limit");
    let mark = server.journal().mark();
    server.outage_for(Duration::from_secs(10), Outage::Refused);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let lists = server.journal().count_since(mark, |request| request.info.verb == Verb::List);
    assert!((1..=3).contains(&lists), "{lists}");
    assert_eq!(lists, server.journal().count_since(mark, is_check));
    informer.stop().await;
}

//! Tests requests that the server always rejects: invalid selectors and namespaces.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::{Api, Client};
use kube_informer::{FactoryError, Informer, InformerFactory, ListWatch, Phase, ReflectorOptions};
use kube_testserver::{Fault, RequestMatch, Server, Status, Verb};
use tokio::time::Instant;

const TIMEOUT: Duration = Duration::from_secs(3600);

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn factory(server: &Server, streaming_lists: bool) -> InformerFactory {
    let options = ReflectorOptions { streaming_lists, seed: Some(7), ..ReflectorOptions::default() };
    InformerFactory::new(client(server)).reflector_options(options)
}

/// Only the server knows the fields of a type.
#[tokio::test(start_paused = true)]
async fn wait_for_unknown_field_selector_returns_immediately() {
    for streaming_lists in [true, false] {
        let server = Server::builder().build();
        let factory = factory(&server, streaming_lists);
        let valid = factory.informer::<ConfigMap>().unwrap();
        let invalid = factory.select::<Pod>().fields("spec.unknown=a").informer().unwrap();
        factory.start();
        let start = Instant::now();
        let error = factory.wait_for_sync(TIMEOUT).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        let text = error.to_string();
        assert!(text.starts_with("caches not synced: "), "{text}");
        assert!(text.contains("400 BadRequest: field label not supported: spec.unknown"), "{text}");
        assert!(text.ends_with("check selectors, namespace and options"), "{text}");
        assert_eq!(invalid.wait_for_sync(TIMEOUT).await.unwrap_err().informers.len(), 1);
        valid.wait_for_sync(TIMEOUT).await.unwrap();
        let status = invalid.status();
        assert!(status.reflector.rejected, "{status}");
        assert!(status.to_string().contains("rejected by the server"), "{status}");
        factory.shutdown().await;
    }
}

/// The server can learn a field later, for example a selectable field of a CRD.
#[tokio::test(start_paused = true)]
async fn successful_list_ends_rejection() {
    for streaming_lists in [true, false] {
        let server = Server::builder().build();
        let rejection = Status::new(400, "BadRequest", "field label not supported: spec.unknown");
        let fault = server.faults().always(RequestMatch::any().resource("pods"), Fault::Status(rejection));
        let factory = factory(&server, streaming_lists);
        let informer = factory.informer::<Pod>().unwrap();
        factory.start();
        informer.wait_for_sync(TIMEOUT).await.unwrap_err();
        assert!(informer.status().reflector.rejected);
        drop(fault);
        informer.reflector_status().wait_for(|status| status.phase == Phase::Watching).await.unwrap();
        let status = informer.status();
        assert!(!status.reflector.rejected, "{status}");
        assert!(status.to_string().contains("recovered"), "{status}");
        factory.shutdown().await;
    }
}

/// An informer of a builder is not checked before its first request.
#[tokio::test(start_paused = true)]
async fn invalid_label_selector_is_reported_and_rarely_retried() {
    let server = Server::builder().build();
    let source = ListWatch::<Pod>::new(Api::all(client(&server))).labels("a in b");
    let informer = Informer::from_source(source).build();
    informer.start();
    let error = informer.wait_for_sync(TIMEOUT).await.unwrap_err();
    assert!(error.to_string().contains("400 BadRequest: unable to parse requirement"), "{error}");
    let mark = server.journal().mark();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let retries = server.journal().since(mark).len();
    assert!((1..60).contains(&retries), "{retries} requests in ten minutes");
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn factory_refuses_invalid_selectors_and_namespaces_without_request() {
    let server = Server::builder().build();
    let (factory, mark) = (factory(&server, true), server.journal().mark());
    let labels = factory.select::<Pod>().labels("a in b").informer().map(drop).unwrap_err();
    assert_eq!(
        labels.to_string(),
        "cannot create informer of Pod with selector \"a in b\": invalid label selector: expected an opening parenthesis at byte 5"
    );
    let fields =
        factory.select::<Pod>().fields("spec.nodeName").ref_counted_informer().map(drop).unwrap_err();
    assert!(matches!(fields, FactoryError::InvalidSelector { .. }), "{fields}");
    let namespace = factory.select::<Pod>().namespace("a/b").informer().map(drop).unwrap_err();
    assert_eq!(
        namespace.to_string(),
        "cannot create informer of Pod in namespace \"a/b\": the name must be a DNS label, and the type must be namespaced"
    );
    let several = factory.select::<Pod>().namespaces(["shop", "../default"]).map(drop).unwrap_err();
    assert!(matches!(several, FactoryError::InvalidNamespace { .. }), "{several}");
    assert_eq!(server.journal().since(mark).len(), 0);
    assert_eq!(factory.status().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn wait_for_namespaces_returns_if_one_list_is_rejected() {
    let server = Server::builder().build();
    let factory = factory(&server, false);
    let slow = RequestMatch::verb(Verb::List).namespace("slow");
    let _slow = server.faults().always(slow, Fault::Delay(TIMEOUT));
    let invalid = RequestMatch::verb(Verb::List).namespace("invalid");
    let _invalid = server.faults().always(invalid, Fault::status(400, "BadRequest", None));
    let namespaces = factory.select::<Pod>().namespaces(["invalid", "slow"]).unwrap();
    factory.start();
    let start = Instant::now();
    let error = namespaces.wait_for_sync(TIMEOUT).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let rejected: Vec<_> = error.informers.iter().map(|informer| informer.rejected).collect();
    assert_eq!(rejected, [true, false], "{error}");
    assert!(error.to_string().starts_with("caches not synced: "), "{error}");
    factory.shutdown().await;
}

//! Tests that a stopped informer does not pretend to have a current cache.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use kube_informer::{CachedApi, CachedReadError, InformerFactory, LabelSelector, Phase};
use kube_testserver::Server;

const TIMEOUT: Duration = Duration::from_secs(3600);

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

#[tokio::test(start_paused = true)]
async fn reads_of_stopped_informer_fail_and_listers_are_closed() {
    let server = Server::builder().build();
    let api: Api<ConfigMap> = Api::namespaced(Client::new(server.service(), "default"), "default");
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    let factory = InformerFactory::new(Client::new(server.service(), "default"));
    let informer = factory.informer::<ConfigMap>().unwrap();
    let maps = CachedApi::new(api.clone(), &informer);
    factory.start();
    factory.wait_for_sync(TIMEOUT).await.unwrap();
    assert!(maps.get("a").await.unwrap().is_some());
    let lister = informer.lister();
    assert!(!lister.is_closed() && !informer.is_stopped());

    factory.shutdown().await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let expected = CachedReadError::Stopped { informer: "ConfigMap /api/v1/configmaps".to_owned() };
    assert_eq!(maps.get("a").await.unwrap_err(), expected);
    assert_eq!(maps.list(&LabelSelector::everything()).await.unwrap_err(), expected);
    assert_eq!(maps.lister().await.map(drop).unwrap_err(), expected);
    assert!(lister.is_closed() && informer.is_stopped());
    assert_eq!(lister.len(), 1, "the last state can still be read");

    assert!(!informer.has_synced());
    let error = informer.wait_for_sync(TIMEOUT).await.unwrap_err();
    assert_eq!(error.informers[0].phase, Phase::Stopped);
    assert_eq!(error.to_string(), "caches not synced: ConfigMap /api/v1/configmaps: stopped");
}

/// A factory reports an adopted informer that was stopped elsewhere.
#[tokio::test(start_paused = true)]
async fn factory_reports_stopped_informer() {
    let server = Server::builder().build();
    let factory = InformerFactory::new(Client::new(server.service(), "default"));
    let other = InformerFactory::new(Client::new(server.service(), "default"));
    let informer = other.informer::<ConfigMap>().unwrap();
    factory.adopt(&informer).unwrap();
    factory.start();
    factory.wait_for_sync(TIMEOUT).await.unwrap();
    informer.stop().await;
    let error = factory.wait_for_sync(TIMEOUT).await.unwrap_err();
    assert_eq!(error.informers.len(), 1);
    assert!(factory.status()[0].synced, "the store contains a list");
    factory.shutdown().await;
}

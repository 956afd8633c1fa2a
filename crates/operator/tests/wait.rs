//! Tests of `await_condition` with a test server, under a paused clock.

use std::{error::Error, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use kube_operator::{
    AwaitConditionError, await_condition, conditions,
    informer::{CachedApi, CachedReadError, InformerFactory, ObjectKey},
};
use kube_testserver::{JournalMark, Lag, Server, Verb};
use serde_json::json;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn factory(server: &Server) -> InformerFactory {
    InformerFactory::new(Client::new(server.service(), "default"))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn create_pod(server: &Server, phase: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.create(&pod).unwrap();
    set_phase(server, phase);
}

fn set_phase(server: &Server, phase: &str) {
    let mut pod = server.get_untyped("v1", "Pod", Some("default"), "web").unwrap();
    pod["status"]["phase"] = phase.into();
    server.update_status(&pod).unwrap();
}

fn requests(server: &Server, mark: JournalMark) -> usize {
    server.journal().count_since(mark, |request| !matches!(request.info.verb, Verb::List | Verb::Watch))
}

#[tokio::test(start_paused = true)]
async fn condition_is_awaited_in_the_cache_without_requests() {
    let server = Server::new();
    let factory = factory(&server);
    let pods = factory.informer::<Pod>().unwrap();
    let mark = server.journal().mark();
    let waiting = tokio::spawn({
        let pods = pods.clone();
        async move { await_condition(&pods, &key("web"), conditions::is_pod_running(), 60 * SECOND).await }
    });
    factory.start();
    sleep(SECOND).await;
    create_pod(&server, "Pending");
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    set_phase(&server, "Running");
    let pod = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(requests(&server, mark), 0);

    let start = Instant::now();
    await_condition(&pods, &key("web"), conditions::is_pod_running(), SECOND).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_is_awaited_after_own_writes_and_initial_list() {
    let server = Server::new();
    let factory = factory(&server);
    let informer = factory.informer::<ConfigMap>().unwrap();
    let maps =
        CachedApi::new(Api::namespaced(Client::new(server.service(), "default"), "default"), &informer);
    let unsynced = await_condition(&informer, &key("a"), conditions::is_deleted("none"), SECOND).await;
    let error = unsynced.unwrap_err();
    assert!(error.source().unwrap().downcast_ref::<CachedReadError>().is_some(), "{error:?}");
    factory.start();
    server.set_lag(Lag::Time(2 * SECOND));
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let uid = maps.create(&PostParams::default(), &map).await.unwrap().metadata.uid.unwrap();
    // The cache does not contain the object yet.
    let early = await_condition(&informer, &key("a"), conditions::is_deleted(&uid), 10 * SECOND).await;
    assert!(matches!(early, Err(AwaitConditionError::Timeout { exists: true, .. })), "{early:?}");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let start = Instant::now();
    let deleted = await_condition(&informer, &key("a"), conditions::is_deleted(&uid), 10 * SECOND).await;
    assert!(deleted.unwrap().is_none());
    assert_eq!(start.elapsed(), 2 * SECOND);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn errors_contain_informer_key_and_timeout_but_not_the_object() {
    let server = Server::new();
    create_pod(&server, "SecretPhase");
    let factory = factory(&server);
    let pods = factory.informer::<Pod>().unwrap();
    factory.start();
    let late = await_condition(&pods, &key("web"), conditions::is_pod_running(), SECOND).await;
    assert_eq!(
        late.unwrap_err().to_string(),
        "default/web did not satisfy the condition within 1s; the cache of Pod /api/v1/pods contains the object"
    );
    let absent = await_condition(&pods, &key("db"), conditions::is_created(), SECOND).await;
    let absent = absent.unwrap_err().to_string();
    assert!(absent.ends_with("the cache of Pod /api/v1/pods does not contain the object"), "{absent}");
    let waiting = tokio::spawn({
        let pods = pods.clone();
        async move { await_condition(&pods, &key("db"), conditions::is_created(), 60 * SECOND).await }
    });
    sleep(SECOND).await;
    factory.shutdown().await;
    let stopped = waiting.await.unwrap().unwrap_err();
    assert_eq!(
        stopped.to_string(),
        "failed to wait for a condition of default/db: the informer Pod /api/v1/pods is stopped"
    );
}

//! The log of a program with a fault, at the level warn. Each test starts with [`Logged::begin`].

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{
    Api, Client, Error, Resource,
    core::{NamespaceResourceScope, Status},
};
use kube_informer::{ApiObject, CachedApi, InformerFactory};
use kube_operator::{
    Action, Applier, Controller, Failure, Manager, ManagerOptions, OperationResult, Request, WriteError,
};
use kube_testserver::{Fault, Lag, RequestMatch, Server, Verb};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

const SECOND: Duration = Duration::from_secs(1);
const FIGHT: &str =
    "message=another client changes a field again and again, and this program applies it again";

/// Returns the log of kube-operator. The lines are the fields of the events.
fn log(logged: &Logged) -> String {
    logged.text_of(|name| name == "kube_operator")
}

fn map(says: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"},
        "data": {"says": says}
    })
}

/// Returns a cache of the objects in the namespace `default`.
async fn cached<K>(server: &Server) -> (InformerFactory, CachedApi<K>)
where
    K: ApiObject + Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let client = Client::new(server.service(), "default");
    let factory = InformerFactory::new(client.clone());
    let informer = factory.informer::<K>().unwrap();
    factory.start();
    informer.wait_for_sync(60 * SECOND).await.unwrap();
    (factory, CachedApi::new(Api::namespaced(client, "default"), &informer))
}

/// Two programs that force their value of the same field never get an error.
#[tokio::test(start_paused = true)]
async fn fight_between_two_field_managers_is_logged_once_with_the_field() {
    let logged = Logged::begin();
    let server = Server::new();
    let (factory, maps) = cached::<ConfigMap>(&server).await;
    let [ours, others] = ["ours", "others"].map(|name| Applier::new(name).force());
    for round in 0..5 {
        ours.apply(&maps, &map("secret text 1")).await.unwrap();
        assert_eq!(
            log(&logged).matches("field_manager=\"ours\"").count(),
            usize::from(round >= 3),
            "round {round}"
        );
        others.apply(&maps, &map("secret text 2")).await.unwrap();
    }
    let log = log(&logged);
    for expected in [
        "resource=configmaps",
        "object=default/web",
        "field=\"data.says\"",
        FIGHT,
        "field_manager=\"others\"",
        "repairs=3",
    ] {
        assert!(log.contains(expected), "{expected}: {log}");
    }
    assert!(!log.contains("secret text"), "{log}");

    // Both programs now apply the same value.
    sleep(61 * SECOND).await;
    ours.apply(&maps, &map("2")).await.unwrap();
    let agreed = others.apply(&maps, &map("2")).await.unwrap();
    assert_eq!(agreed.result, OperationResult::Updated, "a second field manager");
    assert_eq!(self::log(&logged), log);
    factory.shutdown().await;
}

/// `apply_owned` adds a precondition to the applied fields.
#[tokio::test(start_paused = true)]
async fn fight_over_an_owned_object_is_logged() {
    let logged = Logged::begin();
    let server = Server::new();
    let (factory, maps) = cached::<ConfigMap>(&server).await;
    let owner = server.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"},
    }));
    let owner: ConfigMap = serde_json::from_value(owner.unwrap()).unwrap();
    let [ours, others] = ["ours", "others"].map(|name| Applier::new(name).force());
    for round in 0..5 {
        let owned: ConfigMap = serde_json::from_value(map("1")).unwrap();
        ours.apply_owned(&maps, &owner, owned).await.unwrap();
        assert_eq!(log(&logged).contains("field_manager=\"ours\""), round >= 3, "round {round}");
        others.apply(&maps, &map("2")).await.unwrap();
    }
    factory.shutdown().await;
}

/// The server stores `stringData` in another form, so no state contains the applied field. If another client
/// changes a label, the program applies the Secret again, and this apply changes nothing.
#[tokio::test(start_paused = true)]
async fn field_that_the_server_stores_in_another_form_is_no_fight() {
    let logged = Logged::begin();
    let server = Server::new();
    let (factory, secrets) = cached::<Secret>(&server).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"},
        "stringData": {"says": "secret text"},
    });
    let applier = Applier::new("ours").force();
    for round in 0..5 {
        applier.apply(&secrets, &secret).await.unwrap();
        // The cache contains the first label, and the server also the second label.
        for label in ["first", "second"] {
            sleep(10 * SECOND).await;
            server.set_lag(if label == "first" { Lag::None } else { Lag::Time(SECOND) });
            let labels = json!({"metadata": {"labels": {label: round.to_string()}}});
            server.patch_untyped("v1", "Secret", Some("default"), "a", &labels).unwrap();
        }
    }
    let log = log(&logged);
    assert!(!log.contains(FIGHT) && !log.contains("secret text"), "{log}");
    factory.shutdown().await;
}

/// A proxy can hold back a response. The request then has no error.
#[tokio::test(start_paused = true)]
async fn list_without_a_response_is_logged_during_the_start() {
    let logged = Logged::begin();
    let server = Server::new();
    let lists = RequestMatch::verb(Verb::List).resource("configmaps");
    let hanging = server.faults().always(lists, Fault::Hang);
    let client = Client::new(server.service(), "default");
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let manager = Manager::new(client, options).unwrap();
    manager.factory().informer::<ConfigMap>().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    sleep(9 * SECOND).await;
    let before = log(&logged);
    assert!(!before.contains("not synced"), "{before}");
    sleep(2 * SECOND).await;
    let after = log(&logged);
    for expected in [
        "message=cache is not synced yet",
        "informer=ConfigMap /api/v1/configmaps",
        "waiting for a complete list from the server",
        "waited=10",
    ] {
        assert!(after.contains(expected), "{expected}: {after}");
    }
    drop(hanging);
    stop.cancel();
    timeout(60 * SECOND, running).await.unwrap().unwrap().unwrap();
}

/// A single conflict is usual, because caches lag.
#[tokio::test(start_paused = true)]
async fn repeated_conflicts_are_explained_in_the_log() {
    let logged = Logged::begin();
    let server = Server::new();
    server.create(&map("hello")).unwrap();
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    manager.add_controller(Controller::new(&maps), |request: Request<ConfigMap>| async {
        let status = Status { code: 409, reason: "Conflict".to_owned(), ..Status::failure("", "") };
        let source = Error::Api(Box::new(status));
        let conflict =
            WriteError::Conflict { operation: "update configmaps".into(), key: request.key, source };
        Err::<Action, _>(Failure::from(conflict))
    });
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    sleep(60 * SECOND).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let log = log(&logged);
    let lines: Vec<_> = log.lines().collect();
    let is_explained = |pair: &&[&str]| pair[0].contains("another client changes the object all the time");
    let failures: Vec<_> = lines.windows(2).filter(is_explained).map(|pair| pair[1]).collect();
    assert_eq!(failures, ["kube_operator: failures=5", "kube_operator: failures=10"], "{log}");
}

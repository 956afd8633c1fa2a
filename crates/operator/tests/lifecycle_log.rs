//! The log of a manager at the level info: one line for each step from start to stop. Each test starts
//! with [`Logged::begin`].

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, Manager, ManagerError, ManagerOptions, Request,
    ShardOptions,
};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use logged::Logged;

#[path = "../../informer/tests/support/logged.rs"]
mod logged;

const SECOND: Duration = Duration::from_secs(1);

/// An operator that takes part in an election.
struct Operator {
    reconciled: Arc<Notify>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Operator {
    fn start(server: &Server, identity: &str) -> Self {
        let mut election = ElectionOptions::new("default", "operator");
        election.identity = identity.to_owned();
        let options =
            ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
        let mut manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        let reconciled = Arc::new(Notify::new());
        let notify = Arc::clone(&reconciled);
        manager.add_controller(Controller::new(&maps), move |_: Request<ConfigMap>| {
            notify.notify_one();
            async { Ok::<_, Failure>(Action::Done) }
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        Self { reconciled, stop, running }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

fn server_with_a_map() -> Server {
    let server = Server::new();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"}});
    server.create(&map).unwrap();
    server
}

/// Returns the log of kube-operator. The lines are the fields of the events.
fn log(logged: &Logged) -> String {
    logged.text_of(|name| name == "kube_operator")
}

/// Checks that the lines of the log contain these texts, in this order.
fn assert_in_order(log: &str, expected: &[&str]) {
    let mut lines = log.lines();
    for text in expected {
        assert!(lines.any(|line| line.contains(text)), "{text:?} is missing or in another order: {log}");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_and_follower_log_each_step_from_start_to_stop() {
    let logged = Logged::begin();
    let server = server_with_a_map();
    let first = Operator::start(&server, "first");
    first.reconciled.notified().await;
    assert_in_order(
        &log(&logged),
        &[
            "message=caches synced",
            "informers=1",
            "objects=1",
            "took=",
            "message=joined the election",
            "lease=default/operator",
            "identity=first",
            "message=became the leader",
            "lease=default/operator",
            "message=controller started",
            "controller=configmap",
            "concurrency=1",
        ],
    );
    let second = Operator::start(&server, "second");
    sleep(5 * SECOND).await;
    assert_in_order(
        &log(&logged),
        &[
            "identity=second",
            "message=another process holds the lease; waiting until it is released, or not renewed for lease_duration",
            "lease=default/operator",
            "leader=first",
        ],
    );
    first.stop().await;
    timeout(60 * SECOND, second.reconciled.notified()).await.expect("the second process takes the lease");
    assert_in_order(
        &log(&logged),
        &[
            "leader=first",
            "message=stop signal received; manager stops",
            "grace_period=20s",
            "message=controller stopped",
            "controller=configmap",
            "message=released the lease",
            "message=manager stopped",
        ],
    );
    second.stop().await;
    assert_eq!(log(&logged).matches("message=became the leader").count(), 2, "renewals are not logged");
}

#[tokio::test(start_paused = true)]
async fn lost_lease_is_logged_with_the_failed_request() {
    let logged = Logged::begin();
    let server = server_with_a_map();
    let operator = Operator::start(&server, "first");
    operator.reconciled.notified().await;
    let writes = RequestMatch::verb(Verb::Update).resource("leases");
    let _cut = server.faults().always(writes, Fault::status(503, "ServiceUnavailable", None));
    let error = operator.running.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "lost the lease default/operator: renewals failed: cannot write the Lease: the server responded \
         with 503 ServiceUnavailable: injected failure: ServiceUnavailable; this process must exit"
    );
    assert_in_order(
        &log(&logged),
        &["message=cannot write the Lease", "message=manager stops after a failure", "error=lost the lease"],
    );

    let second = Operator::start(&server, "second");
    sleep(60 * SECOND).await;
    second.stop().await;
    let log = log(&logged);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("message=cannot write the Lease")).collect();
    assert!((2..10).contains(&lines.len()), "the candidate retries every two seconds: {lines:?}");
}

/// After a crash, the holder of the lease can be the previous process of the same Pod.
#[tokio::test(start_paused = true)]
async fn takeover_after_a_crash_is_logged_with_the_previous_leader() {
    let logged = Logged::begin();
    let server = server_with_a_map();
    let first = Operator::start(&server, "first");
    first.reconciled.notified().await;
    first.running.abort();
    let second = Operator::start(&server, "second");
    timeout(60 * SECOND, second.reconciled.notified()).await.expect("the second process takes the lease");
    assert_in_order(
        &log(&logged),
        &[
            "message=another process holds the lease",
            "leader=first",
            "lease_duration=15s",
            "message=became the leader; the previous leader did not renew the lease",
            "previous=first",
        ],
    );
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn spans_contain_informer_controller_key_and_reason() {
    let logged = Logged::begin();
    let server = server_with_a_map();
    let operator = Operator::start(&server, "first");
    operator.reconciled.notified().await;
    assert_in_order(
        &log(&logged),
        &["controller=configmap", "key=default/web", "reason=ConfigMap was listed"],
    );
    assert_in_order(
        &logged.text_of(|name| name == "kube_informer"),
        &["informer=ConfigMap /api/v1/configmaps"],
    );
    operator.stop().await;
}

/// Two candidates try to acquire a released lease at the same time. The loser is not at fault.
#[tokio::test(start_paused = true)]
async fn lost_race_for_a_released_lease_is_not_logged_as_a_failure() {
    let logged = Logged::begin();
    let server = server_with_a_map();
    let first = Operator::start(&server, "first");
    first.reconciled.notified().await;
    let others = ["second", "third"].map(|identity| Operator::start(&server, identity));
    sleep(10 * SECOND).await;
    first.stop().await;
    sleep(60 * SECOND).await;
    for other in others {
        other.stop().await;
    }
    let log = log(&logged);
    assert!(
        log.contains("the Lease was changed by another process"),
        "both candidates wrote the Lease: {log}"
    );
    assert!(!log.contains("message=cannot"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn log_contains_one_line_if_replicas_of_other_version_own_the_slots() {
    let logged = Logged::begin();
    let server = Server::new();
    let table =
        json!({"format": 2, "slots": vec![json!({"owner": "operator-00000000000000aa", "epoch": 1}); 64]});
    let labels = json!({"kube-informer.dev/shard-group": "operator"});
    for (name, text) in [("operator", table.to_string()), ("operator-00000000000000aa", String::new())] {
        let annotations = json!({"kube-informer.dev/shard-table": text});
        let metadata =
            json!({"name": name, "namespace": "default", "labels": labels, "annotations": annotations});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"leaseDurationSeconds": 3600}});
        server.create(&lease).unwrap();
    }
    let shards = Some(ShardOptions::new("default", "operator"));
    let options = ManagerOptions { bind_address: None, shards, ..ManagerOptions::default() };
    let manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    sleep(60 * SECOND).await;
    let log = logged.text_of(|name| name == "kube_operator");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("the table has format 2")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(log.contains("this process takes no part in the shard group"), "{log}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

//! The operator of the example `operator`, as its author would test it: on an API server in memory, under a paused clock.

use std::time::Duration;

use kube::CustomResourceExt;
use kube_client::Client;
use kube_informer_examples::website::{DIRECTORY, OperatorOptions, Website, operator};
use kube_operator::ManagerError;
use kube_testserver::{Server, Verb};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const API: &str = "examples.kube-informer.dev/v1";

/// An operator that runs, on a server of its own.
struct Operator {
    server: Server,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Operator {
    fn start() -> Self {
        let server = Server::builder().garbage_collector(true).build();
        server.create(serde_json::to_value(Website::crd()).unwrap()).unwrap();
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
            .unwrap();
        Self::on(server)
    }

    fn on(server: Server) -> Self {
        let client = Client::new(server.service(), "default");
        let options =
            OperatorOptions { namespace: "default".to_owned(), identity: "test".to_owned(), address: None };
        let stop = CancellationToken::new();
        let running = tokio::spawn(operator(client, options).unwrap().run(stop.clone().cancelled_owned()));
        Self { server, stop, running }
    }

    /// Long enough for everything but retries.
    async fn settle(&self) {
        sleep(Duration::from_secs(5)).await;
    }

    async fn site(&self, html: &str, replicas: i32) {
        let site = json!({
            "apiVersion": API, "kind": "Website", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"html": html, "replicas": replicas},
        });
        self.server.create(site).unwrap();
        self.settle().await;
    }

    fn get(&self, api_version: &str, kind: &str) -> Option<Value> {
        self.server.get(api_version, kind, Some("shop"), "web").ok()
    }

    fn ready(&self) -> Value {
        self.get(API, "Website").unwrap()["status"]["conditions"][0].clone()
    }

    fn directory(&self) -> Value {
        self.server.get("v1", "ConfigMap", Some("default"), DIRECTORY).unwrap()["data"].clone()
    }

    /// What the kubelets would do.
    async fn serve(&self) {
        let mut deployment = self.get("apps/v1", "Deployment").unwrap();
        deployment["status"] = json!({
            "availableReplicas": deployment["spec"]["replicas"],
            "observedGeneration": deployment["metadata"]["generation"],
        });
        self.server.update_status(deployment).unwrap();
        self.settle().await;
    }

    /// Writes that the operator has made, but for its Lease and its events.
    fn writes(&self) -> usize {
        self.server.journal().count_where(|request| {
            matches!(request.about.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
                && !["leases", "events"].contains(&request.about.resource.as_str())
        })
    }

    async fn end(self) -> Server {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.server
    }
}

#[tokio::test(start_paused = true)]
async fn a_site_gets_what_it_asks_for_and_is_ready_when_that_serves() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    assert_eq!(operator.get("v1", "ConfigMap").unwrap()["data"]["index.html"], "<h1>Hello</h1>");
    assert_eq!(operator.get("apps/v1", "Deployment").unwrap()["spec"]["replicas"], 2);
    assert!(operator.get("v1", "Service").is_some());
    assert_eq!(operator.directory(), json!({"shop.web": "http://web.shop.svc"}));
    assert_eq!(
        (&operator.ready()["status"], &operator.ready()["reason"]),
        (&json!("False"), &json!("Starting"))
    );

    operator.serve().await;
    assert_eq!(operator.ready()["status"], "True");
    let events = operator.server.list("events.k8s.io/v1", "Event", Some("shop")).unwrap();
    let reasons: Vec<_> = events.iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["Published"]);
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_others_change_or_delete_is_as_it_was_again() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    operator.server.delete("v1", "Service", Some("shop"), "web").unwrap();
    let scaled = json!({"spec": {"replicas": 7}});
    operator.server.patch("apps/v1", "Deployment", Some("shop"), "web", &scaled).unwrap();
    operator.settle().await;
    assert!(operator.get("v1", "Service").is_some());
    assert_eq!(operator.get("apps/v1", "Deployment").unwrap()["spec"]["replicas"], 2);
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn where_nothing_has_changed_nothing_is_written() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    operator.serve().await;
    let before = operator.writes();
    operator
        .server
        .patch(API, "Website", Some("shop"), "web", &json!({"metadata": {"labels": {"a": "b"}}}))
        .unwrap();
    operator.settle().await;
    assert_eq!(operator.writes(), before);
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_site_that_is_deleted_while_no_operator_runs_leaves_nothing_behind() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    let server = operator.end().await;
    server.delete(API, "Website", Some("shop"), "web").unwrap();
    sleep(Duration::from_secs(60)).await;
    let operator = Operator::on(server);
    assert!(operator.get(API, "Website").is_some(), "its line is still in the directory");

    operator.settle().await;
    assert_eq!(operator.directory(), Value::Null, "no line is left");
    let kinds = [(API, "Website"), ("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service")];
    let left = kinds.iter().filter(|(api_version, kind)| operator.get(api_version, kind).is_some());
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    operator.end().await;
}

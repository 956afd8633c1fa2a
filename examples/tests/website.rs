//! The operator of the example `operator`, as its author would test it: on an API server in memory, under a paused clock.

use std::{net::SocketAddr, time::Duration};

use kube::CustomResourceExt;
use kube_client::Client;
use kube_informer_examples::website::{DIRECTORY, OperatorOptions, Website, operator};
use kube_operator::ManagerError;
use kube_testserver::{Fault, Match, Server, Verb};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

const API: &str = "examples.kube-informer.dev/v1";

/// What a site owns, each under the site's name.
const CHILDREN: [(&str, &str); 3] = [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service")];

/// An operator that runs, on a server of its own.
struct Operator {
    server: Server,
    /// Of its pages.
    address: SocketAddr,
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
        let options = OperatorOptions {
            namespace: "default".to_owned(),
            identity: Some("test".to_owned()),
            address: Some(([127, 0, 0, 1], 0).into()),
        };
        let manager = operator(client, options).unwrap();
        let address = manager.local_address().unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        Self { server, address, stop, running }
    }

    /// Long enough for everything but retries.
    async fn settle(&self) {
        sleep(Duration::from_secs(5)).await;
    }

    async fn site(&self, html: &str, replicas: i32) {
        self.site_named("shop", "web", html, replicas).await;
    }

    async fn site_named(&self, namespace: &str, name: &str, html: &str, replicas: i32) {
        let site = json!({
            "apiVersion": API, "kind": "Website", "metadata": {"name": name, "namespace": namespace},
            "spec": {"html": html, "replicas": replicas},
        });
        self.server.create(site).unwrap();
        self.settle().await;
    }

    async fn change_site(&self, spec: Value) {
        self.server.patch(API, "Website", Some("shop"), "web", &json!({ "spec": spec })).unwrap();
        self.settle().await;
    }

    fn get(&self, api_version: &str, kind: &str) -> Option<Value> {
        self.server.get(api_version, kind, Some("shop"), "web").ok()
    }

    /// Status and reason of the condition `Ready`.
    fn ready(&self) -> (String, String) {
        self.ready_of("shop", "web")
    }

    fn ready_of(&self, namespace: &str, name: &str) -> (String, String) {
        let site = self.server.get(API, "Website", Some(namespace), name).unwrap();
        let text = |field: &str| site["status"]["conditions"][0][field].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    /// Type and reason of each event in the namespace `shop`.
    fn events(&self) -> Vec<(String, String)> {
        let events = self.server.list("events.k8s.io/v1", "Event", Some("shop")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.iter().map(|event| (text(&event["type"]), text(&event["reason"]))).collect()
    }

    fn directory(&self) -> Value {
        match self.server.get("v1", "ConfigMap", Some("default"), DIRECTORY) {
            Ok(map) => map["data"].clone(),
            Err(_) => Value::Null,
        }
    }

    /// What the Deployment's controller would say when the kubelets have done their part.
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

    /// Runs that have succeeded, as its metrics tell.
    async fn runs(&self) -> u64 {
        tokio::time::resume(); // a socket has no paused clock
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        tokio::time::pause();
        let name = r#"controller_runtime_reconcile_total{controller="website",result="success"} "#;
        page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }

    async fn end(self) -> Server {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.server
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// A ConfigMap, Deployment or Service of the name `web` that somebody has made.
fn somebody_s(api_version: &str, kind: &str) -> Value {
    let metadata = json!({"name": "web", "namespace": "shop"});
    let labels = json!({"app": "other"});
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    match kind {
        "ConfigMap" => object["data"] = json!({"precious": "yes"}),
        "Service" => object["spec"] = json!({"selector": labels, "ports": [{"port": 5432}]}),
        _ => {
            let pod = json!({"containers": [{"name": "other", "image": "example.com/other"}]});
            let template = json!({"metadata": {"labels": labels}, "spec": pod});
            object["spec"] = json!({"selector": {"matchLabels": labels}, "template": template});
        }
    }
    object
}

#[tokio::test(start_paused = true)]
async fn a_site_gets_what_it_asks_for_and_is_ready_when_that_serves() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    assert_eq!(operator.get("v1", "ConfigMap").unwrap()["data"]["index.html"], "<h1>Hello</h1>");
    assert_eq!(operator.get("apps/v1", "Deployment").unwrap()["spec"]["replicas"], 2);
    assert!(operator.get("v1", "Service").is_some());
    assert_eq!(operator.directory(), json!({"shop.web": "http://web.shop.svc"}));
    assert_eq!(operator.ready(), pair("False", "Starting"));
    assert_eq!(operator.events(), []);

    operator.serve().await;
    assert_eq!(operator.ready(), pair("True", "Serving"));
    assert_eq!(operator.events(), [pair("Normal", "Published")]);
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
    let (runs, writes) = (operator.runs().await, operator.writes());
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    operator.server.patch(API, "Website", Some("shop"), "web", &label).unwrap();
    operator.settle().await;
    assert_eq!((operator.runs().await, operator.writes()), (runs + 1, writes));

    // A change is written where it belongs, and in the status.
    operator.change_site(json!({"html": "<h1>Bye</h1>"})).await;
    assert_eq!(operator.writes(), writes + 2);
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_site_is_not_ready_before_its_deployment_is_known_to_be_as_it_should() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 0).await;
    assert_eq!(operator.ready(), pair("False", "Starting"), "nobody has looked at the Deployment");
    operator.serve().await;
    assert_eq!(operator.ready(), pair("True", "Serving"), "nobody is asked to serve");

    operator.change_site(json!({"replicas": 2})).await;
    assert_eq!(operator.ready(), pair("False", "Starting"));
    operator.serve().await;
    assert_eq!(operator.ready(), pair("True", "Serving"));
    operator.change_site(json!({"replicas": 0})).await;
    assert_eq!(operator.ready(), pair("False", "Starting"), "two still serve, for all that is known");
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_somebody_else_s_is_left_alone_and_the_site_waits_for_its_name() {
    for (api_version, kind) in CHILDREN {
        let operator = Operator::start();
        let theirs = operator.server.create(somebody_s(api_version, kind)).unwrap();
        operator.site("<h1>Hello</h1>", 2).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), theirs);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");
        assert_eq!(operator.events(), [pair("Warning", "NameTaken")], "{kind}");
        assert_eq!(operator.directory(), Value::Null, "{kind}");

        operator.server.delete(api_version, kind, Some("shop"), "web").unwrap();
        sleep(Duration::from_secs(60)).await;
        let ours = operator.get(api_version, kind).unwrap();
        assert_eq!(ours["metadata"]["ownerReferences"][0]["kind"], "Website");
        assert_eq!(operator.ready(), pair("False", "Starting"), "{kind}");
        operator.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_makes_while_the_operator_writes_is_left_alone() {
    for (api_version, kind) in CHILDREN {
        let operator = Operator::start();
        // Whether it creates or applies: what it sends arrives late.
        let is_write = |request: &kube_testserver::Request| {
            matches!(request.about.verb, Verb::Create | Verb::Patch) && request.about.subresource.is_none()
        };
        let resource = format!("{}s", kind.to_lowercase());
        let writes = Match::any().namespace("shop").resource(&resource).when(is_write);
        let late = operator.server.faults().always(writes, Fault::Delay(Duration::from_secs(10)));

        operator.site("<h1>Hello</h1>", 2).await;
        let theirs = operator.server.create(somebody_s(api_version, kind)).unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), theirs);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");

        // The site has its own at last, is changed, and somebody takes its place.
        operator.server.delete(api_version, kind, Some("shop"), "web").unwrap();
        sleep(Duration::from_secs(90)).await;
        assert_eq!(operator.ready(), pair("False", "Starting"), "{kind}");
        operator.server.patch(api_version, kind, Some("shop"), "web", &meddled(kind)).unwrap();
        operator.settle().await;
        operator.server.delete(api_version, kind, Some("shop"), "web").unwrap();
        let theirs = operator.server.create(somebody_s(api_version, kind)).unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), theirs);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");
        drop(late);
        operator.end().await;
    }
}

/// What is not as a site asks for, and is mended.
fn meddled(kind: &str) -> Value {
    match kind {
        "ConfigMap" => json!({"data": {"index.html": "<h1>Mine</h1>"}}),
        "Deployment" => json!({"spec": {"replicas": 7}}),
        _ => json!({"spec": {"selector": {"app.kubernetes.io/name": "other"}}}),
    }
}

#[tokio::test(start_paused = true)]
async fn no_site_gets_into_the_place_of_the_directory() {
    let operator = Operator::start();
    for name in ["websites", DIRECTORY] {
        operator.site_named("default", name, "<h1>Hello</h1>", 2).await;
    }
    operator.site("<h1>Hello</h1>", 2).await;
    let lines = json!({
        "default.websites": "http://websites.default.svc",
        "shop.web": "http://web.shop.svc",
    });
    assert_eq!(operator.directory(), lines);
    for name in ["websites", DIRECTORY] {
        operator.server.delete(API, "Website", Some("default"), name).unwrap();
    }
    operator.settle().await;
    assert_eq!(operator.directory(), json!({"shop.web": "http://web.shop.svc"}));
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_site_whose_service_could_not_have_its_name_says_so_and_can_be_deleted() {
    let operator = Operator::start();
    let long = "a".repeat(64);
    for name in ["web.shop", "1st", &long] {
        operator.site_named("shop", name, "<h1>Hello</h1>", 2).await;
        assert_eq!(operator.ready_of("shop", name), pair("False", "InvalidName"), "{name}");
        for (api_version, kind) in CHILDREN {
            assert!(operator.server.get(api_version, kind, Some("shop"), name).is_err(), "{kind} {name}");
        }
        operator.server.delete(API, "Website", Some("shop"), name).unwrap();
        operator.settle().await;
        assert!(operator.server.get(API, "Website", Some("shop"), name).is_err(), "{name}");
    }
    assert_eq!(operator.events(), vec![pair("Warning", "InvalidName"); 3]);
    assert_eq!(operator.directory(), Value::Null);

    let longest = "a".repeat(63);
    operator.site_named("shop", &longest, "<h1>Hello</h1>", 2).await;
    assert_eq!(operator.ready_of("shop", &longest), pair("False", "Starting"));
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
    for (api_version, kind) in [(API, "Website")].into_iter().chain(CHILDREN) {
        assert_eq!(operator.get(api_version, kind), None);
    }
    operator.end().await;
}

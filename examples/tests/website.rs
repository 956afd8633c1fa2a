//! Tests of the `website` operator on an API server in memory, under a paused clock.

use std::{net::SocketAddr, time::Duration};

use kube_client::Client;
use kube_informer_examples::website::{DIRECTORY, OperatorOptions, Website, operator};
use kube_operator::ManagerError;
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

const API: &str = "examples.kube-informer.dev/v1";

/// The objects that a site owns. Each has the name of the site.
const CHILDREN: [(&str, &str); 3] = [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service")];

/// A running operator and its API server.
struct Operator {
    server: Server,
    /// The address of the metrics page.
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Operator {
    fn start() -> Self {
        let server = Server::builder().garbage_collector(true).build();
        server.install::<Website>().unwrap();
        server
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
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

    /// Waits until all work except retries is complete.
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
        self.server.create(&site).unwrap();
        self.settle().await;
    }

    async fn change_site(&self, spec: Value) {
        self.server.patch_untyped(API, "Website", Some("shop"), "web", &json!({ "spec": spec })).unwrap();
        self.settle().await;
    }

    fn get(&self, api_version: &str, kind: &str) -> Option<Value> {
        self.server.get_untyped(api_version, kind, Some("shop"), "web").ok()
    }

    /// Returns status and reason of the condition `Ready`.
    fn ready(&self) -> (String, String) {
        self.ready_of("shop", "web")
    }

    fn ready_of(&self, namespace: &str, name: &str) -> (String, String) {
        let site = self.server.get_untyped(API, "Website", Some(namespace), name).unwrap();
        let text = |field: &str| site["status"]["conditions"][0][field].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    /// Returns type and reason of each event in the namespace `shop`.
    fn events(&self) -> Vec<(String, String)> {
        let events = self.server.list_untyped("events.k8s.io/v1", "Event", Some("shop")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.iter().map(|event| (text(&event["type"]), text(&event["reason"]))).collect()
    }

    fn directory(&self) -> Value {
        match self.server.get_untyped("v1", "ConfigMap", Some("default"), DIRECTORY) {
            Ok(map) => map["data"].clone(),
            Err(_) => Value::Null,
        }
    }

    /// Reports all replicas as available, like the Deployment controller.
    async fn make_available(&self) {
        let mut deployment = self.get("apps/v1", "Deployment").unwrap();
        deployment["status"] = json!({
            "availableReplicas": deployment["spec"]["replicas"],
            "observedGeneration": deployment["metadata"]["generation"],
        });
        self.server.update_status(&deployment).unwrap();
        self.settle().await;
    }

    /// Returns the number of writes of the operator, without its Lease and its events.
    fn writes(&self) -> usize {
        self.server.journal().count_where(|request| {
            matches!(request.info.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
                && !["leases", "events"].contains(&request.info.resource.as_str())
        })
    }

    /// Returns the number of successful reconciles from the metrics page.
    async fn reconciles(&self) -> u64 {
        tokio::time::resume(); // the paused clock does not work with sockets
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        tokio::time::pause();
        let name = r#"controller_runtime_reconcile_total{controller="website",result="success"} "#;
        page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }

    async fn stop(self) -> Server {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.server
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// Creates a ConfigMap, Deployment or Service `web` without an owner.
fn foreign_object(api_version: &str, kind: &str) -> Value {
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
async fn site_creates_children_and_is_ready_when_available() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    assert_eq!(operator.get("v1", "ConfigMap").unwrap()["data"]["index.html"], "<h1>Hello</h1>");
    assert_eq!(operator.get("apps/v1", "Deployment").unwrap()["spec"]["replicas"], 2);
    assert!(operator.get("v1", "Service").is_some());
    assert_eq!(operator.directory(), json!({"shop.web": "http://web.shop.svc"}));
    assert_eq!(operator.ready(), pair("False", "Starting"));
    assert_eq!(operator.events(), []);

    operator.make_available().await;
    assert_eq!(operator.ready(), pair("True", "Serving"));
    assert_eq!(operator.events(), [pair("Normal", "Published")]);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_or_deleted_children_are_restored() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    operator.server.delete_untyped("v1", "Service", Some("shop"), "web").unwrap();
    let scaled = json!({"spec": {"replicas": 7}});
    operator.server.patch_untyped("apps/v1", "Deployment", Some("shop"), "web", &scaled).unwrap();
    operator.settle().await;
    assert!(operator.get("v1", "Service").is_some());
    assert_eq!(operator.get("apps/v1", "Deployment").unwrap()["spec"]["replicas"], 2);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unchanged_site_causes_no_writes() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    operator.make_available().await;
    let (reconciles, writes) = (operator.reconciles().await, operator.writes());
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    operator.server.patch_untyped(API, "Website", Some("shop"), "web", &label).unwrap();
    operator.settle().await;
    assert_eq!((operator.reconciles().await, operator.writes()), (reconciles + 1, writes));

    // A change of the page writes the ConfigMap and the status.
    operator.change_site(json!({"html": "<h1>Bye</h1>"})).await;
    assert_eq!(operator.writes(), writes + 2);
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn site_is_not_ready_until_deployment_status_is_current() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 0).await;
    assert_eq!(operator.ready(), pair("False", "Starting"), "the Deployment has no status");
    operator.make_available().await;
    assert_eq!(operator.ready(), pair("True", "Serving"), "no replicas are required");

    operator.change_site(json!({"replicas": 2})).await;
    assert_eq!(operator.ready(), pair("False", "Starting"));
    operator.make_available().await;
    assert_eq!(operator.ready(), pair("True", "Serving"));
    operator.change_site(json!({"replicas": 0})).await;
    assert_eq!(operator.ready(), pair("False", "Starting"), "the status of the Deployment is stale");
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_object_blocks_child_until_deleted() {
    for (api_version, kind) in CHILDREN {
        let operator = Operator::start();
        let foreign = operator.server.create(&foreign_object(api_version, kind)).unwrap();
        operator.site("<h1>Hello</h1>", 2).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), foreign);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");
        assert_eq!(operator.events(), [pair("Warning", "NameTaken")], "{kind}");
        assert_eq!(operator.directory(), Value::Null, "{kind}");

        operator.server.delete_untyped(api_version, kind, Some("shop"), "web").unwrap();
        sleep(Duration::from_secs(60)).await;
        let child = operator.get(api_version, kind).unwrap();
        assert_eq!(child["metadata"]["ownerReferences"][0]["kind"], "Website");
        assert_eq!(operator.ready(), pair("False", "Starting"), "{kind}");
        operator.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_object_created_during_write_is_not_changed() {
    for (api_version, kind) in CHILDREN {
        let operator = Operator::start();
        // Delays each create and apply of the operator.
        let is_write = |request: &kube_testserver::Request| {
            matches!(request.info.verb, Verb::Create | Verb::Patch) && request.info.subresource.is_none()
        };
        let resource = format!("{}s", kind.to_lowercase());
        let writes = RequestMatch::any().namespace("shop").resource(&resource).when(is_write);
        let delay = operator.server.faults().always(writes, Fault::Delay(Duration::from_secs(10)));

        operator.site("<h1>Hello</h1>", 2).await;
        let foreign = operator.server.create(&foreign_object(api_version, kind)).unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), foreign);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");

        // The child exists, drifts, and is replaced by a foreign object while the operator restores
        // it.
        operator.server.delete_untyped(api_version, kind, Some("shop"), "web").unwrap();
        sleep(Duration::from_secs(90)).await;
        assert_eq!(operator.ready(), pair("False", "Starting"), "{kind}");
        operator.server.patch_untyped(api_version, kind, Some("shop"), "web", &drifted(kind)).unwrap();
        operator.settle().await;
        operator.server.delete_untyped(api_version, kind, Some("shop"), "web").unwrap();
        let foreign = operator.server.create(&foreign_object(api_version, kind)).unwrap();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(operator.get(api_version, kind).unwrap(), foreign);
        assert_eq!(operator.ready(), pair("False", "NameTaken"), "{kind}");
        drop(delay);
        operator.stop().await;
    }
}

/// Returns a patch that changes a child. The operator reverts it.
fn drifted(kind: &str) -> Value {
    match kind {
        "ConfigMap" => json!({"data": {"index.html": "<h1>Mine</h1>"}}),
        "Deployment" => json!({"spec": {"replicas": 7}}),
        _ => json!({"spec": {"selector": {"app.kubernetes.io/name": "other"}}}),
    }
}

#[tokio::test(start_paused = true)]
async fn site_cannot_replace_directory() {
    let operator = Operator::start();
    for name in ["websites", DIRECTORY] {
        operator.site_named("default", name, "<h1>Hello</h1>", 2).await;
    }
    operator.site("<h1>Hello</h1>", 2).await;
    let entries = json!({
        "default.websites": "http://websites.default.svc",
        "shop.web": "http://web.shop.svc",
    });
    assert_eq!(operator.directory(), entries);
    for name in ["websites", DIRECTORY] {
        operator.server.delete_untyped(API, "Website", Some("default"), name).unwrap();
    }
    operator.settle().await;
    assert_eq!(operator.directory(), json!({"shop.web": "http://web.shop.svc"}));
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn site_with_invalid_service_name_is_reported_and_deletable() {
    let operator = Operator::start();
    let long = "a".repeat(64);
    for name in ["web.shop", "1st", &long] {
        operator.site_named("shop", name, "<h1>Hello</h1>", 2).await;
        assert_eq!(operator.ready_of("shop", name), pair("False", "InvalidName"), "{name}");
        for (api_version, kind) in CHILDREN {
            assert!(
                operator.server.get_untyped(api_version, kind, Some("shop"), name).is_err(),
                "{kind} {name}"
            );
        }
        operator.server.delete_untyped(API, "Website", Some("shop"), name).unwrap();
        operator.settle().await;
        assert!(operator.server.get_untyped(API, "Website", Some("shop"), name).is_err(), "{name}");
    }
    assert_eq!(operator.events(), vec![pair("Warning", "InvalidName"); 3]);
    assert_eq!(operator.directory(), Value::Null);

    let longest = "a".repeat(63);
    operator.site_named("shop", &longest, "<h1>Hello</h1>", 2).await;
    assert_eq!(operator.ready_of("shop", &longest), pair("False", "Starting"));
    operator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn site_deleted_without_operator_is_cleaned_up_later() {
    let operator = Operator::start();
    operator.site("<h1>Hello</h1>", 2).await;
    let server = operator.stop().await;
    server.delete_untyped(API, "Website", Some("shop"), "web").unwrap();
    sleep(Duration::from_secs(60)).await;
    let operator = Operator::on(server);
    assert!(operator.get(API, "Website").is_some(), "the directory entry still exists");

    operator.settle().await;
    assert_eq!(operator.directory(), Value::Null, "the entry is removed");
    for (api_version, kind) in [(API, "Website")].into_iter().chain(CHILDREN) {
        assert_eq!(operator.get(api_version, kind), None);
    }
    operator.stop().await;
}

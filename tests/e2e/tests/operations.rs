//! The alert rules, the dashboard and the runbook name only metrics, labels and alerts that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client, Config, api::PostParams};
use kube_operator::webhook::{
    AdmissionRequest, CaBundleTarget, SecretCertificate, WebhookCertificate, WebhookOptions, Webhooks,
};
use kube_operator::{
    Action, ClusterController, ClusterEngager, ClusterName, ClusterRequest, Controller, ElectionOptions,
    EventType, Failure, Manager, ManagerOptions, Request, ShardOptions,
};
use kube_testserver::Server;
use regex::Regex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

const ALERTS: &str = include_str!("../../../docs/operations/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../docs/operations/dashboard.json");
const RUNBOOK: &str = include_str!("../../../docs/runbook.md");
/// The labels that Prometheus adds, and the label of buckets.
const ADDED_LABELS: [&str; 4] = ["namespace", "job", "instance", "le"];
/// The time limit until a program has all metrics.
const LIMIT: Duration = Duration::from_secs(60);

/// The labels of each metric.
type Metrics = BTreeMap<String, BTreeSet<String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_and_dashboard_name_existing_metrics_and_labels() -> Result<()> {
    let programs = [Program::with_shards().await?, Program::with_webhooks_and_clusters().await?];
    let mut last = None;
    let checking = async {
        loop {
            let mut metrics = Metrics::new();
            for program in &programs {
                program.read(&mut metrics).await?;
            }
            // A metric can appear later, for example the age of the first bookmark.
            let Err(error) = check_all(&metrics) else { return Ok(()) };
            last = Some(error);
            sleep(Duration::from_millis(50)).await;
        }
    };
    match timeout(LIMIT, checking).await {
        Ok(checked) => checked,
        Err(_) => Err(last.context("no check")?),
    }
}

/// Checks the rules and the dashboard.
fn check_all(metrics: &Metrics) -> Result<()> {
    let alerts: Value = serde_saphyr::from_str(ALERTS)?;
    let in_summary = Regex::new(r"\$labels\.(\w+)")?;
    for rule in array(&alerts["groups"][0]["rules"])? {
        let summary = in_summary.captures_iter(text(&rule["annotations"]["summary"])?);
        let labels = summary.map(|label| label[1].to_owned()).collect();
        check(metrics, text(&rule["expr"])?, labels).context(text(&rule["alert"])?.to_owned())?;
    }
    let dashboard: Value = serde_json::from_str(DASHBOARD)?;
    for panel in array(&dashboard["panels"])? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = text(&target["expr"])?.replace("$__rate_interval", "5m");
            check(metrics, &query, BTreeSet::new()).context(text(&panel["title"])?.to_owned())?;
        }
    }
    Ok(())
}

#[test]
fn runbook_has_a_section_for_each_alert_and_each_line_of_readyz() -> Result<()> {
    let sections: BTreeSet<&str> = RUNBOOK.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts: Value = serde_saphyr::from_str(ALERTS)?;
    for rule in array(&alerts["groups"][0]["rules"])? {
        let name = text(&rule["alert"])?;
        ensure!(sections.contains(name), "{name} has no section");
        let anchor = format!("docs/runbook.md#{}", name.to_lowercase());
        ensure!(text(&rule["annotations"]["runbook"])? == anchor, "{name} refers to another section");
    }
    // The first word of each line of `/readyz`, except the names of informers and of own checks.
    for line in ["manager", "lease", "shards", "clusters", "cluster", "controller", "webhooks"] {
        ensure!(sections.contains(line), "{line} has no section");
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is not a text"))
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().with_context(|| format!("{value} is not a list"))
}

/// Checks the metrics of an expression, its labels, and further labels of its result.
fn check(metrics: &Metrics, expression: &str, mut labels: BTreeSet<String>) -> Result<()> {
    let names = Names::of(expression)?;
    labels.extend(names.labels);
    labels.retain(|label| !ADDED_LABELS.contains(&label.as_str()));
    for name in &names.metrics {
        let known = metrics.get(name).with_context(|| format!("no metric {name}"))?;
        let missing: Vec<_> = labels.difference(known).collect();
        ensure!(missing.is_empty(), "{name} has no labels {missing:?}");
    }
    Ok(())
}

/// The names in an expression. `.ci/alerts` checks its syntax.
#[derive(Debug, Default, PartialEq)]
struct Names {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Names {
    fn of(expression: &str) -> Result<Self> {
        let mut names = Self::default();
        let without_values = Regex::new(r#""[^"]*"|\[[^\]]*\]"#)?.replace_all(expression, "");
        // Matchers, such as `{code=~}`, and lists of labels, such as `by (job, le)`.
        let labels = Regex::new(r"\{([^}]*)\}|\b(?:by|on)\s*\(([^)]*)\)")?;
        for list in labels.captures_iter(&without_values) {
            let list = list.get(1).or(list.get(2)).map_or("", |list| list.as_str());
            let list = list.split(',').map(|label| label.trim().trim_end_matches(['=', '~', '!']));
            names.labels.extend(list.filter(|label| !label.is_empty()).map(str::to_owned));
        }
        let rest = labels.replace_all(&without_values, " ");
        for name in Regex::new(r"\b([a-zA-Z_:][\w:]*)\b\s*(\(?)")?.captures_iter(&rest) {
            let is_function = !name[2].is_empty();
            if !is_function && !["and", "or", "unless", "sum", "max", "min", "count"].contains(&&name[1]) {
                names.metrics.insert(name[1].to_owned());
            }
        }
        Ok(names)
    }
}

#[test]
fn names_of_an_expression_are_its_metrics_and_labels() -> Result<()> {
    let expression = r#"histogram_quantile(0.9, sum by (job, le) (rate(a_bucket{code!="5.. x", b=""}[5m]))) > 1 and on (c) d"#;
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let expected = Names { metrics: set(&["a_bucket", "d"]), labels: set(&["b", "c", "code", "job", "le"]) };
    ensure!(Names::of(expression)? == expected, "{:?}", Names::of(expression)?);
    Ok(())
}

/// A running manager with pages.
struct Program {
    server: Server,
    pages: Client,
    _stop: DropGuard,
}

impl Program {
    async fn with_shards() -> Result<Self> {
        let (server, options) = (server(), options());
        let shards = Some(ShardOptions::new("default", "web"));
        let manager = Manager::new(client(&server), ManagerOptions { shards, ..options })?;
        Self::run(server, manager).await
    }

    async fn with_webhooks_and_clusters() -> Result<Self> {
        let (server, options) = (server(), options());
        let election = Some(ElectionOptions::new("default", "web"));
        let mut manager = Manager::new(client(&server), ManagerOptions { election, ..options })?;
        add_webhook(&server, &mut manager)?;
        let member = client(&server);
        let clusters = manager.clusters(async move |clusters: ClusterEngager, stop: CancellationToken| {
            clusters.engage(&ClusterName::new("east").map_err(Failure::from)?, member);
            stop.cancelled().await;
            Ok::<_, Failure>(())
        });
        let controller = ClusterController::new(&clusters.informer::<Secret>());
        manager.add_cluster_controller(controller, |_: ClusterRequest<Secret>| async {
            Ok::<_, Failure>(Action::AwaitChange)
        });
        Self::run(server, manager).await
    }

    /// Runs the manager with a controller that reports an event for each ConfigMap.
    async fn run(server: Server, mut manager: Manager) -> Result<Self> {
        let maps = manager.factory().informer::<ConfigMap>()?;
        let recorder = manager.event_recorder("web")?;
        manager.add_controller(Controller::new(&maps), move |request: Request<ConfigMap>| {
            if let Some(map) = request.object.present() {
                recorder.event(&*map, EventType::Normal, "Found", "Find", "found");
            }
            async { Ok::<_, Failure>(Action::AwaitChange) }
        });
        let address = manager.local_address().context("no pages")?;
        let stop = CancellationToken::new();
        tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        let pages = Client::try_from(Config::new(format!("http://{address}").parse()?))?;
        Ok(Self { server, pages, _stop: stop.drop_guard() })
    }

    /// Creates an object, and adds the names and labels of all metrics.
    async fn read(&self, metrics: &mut Metrics) -> Result<()> {
        let mut map = ConfigMap::default();
        map.metadata.generate_name = Some("map-".to_owned());
        let maps = Api::<ConfigMap>::default_namespaced(client(&self.server));
        maps.create(&PostParams::default(), &map).await?;
        let page = self.pages.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let label = Regex::new(r#"(\w+)=""#)?;
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let (sample, _) = line.rsplit_once(' ').context("a sample")?;
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            let labels = label.captures_iter(labels).map(|label| label[1].to_owned());
            metrics.entry(name.to_owned()).or_default().extend(labels);
        }
        Ok(())
    }
}

fn server() -> Server {
    Server::builder().bookmark_period(Duration::from_millis(200)).build()
}

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn options() -> ManagerOptions {
    ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..ManagerOptions::default() }
}

/// Adds a webhook, which the server calls for each new ConfigMap.
fn add_webhook(server: &Server, manager: &mut Manager) -> Result<()> {
    let webhooks = Webhooks::new().validate("/validate", |_: AdmissionRequest<ConfigMap>| async { Ok(()) });
    let target = CaBundleTarget::Validating("maps".to_owned());
    let certificate = SecretCertificate::new("default", "web-certificate", "web", [target]);
    let certificate = WebhookCertificate::Secret(certificate);
    manager.serve_webhooks(
        webhooks,
        WebhookOptions { bind_address: ([127, 0, 0, 1], 0).into(), ..WebhookOptions::new(certificate) },
    )?;
    server.service_address("default", "web", manager.local_webhook_address().context("no webhooks")?);
    server.create(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "maps"},
        "webhooks": [{
            "name": "maps.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": "default", "name": "web", "path": "/validate"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        }],
    }))?;
    Ok(())
}

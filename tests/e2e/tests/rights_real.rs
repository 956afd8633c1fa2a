//! The roles that the examples print are sufficient and minimal on a real kube-apiserver.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use futures_util::FutureExt as _;
use kube_informer_e2e::audit::AuditLog;
use kube_informer_e2e::example::example;
use kube_informer_e2e::real::{Options, RealServer};
use kube_informer_e2e::rights::{Admin, Subject, check};
use serde_json::{Value, json};

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/websites.examples.kube-informer.dev";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const SITES: &str = "/apis/examples.kube-informer.dev/v1/namespaces/default/websites";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/home";
const PAGES: &str = "/apis/example.com/v1/namespaces/pages/pages";
const PAGE_MAP: &str = "/api/v1/namespaces/pages/configmaps/home";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn printed_roles_of_each_example_are_sufficient_and_minimal() -> Result<()> {
    let log = AuditLog::of_all_requests()?;
    let Options { mut apiserver_flags } = log.options();
    // With streaming lists, a program needs no permission to list.
    apiserver_flags.push("--feature-gates=WatchList=false".to_owned());
    let options = Options { apiserver_flags };
    let Some(server) = RealServer::start_or_skip("rights_real", 4, options).await? else { return Ok(()) };
    let arguments = ["--cluster", "--write", "--duration", "forever"].map(str::to_owned);
    let operator = Subject {
        name: "operator",
        program: example("operator").await?,
        arguments: arguments.to_vec(),
        prepare: |admin| clear_operator(admin).boxed(),
        scenario: |admin| run_operator(admin).boxed(),
        is_finite: false,
        shows: |_, _| true,
    };
    let sharded = Subject {
        name: "sharded",
        program: example("sharded").await?,
        arguments: arguments.to_vec(),
        prepare: |admin| clear_sharded(admin).boxed(),
        scenario: |admin| run_sharded(admin).boxed(),
        is_finite: false,
        shows: |_, _| true,
    };
    let admin = Admin(server.client().await?);
    admin.create("/api/v1/namespaces", &json!({"metadata": {"name": "pages"}})).await?;
    let crd = include_str!("../../../examples/template/kustomize/base/crd.yaml");
    let crds = CRD.rsplit_once('/').context("a path")?.0;
    admin.create(crds, &serde_saphyr::from_str(crd)?).await?;
    admin.until(PAGES, |pages| pages.is_some()).await?;
    let loopback = "127.0.0.1:0";
    let arguments = ["--namespace", "default", "--bind-address", loopback, "--probe-address", loopback];
    let template = Subject {
        name: "template",
        program: example("template").await?,
        arguments: arguments.map(str::to_owned).to_vec(),
        prepare: |admin| clear_template(admin).boxed(),
        scenario: |admin| run_template(admin).boxed(),
        is_finite: false,
        shows: |_, _| true,
    };
    // In one namespace, the template needs no ClusterRole.
    let config = tempfile::NamedTempFile::new()?;
    std::fs::write(config.path(), "watchNamespace: pages\n")?;
    let mut namespaced = Subject { name: "template-namespaced", ..template.clone() };
    namespaced.arguments.extend(["--config".to_owned(), config.path().display().to_string()]);
    let templates = async {
        anyhow::Ok((check(&server, &log, &template).await?, check(&server, &log, &namespaced).await?))
    };
    let others = check_finite_examples(&server, &log);
    let checks =
        tokio::try_join!(check(&server, &log, &operator), check(&server, &log, &sharded), templates, others)?;
    // Does not use println, because the test harness hides its output if the test passes.
    writeln!(
        std::io::stderr(),
        "verbs of the examples operator, sharded, template, webhooks and multicluster: {checks:?}"
    )?;
    server.stop().await
}

/// Checks the examples that exit without a signal.
async fn check_finite_examples(server: &RealServer, log: &AuditLog) -> Result<(usize, usize)> {
    let webhooks = Subject {
        name: "webhooks",
        program: example("webhooks").await?,
        arguments: ["--cluster", "--write"].map(str::to_owned).to_vec(),
        prepare: |admin| clear_webhooks(admin).boxed(),
        scenario: |_| async { Ok(()) }.boxed(),
        is_finite: true,
        // Only a renewal updates an existing Secret.
        shows: |verb, resource| (verb, resource) != ("update", "secrets"),
    };
    let renewal = Subject {
        name: "webhooks-renewal",
        prepare: |admin| clear_webhooks_except_secret(admin).boxed(),
        shows: |verb, resource| (verb, resource) == ("update", "secrets"),
        ..webhooks.clone()
    };
    let clusters = Subject {
        name: "multicluster",
        program: example("multicluster").await?,
        arguments: ["--cluster", "--duration", "5s"].map(str::to_owned).to_vec(),
        prepare: |_| async { Ok(()) }.boxed(),
        shows: |_, _| true,
        ..webhooks.clone()
    };
    let webhooks = check(server, log, &webhooks).await? + check(server, log, &renewal).await?;
    Ok((webhooks, check(server, log, &clusters).await?))
}

async fn clear_operator(admin: Admin) -> Result<()> {
    for path in [DEPLOYMENT, "/api/v1/namespaces/default/services/home"] {
        admin.remove(path).await?;
    }
    for name in ["home", "websites.examples.kube-informer.dev"] {
        admin.remove(&format!("{MAPS}/{name}")).await?;
    }
    if admin.get(CRD).await?.is_some() {
        admin.remove(&format!("{SITES}/home")).await?;
        admin.remove(CRD).await?;
    }
    admin.delete(EVENTS).await?;
    admin.remove(&format!("{LEASES}/website-operator")).await
}

/// The site is published twice, so its second event is a series.
async fn run_operator(admin: Admin) -> Result<()> {
    let is_established = |crd: Option<&Value>| {
        crd.and_then(|crd| crd["status"]["conditions"].as_array()).is_some_and(|conditions| {
            conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        })
    };
    admin.until(CRD, is_established).await?;
    admin.until(SITES, |sites| sites.is_some()).await?;
    let site = json!({
        "apiVersion": "examples.kube-informer.dev/v1", "kind": "Website", "metadata": {"name": "home"},
        "spec": {"html": "hello", "replicas": 1},
    });
    admin.create(SITES, &site).await?;
    admin.until(DEPLOYMENT, |deployment| deployment.is_some()).await?;
    let path = format!("{SITES}/home");
    let is_serving: fn(Option<&Value>) -> bool = |site| has_reason(site, "Serving");
    for (available, is_reported) in
        [(1, is_serving), (0, |site| has_reason(site, "Starting")), (1, is_serving)]
    {
        let status = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": available, "availableReplicas": available});
        admin.patch(&format!("{DEPLOYMENT}/status"), &json!({"status": status})).await?;
        admin.until(&path, is_reported).await?;
    }
    admin.delete(&path).await?;
    admin.until(&path, |site| site.is_none()).await?;
    Ok(())
}

fn has_reason(site: Option<&Value>, reason: &str) -> bool {
    site.is_some_and(|site| site["status"]["conditions"][0]["reason"] == reason)
}

async fn clear_webhooks(admin: Admin) -> Result<()> {
    for kind in ["mutating", "validating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/databases");
        admin.remove(&path).await?;
    }
    admin
        .remove(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/databases.examples.kube-informer.dev",
        )
        .await?;
    admin.remove("/api/v1/namespaces/default/secrets/database-webhooks").await
}

/// The Secret exists without a certificate, so the program updates it.
async fn clear_webhooks_except_secret(admin: Admin) -> Result<()> {
    clear_webhooks(admin.clone()).await?;
    let secret = json!({
        "metadata": {"name": "database-webhooks"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""},
    });
    admin.create("/api/v1/namespaces/default/secrets", &secret).await?;
    Ok(())
}

async fn clear_template(admin: Admin) -> Result<()> {
    admin.remove(&format!("{PAGES}/home")).await?;
    admin.remove(PAGE_MAP).await?;
    admin.remove(&format!("{LEASES}/kube-informer-examples")).await?;
    let spec = json!({"text": "hello"});
    let page =
        json!({"apiVersion": "example.com/v1", "kind": "Page", "metadata": {"name": "home"}, "spec": spec});
    admin.create(PAGES, &page).await?;
    Ok(())
}

/// The ConfigMap is created twice, so the second event is a series.
async fn run_template(admin: Admin) -> Result<()> {
    let path = format!("{PAGES}/home");
    admin.until(&path, |page| page.is_some_and(|page| page["status"]["observedGeneration"] == 1)).await?;
    admin.delete(PAGE_MAP).await?;
    admin.until(PAGE_MAP, |map| map.is_some()).await?;
    Ok(())
}

async fn clear_sharded(admin: Admin) -> Result<()> {
    admin.delete(&format!("{LEASES}?labelSelector=kube-informer.dev/shard-group%3Dsharded-example")).await?;
    admin.remove(&format!("{MAPS}/page")).await?;
    let labels = json!({"kube-informer.dev/example": "sharded"});
    admin.create(MAPS, &json!({"metadata": {"name": "page", "labels": labels}})).await?;
    Ok(())
}

async fn run_sharded(admin: Admin) -> Result<()> {
    let is_written = |map: Option<&Value>| {
        map.is_some_and(|map| map["metadata"]["labels"]["kube-informer.dev/example-owner"].is_string())
    };
    admin.until(&format!("{MAPS}/page"), is_written).await?;
    let leases = admin.get(LEASES).await?.unwrap_or_default();
    let members = leases["items"].as_array().into_iter().flatten().filter_map(|lease| {
        lease["metadata"]["name"].as_str().filter(|name| name.starts_with("sharded-example-"))
    });
    for member in members {
        // After a conflict, the replica reads its Lease before it renews it.
        let path = format!("{LEASES}/{member}");
        let patched = admin.patch(&path, &json!({"metadata": {"annotations": {"changed": "true"}}})).await?;
        let before = &patched["spec"]["renewTime"];
        admin.until(&path, |lease| lease.is_some_and(|lease| lease["spec"]["renewTime"] != *before)).await?;
    }
    Ok(())
}

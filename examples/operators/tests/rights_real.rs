//! The roles that the operators on kube-operator print are sufficient and minimal on a real kube-apiserver.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use futures_util::FutureExt as _;
use kube_informer_e2e::audit::AuditLog;
use kube_informer_e2e::real::{Options, RealServer};
use kube_informer_e2e::rights::{Admin, Subject, check};
use kube_informer_operators::cluster::read_crd;
use kube_informer_operators::storage_server::StorageServer;
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";
const BUCKETS: &str = "/apis/example.com/v1/namespaces/default/buckets";
const CHILDREN: [&str; 3] = [
    "/api/v1/namespaces/default/configmaps/home",
    "/api/v1/namespaces/default/services/home",
    "/apis/apps/v1/namespaces/default/deployments/home",
];
const SOURCE: &str = "/api/v1/namespaces/default/secrets/password";
const COPY: &str = "/api/v1/namespaces/copies/secrets/password";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn printed_roles_of_each_operator_are_sufficient_and_minimal() -> Result<()> {
    let log = AuditLog::of_all_requests()?;
    let Options { mut apiserver_flags } = log.options();
    // Where lists are streams, a program needs no permission to list.
    apiserver_flags.push("--feature-gates=WatchList=false".to_owned());
    let options = Options { apiserver_flags };
    let Some(server) = RealServer::start_or_skip("rights_real", 3, options).await? else { return Ok(()) };
    let admin = Admin(server.client().await?);
    for operator in ["website", "bucket"] {
        let crd = read_crd(operator)?;
        admin.create(CRDS, &crd).await?;
        let path = format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap_or_default());
        admin.until(&path, is_established).await?;
    }
    admin.create("/api/v1/namespaces", &json!({"metadata": {"name": "copies"}})).await?;
    let storage = StorageServer::start().await?;
    let subject = |name, program: &str, arguments: &[&str], prepare, scenario| Subject {
        name,
        program: PathBuf::from(program),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        prepare,
        scenario,
        is_finite: false,
        shows: |_, _| true,
    };
    let website = env!("CARGO_BIN_EXE_website-kube-operator");
    let bucket = env!("CARGO_BIN_EXE_bucket-kube-operator");
    let mirror = env!("CARGO_BIN_EXE_secret-mirror-kube-operator");
    let website = subject(
        "website",
        website,
        &[],
        |admin| clear_website(admin).boxed(),
        |admin| run_website(admin).boxed(),
    );
    let url = storage.url();
    let bucket = subject(
        "bucket",
        bucket,
        &["--storage-url", &url],
        |admin| clear_bucket(admin).boxed(),
        |admin| run_bucket(admin).boxed(),
    );
    let mirror = subject(
        "mirror",
        mirror,
        &[],
        |admin| clear_mirror(admin).boxed(),
        |admin| run_mirror(admin).boxed(),
    );
    let checks = tokio::try_join!(
        check(&server, &log, &website),
        check(&server, &log, &bucket),
        check(&server, &log, &mirror)
    )?;
    // Not println: the test harness would hide it when the test passes.
    writeln!(std::io::stderr(), "verbs of the website, bucket and mirror operators: {checks:?}")?;
    server.stop().await
}

fn is_established(crd: Option<&Value>) -> bool {
    let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array());
    let is_true = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(is_true))
}

async fn clear_website(admin: Admin) -> Result<()> {
    for path in CHILDREN {
        admin.remove(path).await?;
    }
    admin.remove(&format!("{WEBSITES}/home")).await?;
    admin.remove(&format!("{LEASES}/website-operator")).await?;
    let website = json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "home"},
        "spec": {"image": "web:1", "replicas": 2, "html": "hello"},
    });
    admin.create(WEBSITES, &website).await?;
    Ok(())
}

async fn run_website(admin: Admin) -> Result<()> {
    let is_reported =
        |website: Option<&Value>| website.is_some_and(|website| website["status"]["conditions"].is_array());
    admin.until(&format!("{WEBSITES}/home"), is_reported).await?;
    Ok(())
}

async fn clear_bucket(admin: Admin) -> Result<()> {
    admin.remove(&format!("{BUCKETS}/data")).await?;
    admin.remove(&format!("{LEASES}/bucket-operator")).await?;
    let spec = json!({"region": "north", "quota": 10});
    let bucket =
        json!({"apiVersion": "example.com/v1", "kind": "Bucket", "metadata": {"name": "data"}, "spec": spec});
    admin.create(BUCKETS, &bucket).await?;
    Ok(())
}

async fn run_bucket(admin: Admin) -> Result<()> {
    let path = format!("{BUCKETS}/data");
    admin
        .until(&path, |bucket| bucket.is_some_and(|bucket| bucket["status"]["conditions"].is_array()))
        .await?;
    admin.delete(&path).await?;
    admin.until(&path, |bucket| bucket.is_none()).await?;
    Ok(())
}

async fn clear_mirror(admin: Admin) -> Result<()> {
    admin.remove(SOURCE).await?;
    admin.remove(COPY).await?;
    admin.remove(&format!("{LEASES}/secret-mirror")).await?;
    let metadata = json!({
        "name": "password", "labels": {"example.com/mirror": "true"},
        "annotations": {"example.com/namespaces": "copies"},
    });
    admin.create("/api/v1/namespaces/default/secrets", &json!({"metadata": metadata})).await?;
    Ok(())
}

async fn run_mirror(admin: Admin) -> Result<()> {
    admin.until(COPY, |copy| copy.is_some()).await?;
    admin.delete(SOURCE).await?;
    admin.until(SOURCE, |source| source.is_none()).await?;
    admin.until(COPY, |copy| copy.is_none()).await?;
    Ok(())
}

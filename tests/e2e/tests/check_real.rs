//! `kubectl informer check` reports the state of a real kube-apiserver.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_informer_e2e::real::{Options, RealServer};
use serde_json::{Value, json};
use tokio::process::Command;

/// Runs the program with the configuration of the administrator.
struct Check {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Check {
    /// Returns the exit code and the report.
    async fn run(&self, arguments: &[&str]) -> Result<(i32, Value)> {
        let output = Command::new(&self.program)
            .args(["check", "-o", "json", "--wait", "6s"])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout).with_context(|| error)?;
        Ok((output.status.code().context("the program was killed")?, report))
    }
}

/// Returns the worst verdict of a check.
fn verdict(report: &Value, check: &str) -> String {
    let findings = report["findings"].as_array().into_iter().flatten();
    let verdicts = findings.filter(|finding| finding["check"] == check);
    let verdicts = verdicts.filter_map(|finding| finding["verdict"].as_str());
    let rank = |verdict: &&str| ["green", "amber", "red"].iter().position(|name| name == verdict);
    verdicts.max_by_key(rank).unwrap_or("absent").to_owned()
}

fn expect(report: &Value, verdicts: &[(&str, &str)]) -> Result<()> {
    for (check, expected) in verdicts {
        let actual = verdict(report, check);
        ensure!(actual == *expected, "{check} is {actual} instead of {expected}: {report:#}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_reports_state_of_real_server() -> Result<()> {
    let Some(mut server) = RealServer::start_or_skip("check_real", 5, Options::default()).await? else {
        return Ok(());
    };
    let check = Check {
        program: env!("CARGO_BIN_EXE_kubectl_plugin").into(),
        kubeconfig: server.kubeconfig().to_owned(),
    };
    let client = server.client().await?;
    for number in 0..3 {
        write(&client, "default", &format!("check-{number}"), number).await?;
    }
    let changes = tokio::spawn(change_config_map(client));
    let result = check_all(&check, &mut server).await;
    changes.abort();
    let _ = changes.await;
    result?;
    server.stop().await
}

async fn check_all(check: &Check, server: &mut RealServer) -> Result<()> {
    healthy_server_is_green(check).await?;
    printed_role_grants_missing_permission(check, server).await?;
    let arguments = ["-A", "pods", "--field-selector", "spec.colour=blue"];
    let (code, report) = check.run(&arguments).await?;
    ensure!(code == 3, "the exit code is {code}: {report:#}");
    expect(&report, &[("lists", "red")])?;
    let (code, report) = check.run(&["-n", "absent", "configmaps"]).await?;
    ensure!(code == 0, "the exit code is {code}: {report:#}");
    expect(&report, &[("namespace", "amber"), ("permissions", "green")])?;
    let (code, report) = check.run(&["--as", "system:anonymous", "configmaps"]).await?;
    ensure!(code == 3, "the exit code is {code}: {report:#}");
    expect(&report, &[("API groups", "red"), ("permissions", "amber"), ("lists", "amber")])?;
    if server.is_own() {
        server.restart_apiserver_with(&["--feature-gates=WatchList=false"]).await?;
        let (_, report) = check.run(&["-n", "default", "configmaps"]).await?;
        expect(&report, &[("streaming lists", "amber"), ("bookmarks", "green")])?;
    }
    Ok(())
}

/// Changes a ConfigMap until the task is aborted. A server sends bookmarks only if something has changed.
async fn change_config_map(client: Client) {
    for number in 0_u64.. {
        // While the server restarts, writes fail.
        let _ = write(&client, "kube-public", "other", number).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn write(client: &Client, namespace: &str, name: &str, number: u64) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"number": number.to_string()},
    });
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    maps.patch(name, &PatchParams::apply("check").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

async fn healthy_server_is_green(check: &Check) -> Result<()> {
    let (code, report) = check.run(&["-n", "default", "configmaps"]).await?;
    ensure!(code == 0, "the exit code is {code}: {report:#}");
    let checks = [
        "server",
        "API groups",
        "verbs",
        "permissions",
        "lists",
        "cache lag",
        "pages",
        "gzip",
        "streaming lists",
        "bookmarks",
    ];
    expect(&report, &checks.map(|check| (check, "green")))?;
    // Without names, all resources of the server are checked.
    let (code, report) = check.run(&["-A"]).await?;
    ensure!(code == 0, "the exit code is {code}: {report:#}");
    expect(&report, &[("permissions", "green"), ("lists", "green")])
}

async fn printed_role_grants_missing_permission(check: &Check, server: &RealServer) -> Result<()> {
    let arguments = ["--service-account", "default/operator", "-n", "default", "configmaps", "deployments"];
    let (code, report) = check.run(&arguments).await?;
    ensure!(code == 3, "the exit code is {code}: {report:#}");
    expect(&report, &[("permissions", "red")])?;
    apply(server, &report["roles"]).await?;
    let (code, report) = check.run(&arguments).await?;
    ensure!(code == 0, "the exit code is {code}: {report:#}");
    expect(&report, &[("permissions", "green")])
}

async fn apply(server: &RealServer, objects: &Value) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), objects.to_string())?;
    let path: &Path = file.path();
    let path = path.to_str().context("the path is text")?;
    server.kubectl(&["apply", "--filename", path]).await.map(drop)
}

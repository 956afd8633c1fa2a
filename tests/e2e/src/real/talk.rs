//! Communication with a server: clients, a readiness check, and commands with a deadline.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use tokio::process::Command;
use tokio::time::timeout;

use super::server::READY_DEADLINE;

/// Reads the kubeconfig each time, because a starting server writes it.
pub(super) async fn read(kubeconfig: &Path, options: KubeConfigOptions) -> Result<Config> {
    Ok(Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?)
}

/// Checks once whether the server is ready.
pub(super) async fn look(kubeconfig: &Path) -> Result<()> {
    let client = Client::try_from(read(kubeconfig, KubeConfigOptions::default()).await?)?;
    for path in ["/readyz", "/api/v1/namespaces/default"] {
        client.request_text(http::Request::get(path).body(Vec::new())?).await.with_context(|| path)?;
    }
    Ok(())
}

pub(super) async fn output(mut command: Command, name: &str) -> Result<String> {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = timeout(READY_DEADLINE, running).await.with_context(|| format!("{name} timed out"))?;
    let output = ended.with_context(|| format!("start {name}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} exited with {}: {error}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

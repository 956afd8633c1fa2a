//! A real kube-apiserver and its etcd, on loopback and for as long as a recording takes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long it may take to start, and to stop.
const START: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(40);

/// It runs until [`stop`](RealServer::stop), or until this is dropped or its process ends.
pub struct RealServer {
    child: Child,
    kubeconfig: PathBuf,
    /// Declared last, because the server writes into it.
    dir: TempDir,
}

/// Where `.ci/real-apiserver` puts it.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/real-apiserver/bin/real-apiserver")
}

impl RealServer {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// It was never built, or is not ready within two minutes.
    ///
    /// # Cancel safety
    /// Dropped early, it is killed.
    pub async fn start() -> Result<Self> {
        let program = program();
        ensure!(
            program.is_file(),
            "no kube-apiserver to record: build it with .ci/real-apiserver (needs Go)"
        );
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.arg("all").arg("--dir").arg(dir.path());
        let log = std::fs::File::create(dir.path().join("all.log"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("starting the real kube-apiserver")?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(kubeconfig) = line.strip_prefix("ready ") {
                    return Ok(PathBuf::from(kubeconfig));
                }
            }
            bail!("the real kube-apiserver has ended")
        };
        let kubeconfig = timeout(START, ready).await.context("the real kube-apiserver is not ready")??;
        Ok(Self { child, kubeconfig, dir })
    }

    /// How to get to it; its user may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client that may do everything.
    ///
    /// # Errors
    /// The kubeconfig can't be used.
    ///
    /// # Cancel safety
    /// Safe: it only reads the kubeconfig.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Ends it, and removes what it has written.
    ///
    /// # Errors
    /// It does not end.
    ///
    /// # Cancel safety
    /// Dropped early, it is killed.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        timeout(STOP, self.child.wait()).await.context("the real kube-apiserver does not end")??;
        Ok(self.dir.close()?)
    }
}

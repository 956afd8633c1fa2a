//! A real kube-apiserver with etcd on the loopback interface.

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

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// Runs a kube-apiserver until [`stop`](RealServer::stop) is called or this value is dropped.
pub struct RealServer {
    child: Child,
    kubeconfig: PathBuf,
    /// Declared last, so that the server is stopped before the folder is removed.
    dir: TempDir,
}

/// Returns the path of the program that `.ci/real-apiserver` builds.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/real-apiserver/bin/real-apiserver")
}

impl RealServer {
    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails if the program is not built, or if the server is not ready within two minutes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the server.
    pub async fn start() -> Result<Self> {
        let program = program();
        ensure!(program.is_file(), "kube-apiserver is not built; run .ci/real-apiserver (needs Go)");
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.arg("all").arg("--dir").arg(dir.path());
        let log = std::fs::File::create(dir.path().join("all.log"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start kube-apiserver")?;
        let mut lines =
            BufReader::new(child.stdout.take().context("kube-apiserver has no standard output")?).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(kubeconfig) = line.strip_prefix("ready ") {
                    return Ok(PathBuf::from(kubeconfig));
                }
            }
            bail!("kube-apiserver stopped")
        };
        let kubeconfig = timeout(START_TIMEOUT, ready).await.context("kube-apiserver is not ready")??;
        Ok(Self { child, kubeconfig, dir })
    }

    /// Returns the path of a kubeconfig with all permissions.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the process that started kube-apiserver and etcd.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("kube-apiserver has stopped")
    }

    /// Creates a client with all permissions.
    ///
    /// # Errors
    ///
    /// Fails if the kubeconfig is invalid.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Stops the server and removes its data.
    ///
    /// # Errors
    ///
    /// Fails if the server does not stop within the timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the server.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        timeout(STOP_TIMEOUT, self.child.wait()).await.context("kube-apiserver does not stop")??;
        Ok(self.dir.close()?)
    }
}

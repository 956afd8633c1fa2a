//! The process of the operator. It is started again after each exit, as by the kubelet.

use std::{
    convert::Infallible,
    fs::{self, OpenOptions},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep},
};

use super::operator::OperatorSettings;

/// The time between an exit and the next start.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// The name of the Pod of the operator.
const POD: &str = "web-operator-6d5f7c9b8-k2xqz";
/// The start of the log line that contains the address of the pages.
const ADDRESS_LINE: &str = "HTTP server started address=";

/// A process of the operator. Dropping this value kills the process.
pub(super) struct OperatorProcess {
    program: PathBuf,
    settings: String,
    kubeconfig: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    /// The time of the last start.
    started: watch::Sender<Instant>,
}

impl OperatorProcess {
    pub(super) fn new(
        program: &Path,
        settings: &OperatorSettings,
        kubeconfig: PathBuf,
        log: PathBuf,
    ) -> Result<Self> {
        Ok(Self {
            program: program.to_owned(),
            settings: serde_json::to_string(settings)?,
            kubeconfig,
            log,
            child: None,
            started: watch::Sender::new(Instant::now()),
        })
    }

    /// Receives the time of the last start.
    pub(super) fn started(&self) -> watch::Receiver<Instant> {
        self.started.subscribe()
    }

    /// Starts the process, and starts it again after each exit.
    pub(super) async fn keep_running(&mut self) -> Result<Infallible> {
        loop {
            let mut child = self.start()?;
            // `wait` would close the standard input, which the operator reads until it is closed.
            let stdin = child.stdin.take();
            self.started.send_replace(Instant::now());
            self.child.insert(child).wait().await?;
            drop(stdin);
            sleep(RESTART_DELAY).await;
        }
    }

    fn start(&self) -> Result<Child> {
        let output = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.program);
        command.arg("--operator").arg(&self.settings).env_clear();
        command.env("KUBECONFIG", &self.kubeconfig).env("HOSTNAME", POD);
        command.env("RUST_LOG", "info,kube_client=off");
        // The operator exits when its standard input is closed.
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        command.spawn().with_context(|| format!("cannot start {}", self.program.display()))
    }

    /// Kills the process, and waits until it has exited.
    pub(super) async fn kill(&mut self) -> Result<()> {
        match self.child.take() {
            Some(mut child) => child.kill().await.context("cannot kill the operator"),
            None => Ok(()),
        }
    }
}

/// Returns the address of the pages of the last process. `None` if the log does not contain it yet.
pub(super) fn page_address(log: &Path) -> Option<SocketAddr> {
    let text = fs::read_to_string(log).ok()?;
    let (_, address) = text.rsplit_once(ADDRESS_LINE)?;
    address.split_whitespace().next()?.parse().ok()
}

//! Starts and stops replicas, which are processes of the example `operator`.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube_client::{Client, Config};
use kube_informer_e2e::replica::{ReplicaProcess, impersonating_kubeconfig};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// The deadline of operations without a separate deadline.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Starts replicas.
pub(crate) struct Replicas {
    program: PathBuf,
    kubeconfig: PathBuf,
    dir: PathBuf,
    started: usize,
}

/// A process. It is killed when this value is dropped.
pub(crate) struct Replica {
    /// The name of the replica in the election, and of its user.
    pub(crate) name: String,
    process: ReplicaProcess,
    printed: Lines<BufReader<ChildStdout>>,
}

impl Replicas {
    pub(crate) fn new(program: PathBuf, kubeconfig: &Path, dir: &Path) -> Self {
        Self { program, kubeconfig: kubeconfig.to_owned(), dir: dir.to_owned(), started: 0 }
    }

    /// Starts a new replica and waits until it is a follower. Each replica has a different user, so
    /// that the audit log identifies the writer.
    pub(crate) async fn start(&mut self) -> Result<Replica> {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let config = self.dir.join(&name);
        std::fs::write(&config, impersonating_kubeconfig(&self.kubeconfig, &name, None)?)?;
        let mut command = Command::new(&self.program);
        command
            .args(["--cluster", "--write", "--identity", &name, "--address", "127.0.0.1:0"])
            // It ends by itself where this process is killed.
            .args(["--duration", "10m"])
            .env("KUBECONFIG", config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = ReplicaProcess::spawn(name.clone(), command, &self.dir)?;
        let printed = BufReader::new(process.take_stdout().context("no output")?).lines();
        let mut replica = Replica { name, process, printed };
        replica.could_take_over().await?;
        Ok(replica)
    }
}

impl Replica {
    async fn could_take_over(&mut self) -> Result<()> {
        let line = timeout(SOON, self.printed.next_line()).await??.unwrap_or_default();
        let page = line.strip_prefix("serving ").and_then(|line| line.split("/metrics").next());
        let page = page.with_context(|| format!("{} printed {line:?}; {}", self.name, self.log()))?;
        let client = Client::try_from(Config::new(page.parse()?))?;
        let is_ready = async || {
            let asked = http::Request::get("/readyz").body(Vec::new())?;
            anyhow::Ok(client.request_text(asked).await.is_ok())
        };
        let ready = async {
            while !is_ready().await? {
                sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        timeout(SOON, ready).await.with_context(|| format!("{} is not ready; {}", self.name, self.log()))?
    }

    /// Sends it a signal: `KILL`, `TERM`, `STOP`, `CONT`.
    pub(crate) async fn signal(&self, signal: &str) -> Result<()> {
        self.process.signal(signal).await
    }

    /// Waits until the process exits, and returns its output.
    pub(crate) async fn ends(&mut self) -> Result<(ExitStatus, Vec<String>)> {
        let ended = async {
            let mut printed = Vec::new();
            while let Some(line) = self.printed.next_line().await? {
                printed.push(line);
            }
            anyhow::Ok((self.process.wait().await?, printed))
        };
        timeout(SOON, ended).await.with_context(|| format!("{} does not end", self.name))?
    }

    /// Fails if the process has exited.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.process.check_alive()
    }

    /// Returns the log of the process.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }
}

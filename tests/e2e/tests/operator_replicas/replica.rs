//! One replica: a process of the example `operator`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_client::config::Kubeconfig;
use kube_client::{Client, Config};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// The deadline of operations without a separate deadline.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Where replicas come from.
pub(crate) struct Replicas {
    program: PathBuf,
    kubeconfig: Kubeconfig,
    dir: PathBuf,
    started: usize,
}

/// A process, which is killed when this is dropped.
pub(crate) struct Replica {
    /// The name of the replica in the election, and of its user.
    pub(crate) name: String,
    child: Child,
    printed: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Replicas {
    pub(crate) fn new(program: PathBuf, kubeconfig: &Path, dir: &Path) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        Ok(Self { program, kubeconfig, dir: dir.to_owned(), started: 0 })
    }

    /// Starts a new replica and waits until it is a follower. Each replica has a different user, so
    /// that the audit log identifies the writer.
    pub(crate) async fn start(&mut self) -> Result<Replica> {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let mut kubeconfig = self.kubeconfig.clone();
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
            user.impersonate = Some(name.clone());
            user.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        }
        let config = self.dir.join(&name);
        // serde_json: JSON is YAML.
        std::fs::write(&config, serde_json::to_string(&kubeconfig)?)?;
        let log = self.dir.join(format!("{name}.log"));
        let mut child = Command::new(&self.program)
            .args(["--cluster", "--write", "--identity", &name, "--address", "127.0.0.1:0"])
            // It ends by itself where this process is killed.
            .args(["--duration", "10m"])
            .env("KUBECONFIG", config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        let printed = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut replica = Replica { name, child, printed, log };
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
        let id = self.child.id().with_context(|| format!("{} has exited; {}", self.name, self.log()))?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).status().await?;
        ensure!(sent.success(), "no process {id}");
        Ok(())
    }

    /// Waits until the process exits, and returns its output.
    pub(crate) async fn ends(&mut self) -> Result<(ExitStatus, Vec<String>)> {
        let ended = async {
            let mut printed = Vec::new();
            while let Some(line) = self.printed.next_line().await? {
                printed.push(line);
            }
            anyhow::Ok((self.child.wait().await?, printed))
        };
        timeout(SOON, ended).await.with_context(|| format!("{} does not end", self.name))?
    }

    /// Fails if the process has exited.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "{} has exited: {ended:?}; {}", self.name, self.log());
        Ok(())
    }

    /// Returns the log of the process.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string());
        format!("log of the process:\n{log}")
    }
}

//! One replica of an operator: a process with its own user, which the audit log contains.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context as _, Result, ensure};
use kube_client::config::Kubeconfig;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Returns the text of a kubeconfig whose requests impersonate a user with all permissions. If `server` is
/// set, the clients connect to this address.
///
/// # Errors
///
/// Fails if the kubeconfig cannot be read.
pub fn impersonating_kubeconfig(kubeconfig: &Path, user: &str, server: Option<SocketAddr>) -> Result<String> {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    for auth in kubeconfig.auth_infos.iter_mut().filter_map(|auth| auth.auth_info.as_mut()) {
        auth.impersonate = Some(user.to_owned());
        auth.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    }
    if let Some(server) = server {
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|cluster| cluster.cluster.as_mut()) {
            cluster.server = Some(format!("https://{server}"));
        }
    }
    Ok(serde_json::to_string(&kubeconfig)?) // JSON is YAML
}

/// A process, which is killed when this value is dropped.
#[derive(Debug)]
pub struct ReplicaProcess {
    /// The name of the replica, and of its user.
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl ReplicaProcess {
    /// Starts a process, and writes its standard error to a log in `dir`.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn spawn(name: String, mut command: Command, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let child = command
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Takes the stdin of the process, if it is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes the stdout of the process, if it is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Sends the process a signal: `KILL`, `TERM`, `STOP`, `CONT`.
    ///
    /// # Errors
    ///
    /// Fails if the process has exited.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the signal may have been sent.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        let id = self.child.id().with_context(|| format!("{} has exited; {}", self.name, self.log()))?;
        let sent = Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).status().await?;
        ensure!(sent.success(), "no process {id}");
        Ok(())
    }

    /// Waits until the process exits.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be observed.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe, but closes the stdin of the process.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Fails if the process has exited.
    ///
    /// # Errors
    ///
    /// The error contains the log of the process.
    pub fn check_alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "{} has exited: {ended:?}; {}", self.name, self.log());
        Ok(())
    }

    /// Returns the log of the process.
    #[must_use]
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_else(|error| error.to_string());
        format!("log of the process:\n{log}")
    }
}

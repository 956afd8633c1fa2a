//! Runs the embedded server as a separate process: `kube-testserver --port 0 --kubeconfig FILE`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::example::build;

/// The deadline for the start of the program. A start takes milliseconds.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// A running kube-testserver. Dropping this value kills the process.
#[derive(Debug)]
pub struct EmbeddedProgram {
    kubeconfig: PathBuf,
    _child: Child,
    /// The standard output. It stays open, because the program would fail if it wrote to a closed pipe.
    _stdout: BufReader<ChildStdout>,
    _dir: TempDir,
}

impl EmbeddedProgram {
    /// Builds the program, starts it with `flags` in addition to port and kubeconfig, and waits until
    /// it is ready.
    ///
    /// # Errors
    ///
    /// Fails if the build fails, or if the program exits or does not print its ready line in time.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the started processes are killed.
    pub async fn start(flags: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = Command::new(build("pods").await?.join("kube-testserver"));
        command.args(["--port", "0", "--kubeconfig"]).arg(&kubeconfig).args(flags);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
        let mut line = String::new();
        timeout(READY_DEADLINE, stdout.read_line(&mut line))
            .await
            .context("kube-testserver was not ready in time")??;
        ensure!(
            line.starts_with("ready "),
            "kube-testserver {flags:?} printed {line:?} instead of its ready line"
        );
        Ok(Self { kubeconfig, _child: child, _stdout: stdout, _dir: dir })
    }

    /// Returns the path of the kubeconfig that the program wrote.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

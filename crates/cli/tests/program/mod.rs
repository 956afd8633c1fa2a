//! Runs the program `kubectl-informer`.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::process::Command;

/// The result of the program.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) error: String,
}

impl Run {
    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }

    /// Returns the only line of standard error. The program must have failed with the exit code `code`.
    pub(crate) fn error_line(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.error.lines().count(), 1, "{self:?}");
        self.error.trim_end()
    }
}

/// Runs the program. Without `kubeconfig`, the program finds none.
pub(crate) async fn run(kubeconfig: Option<&Path>, arguments: &[&str]) -> Result<Run> {
    let absent = Path::new("/absent/kubeconfig");
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"))
        .args(arguments)
        .env("KUBECONFIG", kubeconfig.unwrap_or(absent))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Run {
        code: output.status.code().context("the program was killed")?,
        out: String::from_utf8(output.stdout)?,
        error: String::from_utf8(output.stderr)?,
    })
}

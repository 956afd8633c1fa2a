//! The controllers of Kubernetes for a server of any kind.

use std::path::Path;

use anyhow::Result;

use super::part::{Part, Stop};
use super::programs::subcommand;
use super::source::{REAL_APISERVER, built, skip_or_fail};

/// A running kube-controller-manager. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Controllers(Part);

impl Controllers {
    /// Starts the built kube-controller-manager with `flags`, and writes its log into `dir`. If the
    /// program was not built, calls [`skip_or_fail`].
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started, or does not exist and tests must not be skipped.
    pub fn start_or_skip(kubeconfig: &Path, dir: &Path, flags: &[&str]) -> Result<Option<Self>> {
        let binary = built(REAL_APISERVER);
        if !binary.is_file() {
            return skip_or_fail("kube-controller-manager", 1).map(|()| None);
        }
        let mut command = subcommand(&binary, "controllers");
        command.arg("--kubeconfig").arg(kubeconfig).arg("--").args(flags);
        Part::spawn("controllers", command, dir, Stop::ClosedStdin).map(|part| Some(Self(part)))
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.0.log_tail()
    }

    /// Stops the program and waits until it exits.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be stopped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the program is killed.
    pub async fn stop(self) -> Result<()> {
        self.0.stop().await
    }
}

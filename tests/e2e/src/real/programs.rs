//! The command lines of the parts, for the single binary and for the separate programs of envtest.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tokio::process::Command;

use super::files::{self, CERTIFICATES, SERVICE_ACCOUNT_KEY, SERVICE_ACCOUNT_PUBLIC_KEY, TOKENS};
use super::part::Stop;
use super::source::{REAL_APISERVER, built};

/// The source of the programs.
#[derive(Debug)]
pub(super) enum Programs {
    /// `real-apiserver` with a subcommand for each part.
    One(PathBuf),
    /// A directory with a program for each part.
    Separate(PathBuf),
}

impl Programs {
    pub(super) fn stop(&self) -> Stop {
        match self {
            Self::One(_) => Stop::ClosedStdin,
            Self::Separate(_) => Stop::Kill,
        }
    }

    pub(super) fn etcd(&self, dir: &Path, client: SocketAddr) -> Command {
        let data = dir.join("etcd");
        match self {
            Self::One(binary) => {
                let mut command = subcommand(binary, "etcd");
                command.arg("--data-dir").arg(data);
                command.args(["--client-port", &client.port().to_string(), "--port-reserved"]);
                command
            }
            Self::Separate(assets) => {
                let mut command = Command::new(assets.join("etcd"));
                command.arg("--data-dir").arg(data).args(etcd_flags(client));
                command
            }
        }
    }

    /// Also writes the files of the server if the programs do not.
    pub(super) fn apiserver(
        &self,
        dir: &Path,
        etcd: SocketAddr,
        address: SocketAddr,
        flags: &[String],
    ) -> Result<Command> {
        let etcd = format!("http://{etcd}");
        let port = address.port().to_string();
        match self {
            Self::One(binary) => {
                let mut command = subcommand(binary, "apiserver");
                command.arg("--dir").arg(dir).args(["--etcd", &etcd, "--port", &port, "--port-reserved"]);
                command.arg("--").args(flags);
                Ok(command)
            }
            Self::Separate(assets) => {
                files::prepare(dir, address)?;
                let mut command = Command::new(assets.join("kube-apiserver"));
                command.args(apiserver_flags(dir, &etcd, &port)).args(flags);
                Ok(command)
            }
        }
    }

    /// envtest contains no controllers. The controllers of the built binary are used if they exist.
    pub(super) fn controllers(&self, dir: &Path, kubeconfig: &Path) -> Result<(Command, Stop)> {
        let own = match self {
            Self::One(_) => None,
            Self::Separate(assets) => existing(assets.join("kube-controller-manager")),
        };
        if let Some(program) = own {
            let mut command = Command::new(program);
            command.arg("--kubeconfig").arg(kubeconfig);
            command.args(["--leader-elect=false", "--secure-port=0"]);
            command.arg("--service-account-private-key-file").arg(dir.join(SERVICE_ACCOUNT_KEY));
            return Ok((command, Stop::Kill));
        }
        let Some(binary) = self.one_binary() else {
            bail!("no kube-controller-manager next to kube-apiserver; build one with .ci/real-apiserver");
        };
        let mut command = subcommand(&binary, "controllers");
        command.arg("--kubeconfig").arg(kubeconfig);
        Ok((command, Stop::ClosedStdin))
    }

    pub(super) fn compact(&self, etcd: SocketAddr) -> Result<Command> {
        let Some(binary) = self.one_binary() else {
            bail!("no program to compact etcd next to kube-apiserver; build one with .ci/real-apiserver");
        };
        let mut command = subcommand(&binary, "compact");
        command.args(["--etcd", &format!("http://{etcd}")]);
        Ok(command)
    }

    fn one_binary(&self) -> Option<PathBuf> {
        match self {
            Self::One(binary) => Some(binary.clone()),
            Self::Separate(_) => existing(built(REAL_APISERVER)),
        }
    }
}

/// Returns kubectl from the folder of the server, the built kubectl, or kubectl from PATH. Only the
/// first has the version of the server.
pub(super) fn kubectl(programs: Option<&Programs>) -> Command {
    let beside = match programs {
        Some(Programs::Separate(assets)) => existing(assets.join("kubectl")),
        Some(Programs::One(_)) | None => None,
    };
    Command::new(beside.unwrap_or_else(kubectl_program))
}

/// Returns the built kubectl, or kubectl from PATH. If neither exists, returns
/// the program name without a path.
pub fn kubectl_program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find_map(|folder| existing(folder.join("kubectl")));
    existing(built("kubectl")).or_else(on_path).unwrap_or_else(|| PathBuf::from("kubectl"))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

pub(super) fn subcommand(binary: &Path, name: &str) -> Command {
    let mut command = Command::new(binary);
    command.arg(name);
    command
}

/// No process connects to the peer port of a single member, so any port works.
fn etcd_flags(client: SocketAddr) -> Vec<String> {
    let peer = "http://127.0.0.1:0";
    vec![
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--socket-reuse-port=true".to_owned(),
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=error".to_owned(),
        // etcd 3.5 and 3.6 both accept this name.
        "--experimental-watch-progress-notify-interval=5s".to_owned(),
    ]
}

/// The same flags as in `tests/e2e/real-apiserver/apiserver.go`.
fn apiserver_flags(dir: &Path, etcd: &str, port: &str) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--permit-port-sharing=true".to_owned(),
        format!("--cert-dir={}", file(CERTIFICATES)),
        format!("--token-auth-file={}", file(TOKENS)),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        format!("--service-account-key-file={}", file(SERVICE_ACCOUNT_PUBLIC_KEY)),
        format!("--service-account-signing-key-file={}", file(SERVICE_ACCOUNT_KEY)),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--shutdown-watch-termination-grace-period=1s".to_owned(),
    ]
}

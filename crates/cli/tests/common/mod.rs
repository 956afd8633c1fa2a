//! A test server on loopback, and the program as a process.

#![allow(dead_code)] // each test binary uses a part

pub(crate) mod process;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use kube_testserver::{Listening, Rights, Server};
pub(crate) use process::{Program, run};
use serde_json::{Value, json};
use tokio::process::Command;

/// A server, its address, and a folder with its kubeconfig.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    listening: Listening,
    pub(crate) folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts a server with RBAC. Its kubeconfig has all rights.
    pub(crate) async fn start() -> Self {
        let server = Server::builder().seed(1).rbac(true).user("admin", "admin", Rights::All).build();
        Self::of(server).await
    }

    pub(crate) async fn of(server: Server) -> Self {
        let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), listening.kubeconfig()).unwrap();
        let cluster = Self { server, listening, folder };
        cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
        cluster
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}));
        cluster
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// If the object does not exist, creates the object.
    pub(crate) fn create(&self, object: &Value) {
        if let Err(status) = self.server.create(object) {
            assert_eq!(status.reason(), "AlreadyExists", "{status}");
        }
    }

    pub(crate) fn create_map(&self, name: &str, value: &str) {
        self.create(&map(name, value));
    }

    pub(crate) fn apply_map(&self, name: &str, value: &str, manager: &str) {
        self.server.force_apply(&map(name, value), manager).unwrap();
    }

    pub(crate) fn delete_map(&self, name: &str) {
        self.server.delete_untyped("v1", "ConfigMap", None, name).unwrap();
    }

    /// Returns a command of the program for this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
        command.arg("--kubeconfig").arg(self.path("kubeconfig")).args(arguments);
        command.kill_on_drop(true);
        command
    }

    /// Starts the program.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Program {
        Program::spawn(self.command(arguments))
    }

    /// Runs the program until it exits. Returns the exit code, standard output and standard error.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        run(self.command(arguments)).await
    }
}

pub(crate) fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"key": value}})
}

/// Returns the permission bits of a file.
#[cfg(unix)]
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

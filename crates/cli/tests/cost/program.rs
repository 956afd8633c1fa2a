//! Runs the program with a kubeconfig of a test server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Output, Stdio};

use kube_client::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_testserver::{Listening, Rights, Server, ServerBuilder, Verb};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The token and the name of the user with all rights.
pub(crate) const ADMIN: &str = "admin";

/// Returns a builder of a server with a user that has all rights.
pub(crate) fn server() -> ServerBuilder {
    Server::builder().seed(1).rbac(true).user(ADMIN, ADMIN, Rights::All)
}

/// A server with a kubeconfig.
pub(crate) struct Cluster {
    folder: TempDir,
    _listening: Listening,
    pub(crate) server: Server,
}

impl Cluster {
    /// Serves the server on loopback.
    pub(crate) async fn serve(server: Server) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = server.listen(address).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), listening.kubeconfig()).unwrap();
        Self { folder, _listening: listening, server }
    }

    /// Returns a path in a temporary folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a client with all rights.
    pub(crate) async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.file("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Returns the number of watches of a resource.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.server.journal().count(Verb::Watch, resource)
    }

    /// Starts the command `cost` with these arguments.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = program(&["cost", "--kubeconfig"]);
        command.arg(self.file("kubeconfig")).args(arguments);
        command.spawn().unwrap()
    }

    /// Runs the command `cost` with these arguments.
    pub(crate) async fn cost(&self, arguments: &[&str]) -> Output {
        self.spawn(arguments).wait_with_output().await.unwrap()
    }

    /// Runs the command `cost`, and returns its JSON.
    pub(crate) async fn report(&self, arguments: &[&str]) -> Value {
        json(&self.cost(&[&["-o", "json"], arguments].concat()).await)
    }
}

/// Runs the program with these arguments.
pub(crate) async fn run(arguments: &[&str]) -> Output {
    program(arguments).spawn().unwrap().wait_with_output().await.unwrap()
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// Returns the JSON that the program printed.
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the row of a resource.
pub(crate) fn row<'a>(report: &'a Value, resource: &str) -> &'a Value {
    let rows = report["resources"].as_array().unwrap();
    rows.iter().find(|row| row["resource"] == resource).unwrap_or_else(|| panic!("no {resource} in {report}"))
}

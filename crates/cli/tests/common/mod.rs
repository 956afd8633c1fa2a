//! A test server on loopback, and the program as a process.

#![allow(dead_code)] // each test binary uses a part

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use kube_testserver::{Listening, Rights, Server};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The maximum time of a step. A slow machine must not fail a test.
const MAX_WAIT: Duration = Duration::from_secs(60);

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

/// Runs a command until it exits.
pub(crate) async fn run(mut command: Command) -> (i32, String, String) {
    let output = timeout(MAX_WAIT, command.output()).await.expect("the program exits").unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A running program.
pub(crate) struct Program {
    child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) out: Lines<BufReader<ChildStdout>>,
    pub(crate) err: Lines<BufReader<ChildStderr>>,
}

impl Program {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, input, out, err }
    }

    /// Returns the next line of standard output.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(MAX_WAIT, self.out.next_line()).await.expect("a line on standard output");
        line.unwrap().expect("the program runs")
    }

    /// Returns the next line of standard output as JSON.
    pub(crate) async fn event(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Returns the next line of standard error that contains `text`.
    pub(crate) async fn note(&mut self, text: &str) -> String {
        loop {
            let line = timeout(MAX_WAIT, self.err.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("a line with {text:?} on standard error"));
            let line = line.unwrap().unwrap_or_else(|| panic!("the program exited without {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Presses Ctrl-C.
    pub(crate) async fn interrupt(&self) {
        let id = self.child.id().expect("the program runs").to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    }

    /// Waits until the program exits. Returns the exit code and the rest of standard output.
    pub(crate) async fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        let mut out = self.out.into_inner();
        timeout(MAX_WAIT, out.read_to_string(&mut rest)).await.expect("the program exits").unwrap();
        let status = timeout(MAX_WAIT, self.child.wait()).await.expect("the program exits").unwrap();
        (status.code().unwrap_or(-1), rest)
    }
}

/// Returns the permission bits of a file.
#[cfg(unix)]
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

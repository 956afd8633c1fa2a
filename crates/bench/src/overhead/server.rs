//! The server of the measurements with a server: twenty kinds, and many namespaces.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use kube_testserver::Server;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::net::{TcpListener, TcpSocket};

use crate::http_server::{RequestCounter, kubeconfig, serve};

/// The kinds with objects: group and version, and kind. The other ten kinds are empty.
const FILLED_KINDS: [(&str, &str); 10] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
];

/// Contains the objects of a server.
#[derive(Debug, Args)]
pub struct OverheadServerArgs {
    /// The number of objects of each of ten kinds.
    #[arg(long, default_value_t = 0)]
    pub(super) per_kind: usize,
    /// The number of namespaces with one ConfigMap each.
    #[arg(long, default_value_t = 0)]
    pub(super) namespaces: usize,
}

/// The first line of the server, after its objects are created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerReady {
    /// The kubeconfig of the server.
    pub(crate) kubeconfig: PathBuf,
}

/// Serves the objects until standard input closes.
///
/// # Errors
///
/// Fails if the server cannot start, or if it rejects an object.
///
/// # Cancel safety
///
/// Dropping the future stops the server.
pub(crate) async fn run_server(args: &OverheadServerArgs) -> Result<()> {
    allow_open_files(args.namespaces)?;
    // The objects have only metadata.
    let server = Server::builder().validation(false).build();
    fill(&server, args)?;
    let listener = listen()?;
    let (dir, mut output) = (tempfile::tempdir()?, stdout());
    let file = dir.path().join("kubeconfig");
    fs::write(&file, kubeconfig(&format!("http://{}", listener.local_addr()?)).to_string())?;
    let ready = serde_json::to_string(&ServerReady { kubeconfig: file })?;
    output.write_all(format!("{ready}\n").as_bytes()).await?;
    output.flush().await?;
    let mut input = BufReader::new(stdin()).lines();
    tokio::select! {
        served = serve(listener, server.service(), RequestCounter::default()) => Ok(served?),
        line = input.next_line() => line.map(drop).context("cannot read standard input"),
    }
}

/// Listens on a free port. Many connections can wait at the same time, as on kube-apiserver.
fn listen() -> Result<TcpListener> {
    const BACKLOG: u32 = 4096;
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(socket.listen(BACKLOG)?)
}

fn fill(server: &Server, args: &OverheadServerArgs) -> Result<()> {
    for (api_version, kind) in FILLED_KINDS {
        for number in 0..args.per_kind {
            create(server, api_version, kind, "default", number)?;
        }
    }
    for number in 0..args.namespaces {
        let namespace = namespace(number);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.create(&object).with_context(|| format!("cannot create namespace {namespace}"))?;
        create(server, "v1", "ConfigMap", &namespace, number)?;
    }
    Ok(())
}

fn create(server: &Server, api_version: &str, kind: &str, namespace: &str, number: usize) -> Result<()> {
    let name = format!("web-7d4b9c6f5-{number:07}");
    let object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"},
            "annotations": {"example.com/checksum": "4f9c2a7d1e6b8035".repeat(8)}
        }
    });
    server.create(&object).map(drop).with_context(|| format!("cannot create {kind} {namespace}/{name}"))
}

/// Returns the name of a namespace.
pub(super) fn namespace(number: usize) -> String {
    format!("team-{number:05}")
}

/// Raises the limit of open files of this process to its maximum, which must permit one connection
/// per namespace.
pub(crate) fn allow_open_files(namespaces: usize) -> Result<()> {
    /// Files that are not connections of informers.
    const OTHER_FILES: usize = 100;
    let (_, maximum) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, maximum, maximum)?;
    ensure!(
        (namespaces + OTHER_FILES) as u64 <= maximum,
        "{namespaces} namespaces need more open files than the limit {maximum}; use fewer --namespaces or a greater `ulimit -n`"
    );
    Ok(())
}

//! An API server in this process that listens on a socket.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube_testserver::{Listening, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::programs::Program;

/// The time limit for each expected change. A leader that stops without a release of its lease is
/// replaced after 15 s.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Reads the CRD of an operator.
///
/// # Errors
///
/// Fails if the operator has no valid CRD.
pub fn read_crd(operator: &str) -> Result<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(operator).join("crd.yaml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is invalid", file.display()))
}

/// An API server with a garbage collector, and its kubeconfig.
pub struct Cluster {
    server: Server,
    listening: Listening,
    folder: TempDir,
}

impl Cluster {
    /// Starts a server with these namespaces besides `default`, and with the CRDs of these operators.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot listen, or rejects an object.
    pub async fn start(namespaces: &[&str], crds: &[&str]) -> Result<Self> {
        let server = Server::builder().garbage_collector(true).require_token(false).build();
        for namespace in namespaces {
            let metadata = json!({"name": namespace});
            server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))?;
        }
        for operator in crds {
            server.create(&read_crd(operator)?)?;
        }
        let listening = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("kubeconfig"), listening.kubeconfig())?;
        Ok(Self { server, listening, folder })
    }

    /// Returns the server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the path of the kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a folder for logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until `check` returns a value. Calls it after each change of an object.
    ///
    /// # Errors
    ///
    /// Fails after a minute. The error contains `what`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_until<T>(&self, what: &str, check: impl FnMut(&Server) -> Option<T>) -> Result<T> {
        let waited = timeout(WAIT_LIMIT, self.server.wait_until(check)).await;
        waited.with_context(|| format!("timed out after {WAIT_LIMIT:?} while waiting until {what}"))
    }

    /// Waits until all replicas of a program with shards own slots. Without shards, returns immediately.
    ///
    /// # Errors
    ///
    /// Fails after a minute.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for_shards(&self, program: &Program) -> Result<()> {
        let Some((group, replicas)) = program.shards() else { return Ok(()) };
        let all_own_slots = |server: &Server| {
            let lease = server.get_untyped("coordination.k8s.io/v1", "Lease", Some("default"), group).ok()?;
            let table = lease["metadata"]["annotations"]["kube-informer.dev/shard-table"].as_str()?;
            let table: Value = serde_json::from_str(table).ok()?;
            let slots = table["slots"].as_array()?.iter();
            let owners: BTreeSet<&str> = slots.filter_map(|slot| slot["owner"].as_str()).collect();
            (owners.len() == replicas).then_some(())
        };
        self.wait_until(&format!("{replicas} replicas of {group} own slots"), all_own_slots).await
    }

    /// Stops the server, and waits until all connections are closed.
    pub async fn stop(self) {
        self.listening.abort().await;
    }
}

//! A kube-apiserver with Pods and ConfigMaps, and its resource use.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use kube_client::Client;
use kube_client::api::{Api, DynamicObject, Patch, PatchParams};
use kube_client::core::ApiResource;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::pods::{NOT_SENT, Pod, SENT_LABEL};
use crate::process::Statistics;
use crate::record::{RealServer, create};

/// The number of concurrent writes.
const WRITE_CONCURRENCY: usize = 16;
/// The duration of the measurement of an idle server.
const IDLE: Duration = Duration::from_secs(5);

/// A kube-apiserver with Pods.
pub(crate) struct Cluster {
    server: RealServer,
    client: Client,
    version: String,
    apiserver: Statistics,
    etcd: Statistics,
    pods: Vec<Pod>,
}

/// The CPU time of the server, and a time.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    begun: Instant,
    apiserver: Duration,
    etcd: Duration,
}

/// The CPU time of the server during a part, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerCpu {
    pub(crate) apiserver: f64,
    pub(crate) etcd: f64,
    pub(crate) wall: f64,
}

impl ServerCpu {
    /// Removes the CPU time of an idle server.
    pub(crate) fn without(self, idle: ServerCpu) -> Self {
        let share = self.wall / idle.wall;
        Self {
            apiserver: self.apiserver - idle.apiserver * share,
            etcd: self.etcd - idle.etcd * share,
            wall: self.wall,
        }
    }
}

impl Cluster {
    /// Starts a server, and creates Pods.
    pub(crate) async fn start(objects: usize) -> Result<Self> {
        let server = RealServer::start().await?;
        let client = server.client().await?;
        let version = client.apiserver_version().await?.git_version;
        let of = |name: &str| Statistics::new(name, child(server.pid()?, name)?);
        let (apiserver, etcd) = (of("apiserver")?, of("etcd")?);
        let pods: Vec<Pod> = (0..objects).map(Pod::new).collect();
        create(&client, &pods).await.context("cannot create Pods")?;
        Ok(Self { server, client, version, apiserver, etcd, pods })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn real(&self) -> &RealServer {
        &self.server
    }

    pub(super) fn apiserver(&self) -> &Statistics {
        &self.apiserver
    }

    /// Returns the version of the server.
    pub(super) fn version(&self) -> String {
        self.version.clone()
    }

    /// Starts a part, after a garbage collection of the server.
    ///
    /// A collection costs as much CPU time as some lists, and would fall into the same part in each round.
    pub(crate) async fn begin(&self) -> Result<Meter> {
        let collection = Request::get("/debug/pprof/heap?gc=1&debug=1").body(Vec::new())?;
        self.client.request_text(collection).await.context("cannot start a garbage collection")?;
        Ok(Meter { begun: Instant::now(), apiserver: self.apiserver.cpu()?, etcd: self.etcd.cpu()? })
    }

    /// Ends a part.
    pub(crate) fn end(&self, meter: Meter) -> Result<ServerCpu> {
        Ok(ServerCpu {
            apiserver: (self.apiserver.cpu()? - meter.apiserver).as_secs_f64(),
            etcd: (self.etcd.cpu()? - meter.etcd).as_secs_f64(),
            wall: meter.begun.elapsed().as_secs_f64(),
        })
    }

    /// Measures the server while no program uses it.
    pub(crate) async fn idle(&self) -> Result<ServerCpu> {
        let meter = self.begin().await?;
        sleep(IDLE).await;
        self.end(meter)
    }

    /// Changes a label of the Pods, one Pod after the other, this number of times.
    pub(super) async fn change(&self, events: usize) -> Result<()> {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        let writes = (0..events).map(|number| {
            let (resource, pod) = (&resource, &self.pods[number % self.pods.len()]);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &pod.namespace(), resource);
            // The number of digits is constant, so the size of the Pod does not change.
            let value = NOT_SENT + number as u64 + 1;
            let patch = json!({"metadata": {"labels": {SENT_LABEL: value.to_string()}}});
            async move {
                let name = pod.name();
                let changed = api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                changed.map(drop).with_context(|| format!("cannot change {name}"))
            }
        });
        stream::iter(writes).buffer_unordered(WRITE_CONCURRENCY).try_collect().await
    }

    /// Stops the server.
    pub(crate) async fn stop(self) -> Result<()> {
        self.server.stop().await
    }
}

/// Returns the child process of `parent` with this first argument.
fn child(parent: u32, argument: &str) -> Result<u32> {
    let children = format!("/proc/{parent}/task");
    for task in fs::read_dir(&children).context("the server has stopped")? {
        let list = fs::read_to_string(task?.path().join("children"))?;
        for pid in list.split_whitespace() {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if command.split('\0').nth(1) == Some(argument) {
                return Ok(pid.parse()?);
            }
        }
    }
    anyhow::bail!("the server has no process {argument}")
}

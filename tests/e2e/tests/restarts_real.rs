//! Restarts of a process on a real kube-apiserver, with a snapshot and with a checkpoint. Between two
//! processes, objects change, etcd is compacted, or etcd is restored from a backup.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use kube_informer::{
    Checkpoint, CheckpointHandler, ClusterId, Entry, EventHandler, Informer, ObjectId, ReflectorOptions,
    Removal, Restored, SnapshotFile,
};
use kube_informer_e2e::real::{Options, RealServer};
use serde_json::json;
use tokio::time::{Instant, sleep};

const OBJECTS: usize = 50;
/// The namespace of the objects.
const NAMESPACE: &str = "default";
/// The label of the objects.
const LABEL: &str = "restarts=real";
/// The deadline until caches and handlers have the state of the server.
const SETTLED: Duration = Duration::from_secs(60);
/// The number of writes that a restore reverts. An apiserver makes fewer writes when it starts, so the
/// restored server has a lower resourceVersion than the files.
const UNDONE: usize = 1000;
const PARALLEL: usize = 16;

/// The name and the value of each object.
type Values = BTreeMap<String, String>;

/// The objects of a handler, and its calls since the start of the process.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<(Values, Vec<String>)>>);

impl Calls {
    fn call(&self, call: &str, name: &str, value: Option<String>) {
        let (values, calls) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(format!("{call} {name}"));
        match value {
            Some(value) => drop(values.insert(name.to_owned(), value)),
            None => drop(values.remove(name)),
        }
    }

    fn clear(&self) {
        let (values, calls) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.clear();
        calls.push("cold start".to_owned());
    }

    fn values(&self) -> Values {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns and removes the calls, sorted.
    fn take(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1);
        calls.sort();
        calls
    }
}

fn value(object: &ConfigMap) -> String {
    object.data.as_ref().and_then(|data| data.get("v")).cloned().unwrap_or_default()
}

impl EventHandler<ConfigMap> for Calls {
    fn on_add(&mut self, object: &Entry<ConfigMap>, initial: bool) {
        let call = if initial { "initial add" } else { "add" };
        self.call(call, object.key().name(), Some(value(object)));
    }

    fn on_update(&mut self, _: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
        self.call("update", new.key().name(), Some(value(new)));
    }

    fn on_delete(&mut self, last: &Entry<ConfigMap>, _: Removal) {
        self.call("delete", last.key().name(), None);
    }
}

impl CheckpointHandler<ConfigMap> for Calls {
    fn on_cold_start(&mut self) {
        self.clear();
    }

    fn on_missed_update(&mut self, _: &ObjectId, new: &Entry<ConfigMap>) {
        self.call("missed update", new.key().name(), Some(value(new)));
    }

    fn on_missed_delete(&mut self, last: &ObjectId) {
        self.call("missed delete", last.key.name(), None);
    }
}

/// A process with two informers: one has a snapshot, the other has a handler with a checkpoint.
struct Process {
    with_snapshot: Informer<ConfigMap>,
    restored: Option<Restored>,
    mirror: Calls,
    with_checkpoint: Informer<ConfigMap>,
}

impl Process {
    async fn start(client: &Client, folder: &Path, cluster: &ClusterId, kept: &Calls) -> Result<Self> {
        let options = || ReflectorOptions {
            backoff_initial: Duration::from_millis(200),
            backoff_max: Duration::from_secs(2),
            seed: Some(1),
            ..ReflectorOptions::default()
        };
        let api = || Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
        let build = || {
            let source = kube_informer::ListWatch::new(api()).labels(LABEL);
            Informer::from_source(source).reflector_options(options()).build()
        };
        let (with_snapshot, with_checkpoint, mirror) = (build(), build(), Calls::default());
        with_snapshot.add_handler(mirror.clone()).detach();
        let file = SnapshotFile::in_folder(folder, cluster.clone());
        let restored = with_snapshot.restore_snapshot(&file).await?;
        ensure!(mirror.take().is_empty(), "a handler was called before the start");
        let checkpoint = Checkpoint::in_folder(folder, cluster.clone());
        with_checkpoint.add_handler_with_checkpoint("kept", &checkpoint, kept.clone())?.detach();
        with_snapshot.start();
        with_checkpoint.start();
        Ok(Self { with_snapshot, restored, mirror, with_checkpoint })
    }

    /// Waits until both caches and both handlers have the state of the server.
    async fn settle(&self, client: &Client, kept: &Calls) -> Result<()> {
        let deadline = Instant::now() + SETTLED;
        loop {
            let server = on_server(client).await?;
            let caches = [&self.with_snapshot, &self.with_checkpoint].map(cached);
            let handlers = [self.mirror.values(), kept.values()];
            if caches.iter().chain(&handlers).all(|values| *values == server) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the server has {server:?}, the caches have {caches:?}, the handlers have {handlers:?}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn lists(&self) -> u64 {
        self.with_snapshot.status().reflector.lists
    }

    async fn stop(self) {
        self.with_snapshot.stop().await;
        self.with_checkpoint.stop().await;
    }
}

fn cached(informer: &Informer<ConfigMap>) -> Values {
    let snapshot = informer.lister().snapshot();
    snapshot.iter().map(|entry| (entry.key().name().to_owned(), value(entry))).collect()
}

async fn on_server(client: &Client) -> Result<Values> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let listed = api.list(&ListParams::default().labels(LABEL)).await?;
    Ok(listed.items.iter().map(|object| (object.name_any(), value(object))).collect())
}

async fn put(client: &Client, name: &str, value: &str) -> Result<()> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"restarts": "real"}}, "data": {"v": value},
    });
    let params = PatchParams::apply("restarts").force();
    api.patch(name, &params, &Patch::Apply(object)).await.map(drop).context("write a ConfigMap")
}

async fn delete(client: &Client, name: &str) -> Result<()> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    api.delete(name, &DeleteParams::default()).await.map(drop).context("delete a ConfigMap")
}

/// Updates, deletes and creates one object each.
async fn change(client: &Client, round: usize) -> Result<[String; 3]> {
    let names = [format!("o{:02}", 3 * round), format!("o{:02}", 3 * round + 1), format!("new{round}")];
    put(client, &names[0], "changed").await?;
    delete(client, &names[1]).await?;
    put(client, &names[2], "first").await?;
    Ok(names)
}

/// Asserts that the handler with a checkpoint has received exactly these changes.
fn ensure_missed(kept: &Calls, [updated, deleted, created]: &[String; 3]) -> Result<()> {
    let calls = kept.take();
    // The object belongs to the first list of this process, or to a later event.
    let is_created = calls.first().is_some_and(|call| call.ends_with(&format!("add {created}")));
    let missed = [format!("missed delete {deleted}"), format!("missed update {updated}")];
    let others = calls.get(1..).unwrap_or_default();
    ensure!(is_created && others == missed, "the handler with a checkpoint received {calls:?}");
    Ok(())
}

fn has_snapshot(folder: &Path) -> Result<bool> {
    let files = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    Ok(files.iter().any(|file| file.path().extension().is_some_and(|found| found == "snapshot")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_process_has_state_of_real_server() -> Result<()> {
    let Some(mut server) = RealServer::start_or_skip("restarts_real", 3, Options::default()).await? else {
        return Ok(());
    };
    if !server.is_own() {
        return server.stop().await;
    }
    let (client, folder, kept) = (server.client().await?, tempfile::tempdir()?, Calls::default());
    let cluster = ClusterId::read(&client).await?;
    let start = async || Process::start(&client, folder.path(), &cluster, &kept).await;
    for at in 0..OBJECTS {
        put(&client, &format!("o{at:02}"), "first").await?;
    }
    let first = start().await?;
    first.settle(&client, &kept).await?;
    ensure!(first.restored.is_none() && first.lists() == 1 && kept.take().len() == OBJECTS + 1);
    first.stop().await;

    // The watch resumes, and the handler with a checkpoint receives only the changes.
    let names = change(&client, 0).await?;
    let second = start().await?;
    second.settle(&client, &kept).await?;
    let objects = second.restored.as_ref().map(|restored| restored.objects);
    ensure!(objects == Some(OBJECTS) && second.lists() == 0, "{objects:?}, {} lists", second.lists());
    let calls = second.mirror.take();
    let initial = calls.iter().filter(|call| call.starts_with("initial add")).count();
    ensure!(initial == OBJECTS && calls.len() == OBJECTS + 3, "{calls:?}");
    ensure_missed(&kept, &names)?;
    second.stop().await;

    // The version of the file has expired.
    let names = change(&client, 1).await?;
    server.compact().await?;
    server.restart_apiserver().await?;
    let third = start().await?;
    third.settle(&client, &kept).await?;
    ensure!(third.restored.is_some() && third.lists() == 1, "{} lists", third.lists());
    ensure_missed(&kept, &names)?;
    third.stop().await;

    restore(&mut server, &client, &kept, folder.path(), start).await?;
    server.stop().await
}

/// etcd is restored from a backup with a lower version than the files.
async fn restore(
    server: &mut RealServer,
    client: &Client,
    kept: &Calls,
    folder: &Path,
    start: impl AsyncFn() -> Result<Process>,
) -> Result<()> {
    server.stop_apiserver().await?;
    server.stop_etcd().await?;
    let backup = server.back_up_etcd()?;
    server.start_etcd().await?;
    server.start_apiserver().await?;
    let process = start().await?;
    let undone = futures_util::stream::iter(0..UNDONE).map(async |at| {
        let name = format!("o{:02}", at % OBJECTS);
        put(client, &name, &format!("lost {at}")).await
    });
    undone.buffer_unordered(PARALLEL).try_collect::<()>().await?;
    process.settle(client, kept).await?;
    process.stop().await;
    kept.take();
    ensure!(has_snapshot(folder)?, "the snapshot was written");

    server.stop_apiserver().await?;
    server.stop_etcd().await?;
    server.restore_etcd(&backup)?;
    server.start_etcd().await?;
    server.start_apiserver().await?;
    let process = start().await?;
    process.settle(client, kept).await?;
    ensure!(process.restored.is_some() && process.lists() == 1, "{} lists", process.lists());
    ensure!(!has_snapshot(folder)?, "the snapshot of another history exists");
    let calls = process.mirror.take();
    ensure!(calls.iter().all(|call| call.starts_with("initial add")), "{calls:?}");
    ensure!(kept.take().contains(&"cold start".to_owned()), "the checkpoint of another history was used");
    process.stop().await;
    Ok(())
}

//! Ten thousand objects that several workers update, delete and create all the time. The workers write
//! directly to the server and ignore failed writes. The expected state is read from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::ready;
use futures_util::{StreamExt as _, TryStreamExt as _};
use kube_client::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube_client::core::Status;
use kube_client::{Api, Client, Error};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::truth::WRITE;

/// The number of ConfigMaps. Each tenth is in the second namespace.
pub const CONFIG_MAPS: usize = 10_000;
/// Custom resources, in the first namespace.
pub const GADGETS: usize = 300;
/// The namespaces of the objects.
pub const NAMESPACES: [&str; 2] = ["first", "second"];
/// Initially, each tenth ConfigMap has this label. Later writes remove the label, and add it again.
pub const CHOSEN: &str = "chosen=yes";

const WORKERS: usize = 4;
/// The period of the writes of each worker.
const PERIOD: Duration = Duration::from_millis(15);
/// The maximum time of a write. After this time, the state of the object is unknown.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);
/// The delay of a worker while the server is unreachable.
const REST: Duration = Duration::from_millis(250);
/// The number of parallel creates at the start.
const PARALLEL: usize = 16;
/// Each write with this index is a write of a custom resource.
const GADGETS_TURN: usize = 20;

/// Objects whose versions are used again, for other states.
const MARKED: usize = 10;
/// The number of writes between two marked writes.
const BETWEEN: usize = 3;

/// The objects and their workers.
pub struct Writer {
    shared: Arc<Shared>,
    /// Held while writes are paused.
    paused: Option<OwnedSemaphorePermit>,
    workers: JoinSet<()>,
}

struct Shared {
    objects: Vec<Target>,
    /// A write holds one of its permits.
    gate: Arc<Semaphore>,
    /// The number of the last write.
    writes: AtomicU64,
    succeeded: AtomicU64,
}

/// An object that exists or not.
struct Target {
    api: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
    chosen: bool,
    changed: AtomicBool,
}

impl Writer {
    /// Creates all objects. Workers start with [`Writer::go`].
    pub async fn start(client: &Client, config_maps: &ApiResource, gadgets: &ApiResource) -> Result<Self> {
        let target = |resource: &ApiResource, namespace, name, chosen| Target {
            api: Api::namespaced_with(client.clone(), namespace, resource),
            resource: resource.clone(),
            name,
            chosen,
            changed: AtomicBool::new(false),
        };
        let config_map = |n: usize| {
            target(config_maps, NAMESPACES[usize::from(n % 10 == 3)], format!("c{n}"), n.is_multiple_of(10))
        };
        let gadget = |n: usize| target(gadgets, NAMESPACES[0], format!("g{n}"), false);
        let objects = (0..CONFIG_MAPS).map(config_map).chain((0..GADGETS).map(gadget)).collect();
        let gate = Arc::new(Semaphore::new(WORKERS));
        let shared = Arc::new(Shared {
            objects,
            gate: Arc::clone(&gate),
            writes: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
        });
        let creations = futures_util::stream::iter(shared.objects.iter().map(|target| shared.create(target)));
        creations.buffer_unordered(PARALLEL).try_for_each(|_| ready(Ok(()))).await?;
        let paused = Some(gate.acquire_many_owned(WORKERS as u32).await?);
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            workers.spawn(work(Arc::clone(&shared), worker));
        }
        Ok(Self { shared, paused, workers })
    }

    /// Lets the workers write.
    pub fn go(&mut self) {
        self.paused = None;
    }

    /// Waits until no write is in flight, and pauses all writes.
    pub async fn pause(&mut self) -> Result<()> {
        if self.paused.is_none() {
            self.paused = Some(Arc::clone(&self.shared.gate).acquire_many_owned(WORKERS as u32).await?);
        }
        Ok(())
    }

    /// Lets the workers write until this many writes more have succeeded.
    pub async fn write(&mut self, count: u64, within: Duration) -> Result<()> {
        let enough = self.succeeded() + count;
        self.go();
        let written = async {
            while self.succeeded() < enough {
                tokio::time::sleep(PERIOD).await;
            }
        };
        let in_time = timeout(within, written).await.is_ok();
        self.pause().await?;
        ensure!(in_time, "{count} writes did not succeed within {within:?}");
        Ok(())
    }

    /// Writes to an object of each scope, while the workers are paused.
    pub async fn touch_each_scope(&self) -> Result<()> {
        let objects = &self.shared.objects;
        // An object with the label, an object of the second namespace, and a custom resource.
        for target in [&objects[0], &objects[3], &objects[CONFIG_MAPS]] {
            let written = self.shared.update_or_create(target).await;
            written.map_err(|error| error.context(format!("writing to {}", target.name)))?;
        }
        Ok(())
    }

    /// Creates the custom resources that are missing. The workers may do so at the same time.
    pub async fn create_gadgets(&self) -> Result<()> {
        let creations = self.shared.objects[CONFIG_MAPS..].iter().map(|target| self.shared.create(target));
        let mut created = futures_util::stream::iter(creations).buffer_unordered(PARALLEL);
        while let Some(created) = created.next().await {
            match created {
                Err(error) if is(&error, Status::is_already_exists) => {}
                created => drop(created?),
            }
        }
        Ok(())
    }

    /// Writes to some objects in sequence, with other writes between them, while the workers are
    /// paused. Returns the version of each object.
    pub async fn mark(&self) -> Result<Vec<(usize, u64)>> {
        let mut marked = Vec::new();
        for at in (0..CONFIG_MAPS).step_by(CONFIG_MAPS / MARKED) {
            marked.push((at, self.shared.update_or_create(&self.shared.objects[at]).await?));
            for _ in 0..BETWEEN {
                self.shared.update_or_create(&self.shared.objects[BETWEEN]).await?;
            }
        }
        Ok(marked)
    }

    /// On a server that was restored to a state before [`Writer::mark`], writes the same versions to
    /// the same objects. Returns the number of objects with the same version, because the server itself
    /// also writes.
    pub async fn mark_again(&self, marked: &[(usize, u64)]) -> Result<usize> {
        let mut again = 0;
        let mut version = 0;
        for (at, wanted) in marked {
            while version + 1 < *wanted {
                version = self.shared.update_or_create(&self.shared.objects[BETWEEN]).await?;
            }
            if version + 1 == *wanted {
                version = self.shared.update_or_create(&self.shared.objects[*at]).await?;
                again += usize::from(version == *wanted);
            }
        }
        Ok(again)
    }

    /// Writes that have succeeded.
    pub fn succeeded(&self) -> u64 {
        self.shared.succeeded.load(Ordering::Relaxed)
    }

    /// ConfigMaps that were changed after they were created.
    pub fn changed(&self) -> usize {
        let config_maps = self.shared.objects[..CONFIG_MAPS].iter();
        config_maps.filter(|target| target.changed.load(Ordering::Relaxed)).count()
    }

    /// Stops the workers.
    pub async fn stop(mut self) {
        self.workers.shutdown().await;
    }
}

/// Writes continuously to the objects of this worker.
async fn work(shared: Arc<Shared>, worker: usize) {
    let mut rng = fastrand::Rng::with_seed(worker as u64);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = worker;
    loop {
        ticks.tick().await;
        let Ok(permit) = shared.gate.acquire().await else { return };
        let at = match rng.usize(..GADGETS_TURN) {
            0 => CONFIG_MAPS + rng.usize(..GADGETS),
            _ => {
                next = (next + WORKERS) % CONFIG_MAPS;
                next
            }
        };
        let target = &shared.objects[at];
        let written = match rng.u8(..10) {
            0 => shared.delete(target).await,
            1 => shared.choose(target, rng.bool()).await.map(drop),
            _ => shared.update_or_create(target).await.map(drop),
        };
        drop(permit);
        match written {
            Ok(()) => target.changed.store(true, Ordering::Relaxed),
            // There was no response, so the server is unreachable. An error response, for example for a
            // removed type, requires no delay.
            Err(error)
                if error.downcast_ref::<Error>().is_none_or(|error| !matches!(error, Error::Api(_))) =>
            {
                sleep(REST).await;
            }
            Err(_) => {}
        }
    }
}

impl Shared {
    /// The metadata and data of the next write.
    fn next(&self, chosen: Option<bool>) -> Value {
        let write = (self.writes.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let mut labels = json!({WRITE: write});
        if let Some(chosen) = chosen {
            labels["chosen"] = if chosen { "yes" } else { "no" }.into();
        }
        json!({"metadata": {"labels": labels}, "data": {"write": write}})
    }

    async fn create(&self, target: &Target) -> Result<u64> {
        let mut object = DynamicObject::new(&target.name, &target.resource);
        let mut next = self.next(Some(target.chosen));
        object.metadata.labels = serde_json::from_value(next["metadata"]["labels"].take())?;
        object.data = json!({"data": next["data"]});
        version(&self.sent(target.api.create(&PostParams::default(), &object)).await?)
    }

    /// The version that the object got.
    async fn update_or_create(&self, target: &Target) -> Result<u64> {
        self.patch(target, None).await
    }

    async fn choose(&self, target: &Target, chosen: bool) -> Result<u64> {
        self.patch(target, target.chosen.then_some(chosen)).await
    }

    async fn patch(&self, target: &Target, chosen: Option<bool>) -> Result<u64> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(self.next(chosen)));
        match self.sent(target.api.patch(&target.name, &params, &patch)).await {
            Err(error) if is(&error, Status::is_not_found) => self.create(target).await,
            patched => version(&patched?),
        }
    }

    async fn delete(&self, target: &Target) -> Result<()> {
        match self.sent(target.api.delete(&target.name, &DeleteParams::default())).await {
            Err(error) if is(&error, Status::is_not_found) => self.create(target).await.map(drop),
            deleted => deleted.map(drop),
        }
    }

    async fn sent<T>(&self, sending: impl Future<Output = Result<T, Error>>) -> Result<T> {
        let answer = timeout(WRITE_DEADLINE, sending).await??;
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }
}

fn version(object: &DynamicObject) -> Result<u64> {
    Ok(object.metadata.resource_version.as_deref().unwrap_or_default().parse()?)
}

/// Returns whether the error is a response with this status.
fn is(error: &anyhow::Error, this: fn(&Status) -> bool) -> bool {
    matches!(error.downcast_ref(), Some(Error::Api(status)) if this(status))
}

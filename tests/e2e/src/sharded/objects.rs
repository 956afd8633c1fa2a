//! The objects of the operator, and their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::{ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const LABEL: &str = "kube-informer.dev/test";
/// The number of requests at the same time.
const CONCURRENCY: usize = 16;
/// The number of changes at the same time.
const CHANGES: usize = 8;
/// The pause after these changes.
const PERIOD: Duration = Duration::from_millis(20);
const SEED: u64 = 2026;

/// The desired value of each object, by `NAMESPACE/NAME`.
pub(super) type Wanted = BTreeMap<String, u64>;

/// The values in an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) wanted: u64,
    pub(super) done: u64,
    pub(super) writes: u64,
}

/// A task that changes random objects.
pub(super) struct Changes {
    stop: CancellationToken,
    running: JoinHandle<Result<Wanted>>,
}

/// Creates objects in namespaces of equal size.
pub(super) async fn create(client: &Client, objects: usize, namespaces: usize) -> Result<Wanted> {
    let namespace = |number: usize| format!("team-{}", number % namespaces);
    let spaces = (0..namespaces).map(|number| create_namespace(client, namespace(number)));
    stream::iter(spaces).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
    let maps = (0..objects)
        .map(|number| create_map(client, namespace(number), format!("map-{}", number / namespaces)));
    stream::iter(maps).buffer_unordered(CONCURRENCY).try_collect().await
}

async fn create_namespace(client: &Client, name: String) -> Result<()> {
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn create_map(client: &Client, namespace: String, name: String) -> Result<(String, u64)> {
    let metadata = json!({"name": name, "labels": {LABEL: "sharded"}});
    let object: ConfigMap = serde_json::from_value(json!({"metadata": metadata, "data": {"wanted": "1"}}))?;
    Api::namespaced(client.clone(), &namespace).create(&PostParams::default(), &object).await?;
    Ok((format!("{namespace}/{name}"), 1))
}

/// Returns the values of all objects.
pub(super) async fn read(client: &Client) -> Result<BTreeMap<String, Values>> {
    let params = ListParams::default().labels(LABEL);
    let maps = Api::<ConfigMap>::all(client.clone()).list(&params).await?;
    let values = |map: ConfigMap| {
        let key = format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
        let number = |name| map.data.as_ref()?.get(name)?.parse().ok();
        let [wanted, done, writes] =
            ["wanted", "done", "writes"].map(|name| number(name).unwrap_or_default());
        (key, Values { wanted, done, writes })
    };
    Ok(maps.items.into_iter().map(values).collect())
}

impl Changes {
    /// Starts the changes.
    pub(super) fn start(client: Client, wanted: Wanted) -> Self {
        let stop = CancellationToken::new();
        let running = tokio::spawn(change(client, wanted, stop.clone()));
        Self { stop, running }
    }

    /// Stops the changes, and returns the final desired values.
    pub(super) async fn end(self) -> Result<Wanted> {
        self.stop.cancel();
        self.running.await?
    }
}

async fn change(client: Client, mut wanted: Wanted, stop: CancellationToken) -> Result<Wanted> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let keys: Vec<String> = wanted.keys().cloned().collect();
    while !stop.is_cancelled() {
        let changed: BTreeSet<&String> = (0..CHANGES).filter_map(|_| random.choice(&keys)).collect();
        for key in &changed {
            *wanted.entry((*key).clone()).or_default() += 1;
        }
        try_join_all(changed.into_iter().map(|key| change_one(&client, key, wanted[key]))).await?;
        stop.run_until_cancelled(sleep(PERIOD)).await;
    }
    Ok(wanted)
}

async fn change_one(client: &Client, key: &str, value: u64) -> Result<()> {
    let (namespace, name) = key.split_once('/').context("a key without a namespace")?;
    let patch = Patch::Merge(json!({"data": {"wanted": value.to_string()}}));
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    maps.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

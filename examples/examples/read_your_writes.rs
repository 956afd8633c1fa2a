//! Compares reads after writes from a plain `Lister` with reads through a `CachedApi`.
//!
//! The cache lags the server by the delivery of one watch event, 300 ms on the embedded server of
//! this example. The example has four parts: reads after writes; a read with a timeout, while the
//! cache receives no events; an object that the cache does not select; and two controllers that
//! create a child if they find none. On a real cluster, the example needs `--write`, and removes
//! its objects at the end.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Parser;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use kube_informer::{CachedApi, Informer, InformerFactory, LabelSelector};
use kube_informer_examples::{
    cli,
    cluster::{Cluster, ClusterArgs},
};
use kube_operator::{Action, Controller, Failure, Leadership, Request};
use kube_testserver::Lag;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The label of all objects of this example. The cache selects objects by the label value.
const LABEL: &str = "kube-informer.dev/example";
const SELECTOR: &str = "kube-informer.dev/example=read-your-writes";
const EVENT_DELAY: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(30);
const WRITES: usize = 10;
const RECONCILES: usize = 5;

/// Compares reads after writes from a Lister and a CachedApi.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Permit the example to create ConfigMaps and Secrets on the cluster. The example removes them
    /// at the end.
    #[arg(long)]
    write: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(read_your_writes).await
}

async fn read_your_writes(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    if cluster.embedded.is_none() && !flags.write {
        bail!("this example writes to the cluster; permit it with --write");
    }
    let namespace = flags.cluster.namespace.as_deref().unwrap_or_else(|| cluster.client.default_namespace());
    cluster.check_list_access::<ConfigMap>(Some(namespace)).await?;
    cluster.check_list_access::<Secret>(Some(namespace)).await?;
    let result = all_parts(&cluster, namespace).await;
    // Also after a failure, the example removes its objects.
    let removed = remove(&cluster.client, namespace).await;
    cluster.close().await;
    result.and(removed)
}

async fn all_parts(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let lag = |lag: Lag| cluster.embedded.iter().for_each(|embedded| embedded.server.set_lag(lag));
    let factory = InformerFactory::new(cluster.client.clone()).namespace(namespace).labels(SELECTOR);
    let maps = factory.informer::<ConfigMap>()?;
    let secrets = factory.informer::<Secret>()?;
    factory.start();
    factory.wait_for_sync(TIMEOUT).await?;
    let api = CachedApi::new(Api::namespaced(cluster.client.clone(), namespace), &maps);
    let children = CachedApi::new(Api::namespaced(cluster.client.clone(), namespace), &secrets);

    lag(Lag::Time(EVENT_DELAY));
    reads_after_writes(&maps, &api).await?;
    if cluster.embedded.is_some() {
        lag(Lag::Frozen);
        read_with_timeout(&api).await?;
        lag(Lag::Time(EVENT_DELAY));
    }
    read_outside_of_cache(&api).await?;
    for reads in [Reads::Lister, Reads::CachedApi] {
        let (reconciles, created) = controller(&maps, &api, &secrets, &children, reads).await?;
        println!("controller: with a {reads:?}, it created {created} children in {reconciles} reconciles");
    }
    factory.shutdown().await;
    Ok(())
}

/// Writes a growing number to a ConfigMap, and reads it after each write.
async fn reads_after_writes(maps: &Informer<ConfigMap>, api: &CachedApi<ConfigMap>) -> anyhow::Result<()> {
    let number = |map: Option<Arc<ConfigMap>>| map?.data.as_ref()?.get("number")?.parse::<usize>().ok();
    let created = api.create(&PostParams::default(), &map("counter", "read-your-writes")?).await?;
    let namespace = created.metadata.namespace.as_deref().context("a ConfigMap has a namespace")?;
    let (mut stale, mut stale_cached, mut waited) = (0, 0, Duration::ZERO);
    for written in 1..=WRITES {
        let patch = Patch::Merge(json!({"data": {"number": written.to_string()}}));
        api.patch("counter", &PatchParams::default(), &patch).await?;
        let plain = maps.lister().namespace(namespace).get("counter");
        stale += usize::from(number(plain) != Some(written));
        let start = Instant::now();
        stale_cached += usize::from(number(api.get("counter").await?) != Some(written));
        waited += start.elapsed();
    }
    println!("reads     : Lister stale after {stale} of {WRITES} writes");
    println!("reads     : CachedApi stale after {stale_cached} of {WRITES} writes");
    println!("reads     : CachedApi waited {:.0?} per read", waited / WRITES as u32);
    Ok(())
}

/// Reads while the cache receives no events. The read times out with an error and returns no stale
/// object.
async fn read_with_timeout(api: &CachedApi<ConfigMap>) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"data": {"number": "0"}}));
    api.patch("counter", &PatchParams::default(), &patch).await?;
    match api.clone().read_timeout(EVENT_DELAY).get("counter").await {
        Ok(_) => bail!("the cache contains an object that it cannot have received"),
        Err(error) => println!("timeout   : {error}"),
    }
    Ok(())
}

/// Reads an object that the informer does not select. The cache never receives its events, so the
/// read must not wait.
async fn read_outside_of_cache(api: &CachedApi<ConfigMap>) -> anyhow::Result<()> {
    api.get("counter").await?;
    api.create(&PostParams::default(), &map("outside", "something-else")?).await?;
    let start = Instant::now();
    let found = api.get("outside").await?.is_some();
    let waited = start.elapsed() > EVENT_DELAY / 2;
    println!("unselected: found {found}, waited {waited}");
    Ok(())
}

/// The cache that a controller reads its children from.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Lister,
    CachedApi,
}

/// Runs a controller that creates a child if it finds none. Returns the number of reconciles and of
/// children.
async fn controller(
    maps: &Informer<ConfigMap>,
    parents: &CachedApi<ConfigMap>,
    secrets: &Informer<Secret>,
    children: &CachedApi<Secret>,
    reads: Reads,
) -> anyhow::Result<(usize, usize)> {
    let name = format!("parent-of-{reads:?}").to_lowercase();
    let selector = format!("{SELECTOR},parent={name}");
    let (reconciles, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let reconcile = {
        let (name, selector) = (name.clone(), selector.parse::<LabelSelector>()?);
        let (reconciles, stop) = (Arc::clone(&reconciles), stop.clone());
        let (secrets, children) = (secrets.clone(), children.clone());
        move |request: Request<ConfigMap>| {
            let (name, selector, stop) = (name.clone(), selector.clone(), stop.clone());
            let (reconciles, secrets, children) =
                (Arc::clone(&reconciles), secrets.clone(), children.clone());
            async move {
                if request.key.name() != name || stop.is_cancelled() {
                    return Ok(Action::AwaitChange);
                }
                let found = match reads {
                    Reads::Lister => secrets.lister().list(&selector),
                    Reads::CachedApi => children.list(&selector).await?,
                };
                if found.is_empty() {
                    let labels = json!({LABEL: "read-your-writes", "parent": name});
                    let metadata = json!({"generateName": format!("{name}-"), "labels": labels});
                    let child: Secret = serde_json::from_value(json!({"metadata": metadata}))?;
                    children.create(&PostParams::default(), &child).await?;
                }
                if reconciles.fetch_add(1, SeqCst) + 1 == RECONCILES {
                    stop.cancel();
                }
                Ok::<_, Failure>(Action::RequeueAfter(Duration::from_millis(10)))
            }
        }
    };
    parents.create(&PostParams::default(), &map(&name, "read-your-writes")?).await?;
    let running = Controller::new(maps).run(reconcile, Leadership::always(), stop.clone());
    tokio::time::timeout(TIMEOUT, running).await.context("the controller reconciled too rarely")??;
    let created = children.api().list(&ListParams::default().labels(&selector)).await?;
    Ok((reconciles.load(SeqCst), created.items.len()))
}

fn map(name: &str, label: &str) -> serde_json::Result<ConfigMap> {
    serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name, "labels": {LABEL: label}}}))
}

/// Removes all objects with the label of this example.
async fn remove(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let (all, params) = (ListParams::default().labels(LABEL), DeleteParams::default());
    Api::<ConfigMap>::namespaced(client.clone(), namespace).delete_collection(&params, &all).await?;
    Api::<Secret>::namespaced(client.clone(), namespace).delete_collection(&params, &all).await?;
    Ok(())
}

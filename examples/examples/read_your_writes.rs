//! What a program reads right after its own write: from a plain `Lister`, and through a `CachedApi`.
//!
//! A cache lags behind the server by the way of an event; on the embedded server that takes 300 ms here. The story has four
//! parts: reads after writes, a cache that stands still (so that a read has to give up), an object that the cache does not cover,
//! and two controllers that make what they don't find. On a cluster all of it happens only after `--write`, and nothing stays.

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
use kube_informer_examples::cluster::{self, Cluster, ClusterArgs};
use kube_operator::{Action, Controller, Failure, Leadership, Request};
use kube_testserver::Lag;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All that this example makes has this label, with the example's name or another value.
const LABEL: &str = "kube-informer.dev/example";
const OURS: &str = "kube-informer.dev/example=read-your-writes";
const EVENTS_TAKE: Duration = Duration::from_millis(300);
const WITHIN: Duration = Duration::from_secs(30);
const WRITES: usize = 10;
const RUNS: usize = 5;

/// Shows what a program reads after its own writes.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Allow ConfigMaps and Secrets of this example's own on the cluster; they are removed at the end.
    #[arg(long)]
    write: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(read_your_writes(Flags::parse())).await
}

async fn read_your_writes(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    if cluster.embedded.is_none() && !flags.write {
        bail!("this example writes: allow it with --write");
    }
    let namespace = flags.cluster.namespace.as_deref().unwrap_or_else(|| cluster.client.default_namespace());
    let told = story(&cluster, namespace).await;
    // Whatever happened: nothing stays behind.
    let removed = remove(&cluster.client, namespace).await;
    cluster.close().await;
    told.and(removed)
}

async fn story(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let lag = |lag: Lag| cluster.embedded.iter().for_each(|embedded| embedded.server.set_lag(lag));
    let factory = InformerFactory::new(cluster.client.clone()).namespace(namespace).labels(OURS);
    let maps = factory.informer::<ConfigMap>()?;
    let secrets = factory.informer::<Secret>()?;
    factory.start();
    factory.wait_for_sync(WITHIN).await?;
    let api = CachedApi::new(Api::namespaced(cluster.client.clone(), namespace), &maps);
    let children = CachedApi::new(Api::namespaced(cluster.client.clone(), namespace), &secrets);

    lag(Lag::Time(EVENTS_TAKE));
    reads_after_writes(&maps, &api).await?;
    if cluster.embedded.is_some() {
        lag(Lag::Frozen);
        a_read_that_gives_up(&api).await?;
        lag(Lag::Time(EVENTS_TAKE));
    }
    what_is_not_covered(&api).await?;
    for reads in [Reads::Lister, Reads::CachedApi] {
        let (runs, made) = controller(&maps, &api, &secrets, &children, reads).await?;
        println!("controller: reads a {reads:?}: {made} children after {runs} runs");
    }
    factory.shutdown().await;
    Ok(())
}

/// Counts in a ConfigMap, and reads the number after each write.
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
        let began = Instant::now();
        stale_cached += usize::from(number(api.get("counter").await?) != Some(written));
        waited += began.elapsed();
    }
    println!("reads     : a Lister was stale after {stale} of {WRITES} writes");
    println!("reads     : a CachedApi was stale after {stale_cached} of {WRITES} writes");
    println!("reads     : it has waited {:.0?} for each", waited / WRITES as u32);
    Ok(())
}

/// No event comes: the wait ends with an error, and the program is not misled.
async fn a_read_that_gives_up(api: &CachedApi<ConfigMap>) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"data": {"number": "0"}}));
    api.patch("counter", &PatchParams::default(), &patch).await?;
    match api.clone().patience(EVENTS_TAKE).get("counter").await {
        Ok(_) => bail!("the cache shows what it can't have seen"),
        Err(error) => println!("bounded   : {error}"),
    }
    Ok(())
}

/// The informer's selector leaves it out, so that no event of it will ever come: nobody waits for one.
async fn what_is_not_covered(api: &CachedApi<ConfigMap>) -> anyhow::Result<()> {
    api.get("counter").await?;
    api.create(&PostParams::default(), &map("outside", "something-else")?).await?;
    let began = Instant::now();
    let found = api.get("outside").await?.is_some();
    let stalled = began.elapsed() > EVENTS_TAKE / 2;
    println!("not covered: found {found}, stalled {stalled}");
    Ok(())
}

/// Where a controller looks for what it has made.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Lister,
    CachedApi,
}

/// A controller that makes a child for its parent where it finds none. How often it ran, and how many children there are.
async fn controller(
    maps: &Informer<ConfigMap>,
    parents: &CachedApi<ConfigMap>,
    secrets: &Informer<Secret>,
    children: &CachedApi<Secret>,
    reads: Reads,
) -> anyhow::Result<(usize, usize)> {
    let name = format!("parent-of-{reads:?}").to_lowercase();
    let selector = format!("{OURS},parent={name}");
    let (runs, enough) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let reconcile = {
        let (name, selector) = (name.clone(), selector.parse::<LabelSelector>()?);
        let (runs, enough, secrets, children) =
            (Arc::clone(&runs), enough.clone(), secrets.clone(), children.clone());
        move |request: Request<ConfigMap>| {
            let (name, selector, enough) = (name.clone(), selector.clone(), enough.clone());
            let (runs, secrets, children) = (Arc::clone(&runs), secrets.clone(), children.clone());
            async move {
                if request.key.name() != name || enough.is_cancelled() {
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
                if runs.fetch_add(1, SeqCst) + 1 == RUNS {
                    enough.cancel();
                }
                Ok::<_, Failure>(Action::RequeueAfter(Duration::from_millis(10)))
            }
        }
    };
    parents.create(&PostParams::default(), &map(&name, "read-your-writes")?).await?;
    let working = Controller::new(maps).run(reconcile, Leadership::always(), enough.clone());
    tokio::time::timeout(WITHIN, working).await.context("the controller has not run often enough")??;
    let made = children.api().list(&ListParams::default().labels(&selector)).await?;
    Ok((runs.load(SeqCst), made.items.len()))
}

fn map(name: &str, label: &str) -> serde_json::Result<ConfigMap> {
    serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": name, "labels": {LABEL: label}}}))
}

/// All that has the label, whatever its value.
async fn remove(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let (all, params) = (ListParams::default().labels(LABEL), DeleteParams::default());
    Api::<ConfigMap>::namespaced(client.clone(), namespace).delete_collection(&params, &all).await?;
    Api::<Secret>::namespaced(client.clone(), namespace).delete_collection(&params, &all).await?;
    Ok(())
}

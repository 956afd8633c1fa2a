//! A reconcile without user code on kube-operator.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client};
use kube_informer::{CachedApi, Entry, Index, Informer, ObjectKey};
use kube_operator::workqueue::{ItemExponentialFailureRateLimiter, WorkQueue};
use kube_operator::{Action, Controller, Leadership, Predicate, Request};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::memory_source::MemorySource;
use super::objects::{accepted, config_map, entry, group_of, key, owners, rejected, secret, shuffled};
use super::reconcile::{Figures, Lookups, query_ns};
use super::reconciled::Reconciled;
use super::usage::CpuTimer;
use super::{MAX_DELAY, MIN_DELAY, SYNC_TIMEOUT, no_client};

/// The caches of the controller.
struct Caches {
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    /// Sends changed Secrets.
    changes: Sender<Entry<Secret>>,
    by_group: Index<ConfigMap, String>,
    /// Keeps the watch of the ConfigMaps open.
    _no_changes: Sender<Entry<ConfigMap>>,
}

/// Measures all figures.
pub(super) async fn measure(objects: usize) -> Result<Figures> {
    let caches = Caches::new(objects).await?;
    let mut figures = Figures::new();
    figures.insert("get_ns".into(), caches.get_ns(objects).await?);
    let query = |group: &str| black_box(caches.by_group.get(group)).len();
    figures.insert("index_ns".into(), query_ns(objects, false, query)?);
    figures.insert("queue_ns".into(), queue_ns(objects).await?);
    controller(objects, &caches, &mut figures).await?;
    Ok(figures)
}

impl Caches {
    async fn new(objects: usize) -> Result<Self> {
        let (source, no_changes) =
            MemorySource::new((0..objects).map(|number| entry(config_map(number))).collect());
        let maps = Informer::from_source(source).name("ConfigMap /api/v1/configmaps").build();
        let by_group = maps.add_index("group", group_of)?;
        let owned = owners(objects).map(|number| entry(secret(number, 1, 1))).collect();
        let (source, changes) = MemorySource::new(owned);
        let secrets = Informer::from_source(source).name("Secret /api/v1/secrets").build();
        maps.start();
        secrets.start();
        maps.wait_for_sync(SYNC_TIMEOUT).await?;
        secrets.wait_for_sync(SYNC_TIMEOUT).await?;
        Ok(Self { maps, secrets, changes, by_group, _no_changes: no_changes })
    }

    /// Measures a read through the typed reader of a reconciler.
    async fn get_ns(&self, objects: usize) -> Result<f64> {
        let client: Client = no_client()?;
        let (cached, lookups) = (CachedApi::new(Api::all(client), &self.maps), Lookups::new(objects));
        let (timer, mut found) = (CpuTimer::start()?, 0);
        for (namespace, name) in lookups.iter() {
            found += usize::from(black_box(cached.namespace(namespace).get(name).await?).is_some());
        }
        lookups.ns(&timer, found)
    }
}

/// Measures the queue without a controller. All keys wait, and are then processed.
async fn queue_ns(objects: usize) -> Result<f64> {
    let keys: Vec<ObjectKey> = shuffled(objects).into_iter().map(key).collect();
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(MIN_DELAY, MAX_DELAY));
    let timer = CpuTimer::start()?;
    keys.into_iter().for_each(|key| queue.add(key));
    for _ in 0..objects {
        let item = queue.get().await.context("the queue is shut down")?;
        black_box(&*item);
        item.forget();
        item.done();
    }
    timer.ns_per(objects)
}

async fn controller(objects: usize, caches: &Caches, figures: &mut Figures) -> Result<()> {
    let (reconciled, stop) = (Arc::new(Reconciled::default()), CancellationToken::new());
    let (queue_all, all_queued) = oneshot::channel();
    let mut keys: Vec<ObjectKey> = shuffled(objects).into_iter().map(key).collect();
    let keys = stream::once(async { all_queued.await.is_ok() })
        .flat_map(move |_| stream::iter(std::mem::take(&mut keys)));
    let counter = Arc::clone(&reconciled);
    let reconcile = move |request: Request<ConfigMap>| {
        black_box(request.object);
        counter.record();
        async { Ok::<_, kube_operator::Failure>(Action::AwaitChange) }
    };
    let controller = Controller::new(&caches.maps)
        .owns_filtered(&caches.secrets, Predicate::labels_changed())
        .watches_stream("all", keys);
    let running = tokio::spawn(controller.run(reconcile, Leadership::always(), stop.clone()));
    reconciled.settle(objects).await?;

    reconciled.expect(objects);
    let timer = CpuTimer::start()?;
    queue_all.send(()).ok().context("the controller has stopped")?;
    reconciled.wait().await?;
    figures.insert("reconcile_ns".into(), timer.ns_per(objects)?);
    owned(objects, caches, &reconciled, figures).await?;
    stop.cancel();
    Ok(running.await??)
}

/// Measures the events of owned objects. The predicate rejects the first group of events.
async fn owned(
    objects: usize,
    caches: &Caches,
    reconciled: &Reconciled,
    figures: &mut Figures,
) -> Result<()> {
    let rejected: Vec<_> = rejected(objects).map(entry).collect();
    let accepted: Vec<_> = accepted(objects).map(entry).collect();
    for (name, reconciles, events) in [("rejected_ns", 1, rejected), ("owned_ns", accepted.len(), accepted)] {
        reconciled.expect(reconciles);
        let (count, timer) = (events.len(), CpuTimer::start()?);
        for event in events {
            caches.changes.send(event).await.ok().context("the informer is stopped")?;
        }
        reconciled.wait().await?;
        figures.insert(name.into(), timer.ns_per(count)?);
    }
    Ok(())
}

//! A reconcile without user code on kube-runtime.

use std::convert::Infallible;
use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_runtime::controller::{Action, Config};
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::scheduler::{ScheduleRequest, scheduler};
use kube_runtime::watcher::Event;
use kube_runtime::{Controller, WatchStreamExt as _, predicates, watcher};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::memory_source::MAX_WAITING_EVENTS;
use super::objects::{accepted, config_map, group_of, name, namespace, owners, rejected, secret, shuffled};
use super::reconcile::{Figures, Lookups, query_ns};
use super::reconciled::Reconciled;
use super::usage::CpuTimer;

type EventResult<K> = Result<Event<K>, watcher::Error>;

/// Measures all figures.
pub(super) async fn measure(objects: usize) -> Result<Figures> {
    let mut figures = Figures::new();
    let store = controller(objects, &mut figures).await?;
    figures.insert("get_ns".into(), get_ns(&store, objects)?);
    // There is no index, so a query reads all objects.
    let query = |group: &str| {
        black_box(store.state_filter(|map| group_of(map).is_some_and(|value| value == group))).len()
    };
    figures.insert("index_ns".into(), query_ns(objects, true, query)?);
    figures.insert("queue_ns".into(), queue_ns(objects).await?);
    Ok(figures)
}

fn get_ns(store: &Store<ConfigMap>, objects: usize) -> Result<f64> {
    let lookups = Lookups::new(objects);
    let timer = CpuTimer::start()?;
    let found = |(namespace, name): &(&str, &str)| {
        black_box(store.get(&ObjectRef::new(name).within(namespace))).is_some()
    };
    let found = lookups.iter().filter(found).count();
    lookups.ns(&timer, found)
}

/// Measures the scheduler without a controller. All keys wait, and are then taken. The scheduler
/// has no call for the end of the processing.
async fn queue_ns(objects: usize) -> Result<f64> {
    let keys: Vec<_> = shuffled(objects).into_iter().map(reference).collect();
    let timer = CpuTimer::start()?;
    let requests = keys.into_iter().map(|message| ScheduleRequest { message, run_at: Instant::now() });
    // The scheduler would stop at the end of the stream, before it returns the keys.
    let queue = scheduler(stream::iter(requests).chain(stream::pending()));
    let taken = queue.take(objects).map(black_box).count().await;
    ensure!(taken == objects, "the queue returned {taken} keys");
    timer.ns_per(objects)
}

fn reference(number: usize) -> ObjectRef<ConfigMap> {
    ObjectRef::new(&name(number)).within(&namespace(number))
}

/// Returns the events of a list, followed by the events of the channel.
fn events<K: Send + 'static>(
    objects: Vec<K>,
    changes: Receiver<K>,
) -> impl futures_util::Stream<Item = EventResult<K>> + Send + 'static {
    let list = stream::iter([Event::Init])
        .chain(stream::iter(objects).map(Event::InitApply))
        .chain(stream::iter([Event::InitDone]));
    let changes = stream::unfold(changes, |mut changes| async move {
        let object = changes.recv().await?;
        Some((Event::Apply(object), changes))
    });
    list.chain(changes).map(Ok)
}

async fn controller(objects: usize, figures: &mut Figures) -> Result<Store<ConfigMap>> {
    let (reconciled, stop) = (Arc::new(Reconciled::default()), CancellationToken::new());
    let (maps, writer) = reflector::store();
    let (_no_changes, changes) = channel(MAX_WAITING_EVENTS);
    // The stream fills the store, but does not start reconciles. The controller stores waiting keys in a hash
    // set, and always searches the next key from the start. The reconciles of the list would therefore take
    // as long as the measured reconciles.
    let primary = events((0..objects).map(config_map).collect(), changes).reflect(writer).applied_objects();
    let primary = primary.filter(|_| ready(false));
    let (_secrets, writer) = reflector::store::<Secret>();
    let (changed, changes) = channel(MAX_WAITING_EVENTS);
    let owned = events(owners(objects).map(|number| secret(number, 1, 1)).collect(), changes)
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::labels, Default::default());
    let (queue_all, all_queued) = oneshot::channel();
    let mut keys: Vec<_> = shuffled(objects).into_iter().map(reference).collect();
    let keys = stream::once(async { all_queued.await.is_ok() })
        .flat_map(move |_| stream::iter(std::mem::take(&mut keys)));
    let running = Controller::for_stream(primary, maps.clone())
        .owns_stream(owned)
        .reconcile_on(keys)
        // Without a limit, the controller would start all reconciles at once, and always poll each of these
        // reconciles.
        .with_config(Config::default().concurrency(1))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, |_, _, _| Action::await_change(), Arc::clone(&reconciled))
        .for_each(|_| ready(()));
    let running = tokio::spawn(running);
    reconciled.settle(owners(objects).count()).await?;

    reconciled.expect(objects);
    let timer = CpuTimer::start()?;
    queue_all.send(()).ok().context("the controller has stopped")?;
    reconciled.wait().await?;
    figures.insert("reconcile_ns".into(), timer.ns_per(objects)?);
    measure_owned(objects, &changed, &reconciled, figures).await?;
    stop.cancel();
    running.await?;
    Ok(maps)
}

async fn reconcile(map: Arc<ConfigMap>, reconciled: Arc<Reconciled>) -> Result<Action, Infallible> {
    black_box(map);
    reconciled.record();
    Ok(Action::await_change())
}

/// Measures the events of owned objects. The predicate rejects the first group of events.
async fn measure_owned(
    objects: usize,
    changed: &Sender<Secret>,
    reconciled: &Reconciled,
    figures: &mut Figures,
) -> Result<()> {
    let (rejected, accepted): (Vec<_>, Vec<_>) = (rejected(objects).collect(), accepted(objects).collect());
    for (name, reconciles, events) in [("rejected_ns", 1, rejected), ("owned_ns", accepted.len(), accepted)] {
        reconciled.expect(reconciles);
        let (count, timer) = (events.len(), CpuTimer::start()?);
        for event in events {
            changed.send(event).await.ok().context("the controller has stopped")?;
        }
        reconciled.wait().await?;
        figures.insert(name.into(), timer.ns_per(count)?);
    }
    Ok(())
}

//! Measures the sync of twenty kinds with a cache each, and the start of a controller that watches all
//! twenty kinds. Ten kinds have no objects.

use std::fmt::Debug;
use std::future::{pending, ready};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    core::v1::{
        ConfigMap, LimitRange, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
    rbac::v1::Role,
};
use kube_client::{Api, Client, Resource};
use kube_informer::{Cached, InformerFactory};
use kube_operator::{Action, Manager, ManagerOptions, Request};
use kube_runtime::reflector::{self, ObjectRef};
use kube_runtime::{WatchStreamExt as _, controller, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::SYNC_TIMEOUT;
use super::namespaces::Caches;

/// A type with a cache.
trait Kind: Resource<DynamicType = ()> + Cached<Resource = Self> + Clone + Debug + DeserializeOwned {}

impl<K: Resource<DynamicType = ()> + Cached<Resource = K> + Clone + Debug + DeserializeOwned> Kind for K {}

/// Calls a macro with all kinds but ConfigMap, which the controller reconciles.
macro_rules! for_other_kinds {
    ($call:ident, $($argument:tt)*) => {
        $call!($($argument)*; Secret, Service, ServiceAccount, Pod, Deployment, ReplicaSet, Job, Role,
            EndpointSlice, StatefulSet, DaemonSet, CronJob, Ingress, NetworkPolicy, PodDisruptionBudget,
            HorizontalPodAutoscaler, PersistentVolumeClaim, ResourceQuota, LimitRange)
    };
}

macro_rules! ours_informers {
    ($factory:expr; $($kind:ty),*) => { $($factory.informer::<$kind>()?;)* };
}

macro_rules! ours_watches {
    ($factory:expr, $controller:expr; $($kind:ty),*) => {
        $controller$(.watches(&$factory.informer::<$kind>()?, |_| None))*
    };
}

macro_rules! reflectors {
    ($client:expr, $caches:expr; $($kind:ty),*) => { $($caches.push(reflected::<$kind>($client));)* };
}

macro_rules! kube_runtime_watches {
    ($client:expr, $stores:expr, $controller:expr; $($kind:ty),*) => {
        $controller$(.watches_stream(
            { let (store, events) = source::<$kind>($client); $stores.push(store); events },
            |_| None::<ObjectRef<ConfigMap>>,
        ))*
    };
}

/// Waits until a store contains its initial list, and returns the number of its objects.
type Filled = BoxFuture<'static, Result<usize>>;

/// Syncs the caches of kube-informer.
pub(super) async fn sync_ours(client: Client, objects: usize) -> Result<Caches> {
    let factory = InformerFactory::new(client);
    let maps = factory.informer::<ConfigMap>()?;
    for_other_kinds!(ours_informers, factory);
    factory.start();
    factory.wait_for_sync(SYNC_TIMEOUT).await?;
    let cached = maps.lister().len();
    ensure!(cached == objects, "the cache contains {cached} ConfigMaps");
    Ok(kept(factory))
}

/// Starts a manager of kube-operator, and waits for its first reconcile.
pub(super) async fn start_ours(client: Client) -> Result<Caches> {
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client, options)?;
    let (first, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let factory = manager.factory();
    let maps = factory.informer::<ConfigMap>()?;
    let controller = kube_operator::Controller::new(&maps);
    let controller = for_other_kinds!(ours_watches, factory, controller);
    let reconciled = Arc::clone(&first);
    manager.add_controller(controller, move |_: Request<ConfigMap>| {
        reconciled.notify_one();
        async { Ok::<_, kube_operator::Failure>(Action::AwaitChange) }
    });
    let mut running = AbortOnDropHandle::new(tokio::spawn(manager.run(stop.clone().cancelled_owned())));
    tokio::select! {
        () = first.notified() => Ok(kept((running, stop))),
        stopped = &mut running => bail!("the manager stopped: {stopped:?}"),
    }
}

/// Syncs the reflectors of kube-runtime.
pub(super) async fn sync_kube_runtime(client: Client, objects: usize) -> Result<Caches> {
    let (store, events) = source::<ConfigMap>(&client);
    let mut caches = vec![(store, polled(events))];
    for_other_kinds!(reflectors, &client, caches);
    let (stores, tasks): (Vec<Filled>, Vec<_>) = caches.into_iter().unzip();
    let cached = try_join_all(stores).await?[0];
    ensure!(cached == objects, "the store contains {cached} ConfigMaps");
    Ok(kept(tasks))
}

/// Starts a controller of kube-runtime, and waits for its first reconcile. The first reconcile waits
/// for all caches, like the controllers of the other libraries.
pub(super) async fn start_kube_runtime(client: Client) -> Result<Caches> {
    struct Context {
        stores: std::sync::Mutex<Vec<Filled>>,
        filled: OnceCell<()>,
        first: Notify,
    }
    async fn reconcile(
        _: Arc<ConfigMap>,
        context: Arc<Context>,
    ) -> Result<controller::Action, watcher::Error> {
        let stores =
            || std::mem::take(&mut *context.stores.lock().unwrap_or_else(|error| error.into_inner()));
        let fill = || async { drop(try_join_all(stores()).await) };
        context.filled.get_or_init(fill).await;
        context.first.notify_one();
        Ok(controller::Action::await_change())
    }
    let mut stores = Vec::new();
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let controller = kube_runtime::Controller::new(maps, watcher::Config::default());
    let controller = for_other_kinds!(kube_runtime_watches, &client, stores, controller);
    let context = Arc::new(Context {
        stores: std::sync::Mutex::new(stores),
        filled: OnceCell::new(),
        first: Notify::new(),
    });
    let running = controller
        .run(reconcile, |_, _, _| controller::Action::await_change(), Arc::clone(&context))
        .for_each(|_| ready(()));
    let mut running = AbortOnDropHandle::new(tokio::spawn(running));
    tokio::select! {
        () = context.first.notified() => Ok(kept(running)),
        _ = &mut running => bail!("the controller stopped"),
    }
}

fn source<K: Kind>(
    client: &Client,
) -> (Filled, impl futures_util::Stream<Item = Result<K, watcher::Error>> + Send + use<K>) {
    let (store, writer) = reflector::store::<K>();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff();
    let filled = async move {
        store.wait_until_ready().await?;
        Ok(store.state().len())
    };
    (filled.boxed(), events.reflect(writer).touched_objects())
}

fn reflected<K: Kind>(client: &Client) -> (Filled, AbortOnDropHandle<()>) {
    let (store, events) = source::<K>(client);
    (store, polled(events))
}

/// Polls a stream in its own task.
fn polled<S: futures_util::Stream + Send + 'static>(events: S) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(events.for_each(|_| ready(()))))
}

/// Keeps caches alive until the measurement is complete.
fn kept<T: Send + 'static>(caches: T) -> Caches {
    async move {
        pending::<()>().await;
        drop(caches);
    }
    .boxed()
}

//! Measures many namespaces, with one informer for each namespace or with one cluster-wide informer.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, ensure};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Event, InformerFactory, handler_fn};
use kube_runtime::{WatchStreamExt as _, reflector, watcher};
use tokio::task::JoinSet;

use super::SYNC_TIMEOUT;
use super::server::{allow_open_files, namespace};

/// Keeps the caches alive until the measurement is complete.
pub(super) type Caches = BoxFuture<'static, ()>;

/// Runs an informer of kube-informer for each namespace.
pub(super) async fn ours(client: Client, namespaces: usize) -> Result<Caches> {
    allow_open_files(namespaces)?;
    let factory = InformerFactory::new(client);
    let informers = factory.select::<ConfigMap>().namespaces((0..namespaces).map(namespace))?;
    let handled = Arc::new(AtomicUsize::new(0));
    let added = Arc::clone(&handled);
    let registration = informers.add_handler(handler_fn(move |_: &Event<ConfigMap>| {
        added.fetch_add(1, Relaxed);
    }));
    factory.start();
    informers.wait_for_sync(SYNC_TIMEOUT).await?;
    ensure!(registration.wait_for_sync(SYNC_TIMEOUT).await, "the handler is not synced");
    check(handled.load(Relaxed), namespaces)?;
    Ok(async move {
        pending::<()>().await;
        drop((informers, registration, factory));
    }
    .boxed())
}

/// Runs one informer of kube-informer for all namespaces. Its handler dispatches each event by the
/// namespace, and a lister reads one namespace.
pub(super) async fn ours_split(client: Client, namespaces: usize) -> Result<Caches> {
    let factory = InformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>()?;
    let handlers: HashMap<String, AtomicUsize> =
        (0..namespaces).map(|number| (namespace(number), AtomicUsize::new(0))).collect();
    let handlers = Arc::new(handlers);
    let dispatch = Arc::clone(&handlers);
    let registration = informer.add_handler(handler_fn(move |event: &Event<ConfigMap>| {
        if let Some(handler) = event.key().namespace().and_then(|namespace| dispatch.get(namespace)) {
            handler.fetch_add(1, Relaxed);
        }
    }));
    factory.start();
    factory.wait_for_sync(SYNC_TIMEOUT).await?;
    ensure!(registration.wait_for_sync(SYNC_TIMEOUT).await, "the handler is not synced");
    let lister = informer.lister();
    check((0..namespaces).map(|number| lister.namespace(&namespace(number)).len()).sum(), namespaces)?;
    check(handlers.values().map(|handled| handled.load(Relaxed)).sum(), namespaces)?;
    Ok(async move {
        pending::<()>().await;
        drop((informer, registration, factory));
    }
    .boxed())
}

/// Runs a watcher and a store of kube-runtime for each namespace.
pub(super) async fn kube_runtime(client: Client, namespaces: usize) -> Result<Caches> {
    allow_open_files(namespaces)?;
    let handled = Arc::new(AtomicUsize::new(0));
    let (mut tasks, mut stores) = (JoinSet::new(), Vec::with_capacity(namespaces));
    for number in 0..namespaces {
        let (store, writer) = reflector::store::<ConfigMap>();
        let api = Api::namespaced(client.clone(), &namespace(number));
        let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
        let handled = Arc::clone(&handled);
        tasks.spawn(events.touched_objects().for_each(move |object| {
            handled.fetch_add(usize::from(object.is_ok()), Relaxed);
            ready(())
        }));
        stores.push(store);
    }
    for store in &stores {
        store.wait_until_ready().await?;
    }
    check(stores.iter().map(|store| store.state().len()).sum(), namespaces)?;
    Ok(async move {
        pending::<()>().await;
        drop((tasks, stores));
    }
    .boxed())
}

fn check(found: usize, namespaces: usize) -> Result<()> {
    ensure!(found == namespaces, "the caches contain {found} objects instead of {namespaces}");
    Ok(())
}

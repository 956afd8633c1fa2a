//! The reflector and the store of kube-runtime.

use std::future::ready;
use std::sync::Arc;

use anyhow::Result;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, Resource};
use kube_runtime::reflector::{self, Store};
use kube_runtime::watcher::{self, Config, Event};
use kube_runtime::{WatchStreamExt as _, watcher as watch};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::RunningInformer;
use super::progress::Progress;
use crate::pods::SENT_LABEL;

/// A type that a reflector can cache.
pub(super) trait Reflected:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Reflected for K where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static
{
}

struct Started<K: Reflected> {
    store: Store<K>,
    task: JoinHandle<()>,
}

/// Starts a reflector with default options: a paged list, then a watch.
pub(super) fn start_list<K: Reflected>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    start::<K>(client, progress, Config::default(), |_| ())
}

/// Starts the same reflector, and removes `managedFields` from each object before the store caches it.
pub(super) fn start_without_managed_fields(
    client: Client,
    progress: Arc<Progress>,
) -> Box<dyn RunningInformer> {
    start::<Pod>(client, progress, Config::default(), |pod| pod.metadata.managed_fields = None)
}

/// Starts a reflector with streaming lists.
pub(super) fn start_streaming(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    start::<Pod>(client, progress, Config::default().streaming_lists(), |_| ())
}

fn start<K: Reflected>(
    client: Client,
    progress: Arc<Progress>,
    config: Config,
    modify: fn(&mut K),
) -> Box<dyn RunningInformer> {
    let (store, writer) = reflector::store();
    let events = watch(Api::<K>::all(client), config).default_backoff().modify(modify).reflect(writer);
    let handled = events.for_each(move |event| {
        handle(event, &progress);
        ready(())
    });
    Box::new(Started { store, task: tokio::spawn(handled) })
}

/// Reports an event. The watcher retries after an error.
fn handle<K: Reflected>(event: Result<Event<K>, watcher::Error>, progress: &Progress) {
    if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
        let metadata = object.meta();
        let sent = || metadata.labels.as_ref()?.get(SENT_LABEL).map(String::as_str);
        progress.record(metadata.resource_version.as_deref().unwrap_or_default(), sent);
    }
}

impl<K: Reflected> RunningInformer for Started<K> {
    fn synced(&mut self) -> BoxFuture<'_, Result<usize>> {
        async {
            self.store.wait_until_ready().await?;
            Ok(self.store.len())
        }
        .boxed()
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            self.task.abort();
            // The result is a cancellation error.
            let _ = self.task.await;
        }
        .boxed()
    }
}

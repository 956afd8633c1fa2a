//! The informer of this project, with any representation.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, Resource};
use kube_informer::{Cached, Event, Informer, ListWatch, ReflectorOptions};

use super::RunningInformer;
use super::progress::Progress;
use crate::pods::SENT_LABEL;

/// The timeout of the initial list.
const SYNC_TIMEOUT: Duration = Duration::from_secs(600);

struct Started<T>(Informer<T>);

/// The node whose Pods [`start_of_node`] caches.
const NODE: &str = "spec.nodeName=node-001";

/// Starts an informer on all Pods.
pub(super) fn start<T: Cached>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer>
where
    <T::Resource as Resource>::DynamicType: Default,
{
    handled(Informer::<T>::builder(Api::all(client)).build(), progress)
}

/// Starts an informer that requests lists with gzip.
pub(super) fn start_gzip<T: Cached>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer>
where
    <T::Resource as Resource>::DynamicType: Default,
{
    handled(Informer::<T>::builder(Api::all(client)).gzip_lists().build(), progress)
}

/// Starts an informer with streaming lists.
pub(super) fn start_streaming(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    let options = ReflectorOptions { streaming_lists: true, ..ReflectorOptions::default() };
    handled(Informer::<Pod>::builder(Api::all(client)).reflector_options(options).build(), progress)
}

/// Starts an informer on the Pods of one node.
pub(super) fn start_of_node(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    let source = ListWatch::<Pod>::new(Api::all(client)).fields(NODE);
    handled(Informer::from_source(source).build(), progress)
}

/// Adds the handler, and starts the informer.
fn handled<T: Cached>(pods: Informer<T>, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    pods.on_event(move |event| {
        if let Event::Added { object, .. } | Event::Updated { new: object, .. } = event {
            progress.record(&object.id.version.to_string(), || object.label(SENT_LABEL));
        }
    })
    .detach();
    pods.start();
    Box::new(Started(pods))
}

impl<T: Cached> RunningInformer for Started<T> {
    fn synced(&mut self) -> BoxFuture<'_, Result<usize>> {
        async {
            self.0.wait_for_sync(SYNC_TIMEOUT).await?;
            Ok(self.0.lister().len())
        }
        .boxed()
    }

    fn relist(&self) -> bool {
        self.0.relist();
        true
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move { self.0.stop().await }.boxed()
    }
}

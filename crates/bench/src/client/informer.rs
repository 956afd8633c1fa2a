//! The informer of this project, with any representation.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube_client::{Client, Resource};
use kube_informer::{Cached, Event, Informer};

use super::RunningInformer;
use super::progress::Progress;
use crate::pods::SENT_LABEL;

/// The timeout of the initial list.
const SYNC_TIMEOUT: Duration = Duration::from_secs(600);

struct Started<T>(Informer<T>);

/// Starts an informer on all Pods.
pub(super) fn start<T: Cached>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer>
where
    <T::Resource as Resource>::DynamicType: Default,
{
    let pods: Informer<T> = Informer::builder(kube_client::Api::all(client)).build();
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

//! The first layers of an informer, each as a program. These programs have no cache.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube_client::client::Body;
use kube_client::{Api, Client, Resource};
use kube_informer::{Cached, Lazy};
use kube_listwatch::{ListAt, ListPart, ListRequest, ListWatch, ListerWatcher, WatchFrom, WatchRequest};
use kube_object::{Delta, NoCache, ResourceVersion};
use kube_reflector::{Reflector, Sink, SinkClosed};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::RunningInformer;
use super::progress::Progress;

/// A running layer. It reports the number of listed objects.
struct Started {
    listed: Option<oneshot::Receiver<usize>>,
    task: JoinHandle<Result<()>>,
}

fn spawn<F>(run: impl FnOnce(oneshot::Sender<usize>) -> F) -> Box<dyn RunningInformer>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (listing, listed) = oneshot::channel();
    Box::new(Started { listed: Some(listed), task: tokio::spawn(run(listing)) })
}

impl RunningInformer for Started {
    fn synced(&mut self) -> BoxFuture<'_, Result<usize>> {
        async {
            let listed = self.listed.take().context("the program is synced")?.await;
            match listed {
                Ok(objects) => Ok(objects),
                Err(_) => (&mut self.task).await?.map(|()| 0),
            }
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

/// Reads the bytes of the events, and counts the lines.
pub(super) fn read(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer> {
    spawn(|listing| async move {
        let pods = ListWatch::<Lazy<Pod>>::new(Api::all(client.clone()));
        let (objects, version) = list(&pods).await?;
        let url = pods.watch_url(&watch_from(version.clone())).context("the source has no URL")?;
        let mut body = client.send(Request::get(url).body(Body::empty())?).await?.into_body();
        let _ = listing.send(objects);
        let mut latest: u64 = version.to_string().parse()?;
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame?.into_data() else { continue };
            for _ in memchr::memchr_iter(b'\n', &bytes) {
                // The server increments the resourceVersion with each event.
                latest += 1;
                progress.record(&latest.to_string(), || None);
            }
        }
        Ok(())
    })
}

/// Reads and decodes the events, and drops the objects.
pub(super) fn list_watch<T: Cached>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer>
where
    <T::Resource as Resource>::DynamicType: Default,
{
    spawn(|listing| async move {
        let pods = ListWatch::<T>::new(Api::all(client));
        let (objects, version) = list(&pods).await?;
        let mut events = pods.watch(watch_from(version), Arc::new(NoCache));
        let _ = listing.send(objects);
        while let Some(batch) = events.next().await {
            for event in batch? {
                if let Some(id) = event.object_id() {
                    progress.record(&id.version.to_string(), || None);
                }
            }
        }
        Ok(())
    })
}

/// Also runs the state machine of the reflector.
pub(super) fn reflector<T: Cached>(client: Client, progress: Arc<Progress>) -> Box<dyn RunningInformer>
where
    <T::Resource as Resource>::DynamicType: Default,
{
    spawn(|listing| async move {
        let sink = Counter { progress, listing: Some(listing), objects: 0 };
        Reflector::new(ListWatch::<T>::new(Api::all(client)), sink).run().await;
        Ok(())
    })
}

/// Counts and drops the deltas of a reflector.
struct Counter {
    progress: Arc<Progress>,
    listing: Option<oneshot::Sender<usize>>,
    objects: usize,
}

impl<T: Send + Sync + 'static> Sink<T> for Counter {
    async fn push(&mut self, deltas: Vec<Delta<T>>) -> Result<(), SinkClosed> {
        for delta in deltas {
            match delta {
                Delta::Page(items) => self.objects += items.len(),
                Delta::End { .. } => {
                    self.listing.take().map(|listing| listing.send(self.objects));
                }
                Delta::Put(_) if self.listing.is_some() => self.objects += 1,
                Delta::Put(entry) => self.progress.record(&entry.id.version.to_string(), || None),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Lists all objects. Returns their number and the resourceVersion of the list.
async fn list<T: Cached>(pods: &ListWatch<T>) -> Result<(usize, ResourceVersion)> {
    let mut objects = 0;
    let mut parts = pods.list(ListRequest { at: ListAt::Consistent, limit: None }, Arc::new(NoCache));
    while let Some(part) = parts.next().await {
        match part? {
            ListPart::Items { items, .. } => objects += items.len(),
            ListPart::OtherSlots { .. } => {}
            ListPart::End(end) => {
                ensure!(end.next.is_none(), "the list has several pages");
                return Ok((objects, end.version));
            }
        }
    }
    anyhow::bail!("the list has no end")
}

fn watch_from(version: ResourceVersion) -> WatchRequest {
    WatchRequest { from: WatchFrom::Version(version), timeout: None, bookmarks: false }
}

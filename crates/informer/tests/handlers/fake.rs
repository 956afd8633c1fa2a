//! A source with lists and events that the test controls.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Error as KubeError, core::Status};
use kube_informer::{Entry, Informer, InformerBuilder, ListWatch, ResourceVersion};
use kube_listwatch::{Decoded, ListPage, ListRequest, ListWatchError, WatchEvent, WatchRequest};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

type Announced = Result<WatchEvent<ConfigMap>, ListWatchError>;

/// The responses of the source.
pub(crate) struct Fake {
    listed: Arc<Mutex<(u64, Vec<ConfigMap>)>>,
    announce: mpsc::Sender<Announced>,
    announced: Arc<AsyncMutex<mpsc::Receiver<Announced>>>,
    watches: Arc<AtomicUsize>,
}

impl Fake {
    /// Returns a source that lists these objects at this version.
    pub(crate) fn listing(version: u64, objects: &[ConfigMap]) -> Self {
        let (announce, announced) = mpsc::channel(1000);
        Self {
            listed: Arc::new(Mutex::new((version, objects.to_vec()))),
            announce,
            announced: Arc::new(AsyncMutex::new(announced)),
            watches: Arc::default(),
        }
    }

    /// Sets the next list.
    pub(crate) fn list_from_now_on(&self, version: u64, objects: &[ConfigMap]) {
        *self.listed.lock() = (version, objects.to_vec());
    }

    pub(crate) async fn added(&self, object: ConfigMap) {
        self.send(Ok(WatchEvent::Added(Decoded::Object(Entry::from_object(object))))).await;
    }

    pub(crate) async fn modified(&self, object: ConfigMap) {
        self.send(Ok(WatchEvent::Modified(Decoded::Object(Entry::from_object(object))))).await;
    }

    pub(crate) async fn deleted(&self, object: ConfigMap) {
        let last = Entry::from_object(object);
        self.send(Ok(WatchEvent::Deleted { id: last.id.clone(), last: Some(last) })).await;
    }

    pub(crate) async fn bookmark(&self, version: u64) {
        self.send(Ok(WatchEvent::Bookmark { version: version.into(), initial_events_end: false })).await;
    }

    pub(crate) async fn fails(&self, error: ListWatchError) {
        self.send(Err(error)).await;
    }

    async fn send(&self, event: Announced) {
        self.announce.send(event).await.unwrap();
    }

    /// Returns the number of opened watches.
    pub(crate) fn watches(&self) -> usize {
        self.watches.load(Ordering::SeqCst)
    }

    /// Returns a builder for an informer of this source.
    pub(crate) fn informer(&self) -> InformerBuilder<ConfigMap> {
        Informer::from_source(self.source()).name("ConfigMaps of a fake")
    }

    /// Returns an informer, and a value that exists as long as the tasks of the informer.
    pub(crate) fn informer_with_canary(&self) -> (Informer<ConfigMap>, Weak<()>) {
        let canary = Arc::new(());
        let held = Arc::downgrade(&canary);
        let informer = self.informer().on_error(move |_| _ = &canary).build();
        (informer, held)
    }

    fn source(&self) -> ListWatch<ConfigMap> {
        let (listed, announced) = (Arc::clone(&self.listed), Arc::clone(&self.announced));
        let watches = Arc::clone(&self.watches);
        let list = move |_: ListRequest| {
            let (version, items) = listed.lock().clone();
            async move { Ok(ListPage { items, version: ResourceVersion::from(version), next: None }) }
        };
        let watch = move |_: WatchRequest| {
            watches.fetch_add(1, Ordering::SeqCst);
            stream::unfold(Arc::clone(&announced), |announced| async move {
                let event = announced.lock().await.recv().await?;
                Some((event, announced))
            })
        };
        ListWatch::from_functions(list, watch)
    }
}

/// Returns a ConfigMap of namespace `ns`.
pub(crate) fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.name = Some(name.into());
    object.metadata.uid = Some(uid.into());
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn failed(code: u16, reason: &str) -> ListWatchError {
    let status = Status { code, reason: reason.into(), ..Status::default() };
    ListWatchError::watch_function(KubeError::Api(Box::new(status)))
}

/// Returns the error for an expired version.
pub(crate) fn expired() -> ListWatchError {
    failed(410, "Expired")
}

/// Returns an internal error of the server.
pub(crate) fn broken() -> ListWatchError {
    failed(500, "InternalError")
}

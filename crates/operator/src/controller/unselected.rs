//! Objects that exist on the server, but that the informer of a controller does not select.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube_client::{
    Error,
    api::{GetParams, ListParams},
    core::{ObjectList, ObjectMeta, PartialObjectMeta, Request},
};
use kube_informer::{ApiObject, Cached, CachedApi, ObjectKey};
use kube_workqueue::Priority;
use tokio::time::sleep;

use super::{Controller, ControllerError, action::Failure, reconcile::Observed, source::StreamSource};
use crate::{shards::gate::SlotGate, write::requests::send};

/// The number of objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// The delay before a failed list is repeated.
const LIST_RETRY: Duration = Duration::from_secs(10);

/// The maximum wait for an object that the cache does not contain yet.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Lists the keys of objects that the informer of a controller does not select.
pub(super) struct UnselectedKeys {
    /// The name of the source in the reasons of reconciles.
    source: Arc<str>,
    /// The path of the informer.
    path: String,
    keys: Box<dyn Fn() -> BoxStream<'static, ObjectKey> + Send + Sync>,
}

impl UnselectedKeys {
    /// Returns the URL path of the objects, which the controller also reads one by one.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns a source that lists once. With a gate, it lists whenever slots become ready, and queues only
    /// the keys in these slots.
    pub(super) fn into_source(self, gate: Option<&SlotGate>) -> StreamSource<BoxStream<'static, ObjectKey>> {
        let Self { source: name, keys, .. } = self;
        let keys = match gate {
            None => keys(),
            Some(gate) => gate.listed_keys(keys).boxed(),
        };
        StreamSource { name, keys, priority: Priority::LOW }
    }
}

/// An object that the informer selects is not in its cache.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot reconcile {key}: the cache of {informer} does not contain it after {READ_TIMEOUT:?}; check the watch of this informer"
)]
struct CacheBehind {
    informer: String,
    key: ObjectKey,
}

/// The `Api` is for another namespace than the object.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to read {key}: the `CachedApi` of `reconcile_unselected` is for another namespace; use an `Api` for all namespaces"
)]
struct OtherNamespace {
    key: ObjectKey,
}

impl<K> Controller<K>
where
    K: Cached<Resource = K> + ApiObject,
{
    /// Includes objects that have the finalizer `finalizer`, but that the informer does not select.
    /// The informer must be the informer of `api`, with a label selector or a field selector.
    ///
    /// An object can leave the selection without being deleted, for example because a label is removed. By
    /// default, the reconciler then observes [`Observed::Absent`], as after a deletion. With this
    /// setting, it observes [`Observed::Unselected`] with the object on the server, and can clean up. See
    /// [`Finalizer::reconcile`](crate::Finalizer::reconcile).
    ///
    /// - If a key is not in the cache, the controller reads the object from the server before the
    ///   reconcile. This requires the permission to get the object.
    /// - When the controller starts as the leader, it lists the metadata of all objects once, in pages of
    ///   500. It finds the objects that left the selection while no process was the leader. With shards, it
    ///   repeats this list whenever the process claims slots.
    ///
    /// If the informer covers one namespace, the objects of other namespaces are not included. `api` must be
    /// for the same namespace, or for all namespaces.
    ///
    /// # Errors
    /// Returns [`ControllerError::OtherInformer`] if the controller does not reconcile exactly the objects of
    /// the informer of `api`.
    pub fn reconcile_unselected(
        mut self,
        api: &CachedApi<K>,
        finalizer: impl Into<String>,
    ) -> Result<Self, ControllerError> {
        if self.informers.single_id() != Some(api.informer().id()) {
            let (controller, informer) =
                (self.core.options.name.to_string(), api.informer().name().to_owned());
            return Err(ControllerError::OtherInformer { controller, informer });
        }
        let reader = api.clone();
        self.observe_uncached = Some(Arc::new(move |key| {
            let api = reader.clone();
            async move { observe(&api, &key).await }.boxed()
        }));
        let finalizer = finalizer.into();
        let path = api.informer().status().path;
        let (source, api) = (format!("finalizer {finalizer}").into(), api.clone());
        let keys = Box::new(move || objects_with(api.clone(), finalizer.clone()).boxed());
        self.unselected.push(UnselectedKeys { source, path, keys });
        Ok(self)
    }
}

/// Observes an object that is not in the cache.
async fn observe<K: Cached<Resource = K> + ApiObject>(
    api: &CachedApi<K>,
    key: &ObjectKey,
) -> Result<Observed<K>, Failure> {
    let namespace = api.informer().namespace();
    if namespace.is_some() && namespace.as_deref() != key.namespace() {
        return Ok(Observed::Absent); // the informer does not cover this namespace
    }
    if api.api().namespace().is_some() && api.api().namespace() != key.namespace() {
        return Err(OtherNamespace { key: key.clone() }.into());
    }
    let url = collection_url(api.api().resource_url(), key.namespace());
    let request = Request::new(url.clone()).get(key.name(), &GetParams::default());
    let object: K = match send(api.api(), "get", request).await {
        Ok(object) => object,
        Err(Error::Api(status)) if status.is_not_found() => return Ok(Observed::Absent),
        Err(error) => return Err(error.into()),
    };
    if !is_selected(api, &url, &object).await? {
        return Ok(Observed::Unselected(Arc::new(object)));
    }
    // The cache is behind the server. Wait for the object, as after a write of this process.
    api.record_write(&object);
    api.informer().wait_for_writes(Some(key), READ_TIMEOUT).await?;
    match api.informer().lister().get_by_key(key) {
        Some(object) => Ok(Observed::Present(object)),
        // The object was deleted or left the selection during the wait. The retry reads it again.
        None => Err(CacheBehind { informer: api.informer().name().to_owned(), key: key.clone() }.into()),
    }
}

/// Returns whether the informer selects the object. If the selectors are not simple, the server decides.
async fn is_selected<K>(api: &CachedApi<K>, url: &str, object: &K) -> kube_client::Result<bool>
where
    K: Cached<Resource = K> + ApiObject,
{
    if let Some(selects) = api.selects(object) {
        return Ok(selects);
    }
    let (labels, fields) = api.informer().selectors();
    let name = object.meta().name.as_deref().unwrap_or_default();
    let fields: Vec<String> = fields.into_iter().chain([format!("metadata.name={name}")]).collect();
    let params = ListParams { label_selector: labels, ..ListParams::default().fields(&fields.join(",")) };
    let list: ObjectList<PartialObjectMeta<K>> =
        send(api.api(), "list", Request::new(url).list_metadata(&params)).await?;
    Ok(!list.items.is_empty())
}

/// Lists the keys of the objects that have a finalizer and are not in the cache.
fn objects_with<K>(api: CachedApi<K>, finalizer: String) -> impl Stream<Item = ObjectKey> + Send
where
    K: Cached<Resource = K> + ApiObject,
{
    let pages = stream::unfold((api, Some(None)), |(api, next): (_, Option<Option<String>>)| async {
        let token = next?;
        let (items, next) = page(&api, token).await;
        let lister = api.informer().lister();
        Some((stream::iter(items.into_iter().map(move |meta| (meta, lister.clone()))), (api, next)))
    });
    pages.flatten().filter_map(move |(meta, lister)| {
        let has_finalizer = meta.finalizers.iter().flatten().any(|name| *name == finalizer);
        let key = ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let is_wanted = has_finalizer && lister.get_by_key(&key).is_none();
        std::future::ready(is_wanted.then_some(key))
    })
}

/// Returns a page of the list, and the token of the next page. Retries until the server responds. If the
/// token expired, returns the first page again.
async fn page<K>(api: &CachedApi<K>, mut token: Option<String>) -> (Vec<ObjectMeta>, Option<Option<String>>)
where
    K: Cached<Resource = K> + ApiObject,
{
    let namespace = api.informer().namespace();
    let url = collection_url(api.api().resource_url(), namespace.as_deref());
    loop {
        let params =
            ListParams { limit: Some(PAGE_SIZE), continue_token: token.clone(), ..Default::default() };
        let request = Request::new(url.clone()).list_metadata(&params);
        match send::<K, ObjectList<PartialObjectMeta<K>>>(api.api(), "list", request).await {
            Ok(list) => {
                let next = list.metadata.continue_.filter(|token| !token.is_empty());
                let items = list.items.into_iter().map(|item| item.metadata).collect();
                return (items, next.map(Some));
            }
            Err(Error::Api(status)) if status.code == 410 && token.is_some() => {
                token = None;
                sleep(LIST_RETRY).await;
            }
            Err(error) => {
                let error = Failure::from(error);
                let informer = api.informer().name();
                tracing::warn!(%informer, %error, retry_after = ?LIST_RETRY, "failed to list the objects with the finalizer; retrying");
                sleep(LIST_RETRY).await;
            }
        }
    }
}

/// Returns the URL of the collection of a namespace.
fn collection_url(url: &str, namespace: Option<&str>) -> String {
    match (namespace, url.rsplit_once('/')) {
        (Some(namespace), Some((parent, plural))) if !url.contains("/namespaces/") => {
            format!("{parent}/namespaces/{namespace}/{plural}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_a_collection_contains_the_namespace_of_the_object() {
        let (namespaced, cluster) = (Some("shop"), None);
        assert_eq!(collection_url("/api/v1/secrets", namespaced), "/api/v1/namespaces/shop/secrets");
        let url = "/apis/apps/v1/namespaces/shop/deployments";
        assert_eq!(collection_url(url, namespaced), url);
        assert_eq!(collection_url("/api/v1/nodes", cluster), "/api/v1/nodes");
    }
}

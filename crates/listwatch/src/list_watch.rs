//! `ListWatch`: what is listed and watched, and with which options.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use kube_client::{Api, Client, Resource};
use kube_object::{CacheProbe, Cached, DecodeContext, Object, TypeMeta};

use crate::{
    Coverage, ListOptions, ListPart, ListRequest, ListWatchError, ListerWatcher, WatchEvent, WatchRequest,
    functions::Functions,
    http::Http,
    transform::{Transform, Transforming},
};

/// An object larger than this is refused unless [`ListWatch::max_object_bytes`] says otherwise.
/// kube-apiserver accepts requests of 3 MiB and etcd 1.5 MiB by default; managedFields and
/// defaults add to an object after that.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Lists and watches one resource: client-go's type of the same name.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_client::{Api, Client};
/// # use kube_listwatch::ListWatch;
/// # fn example(client: Client) {
/// let pods = ListWatch::<Pod>::new(Api::namespaced(client, "shop"))
///     .fields("spec.nodeName=node-1")
///     .options(|options| options.label_selector = Some("app=web".into()));
/// # }
/// ```
pub struct ListWatch<T> {
    source: Source<T>,
    chunking: bool,
}

enum Source<T> {
    Http(Arc<Http<T>>),
    Functions(Functions<T>),
}

impl<T: Cached> ListWatch<T> {
    /// Lists and watches what this `Api` covers: its resource, its namespace, its client.
    pub fn new(api: Api<T::Resource>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
    {
        Self::dynamic(api, &Default::default())
    }

    /// The same for a type known only at run time, whose `ApiResource` the `Api` does not give up.
    pub fn dynamic(api: Api<T::Resource>, resource: &<T::Resource as Resource>::DynamicType) -> Self {
        let path = api.resource_url().to_owned();
        Self::at(api.into_client(), path, resource)
    }

    /// client-go's `NewListWatchFromClient`: a client, a resource (`&()` where the type knows it),
    /// a namespace (`None` or an empty one for all, and for cluster-scoped resources) and a field
    /// selector.
    pub fn from_client(
        client: Client,
        resource: &<T::Resource as Resource>::DynamicType,
        namespace: Option<&str>,
        field_selector: &str,
    ) -> Self {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let path = T::Resource::url_path(resource, namespace);
        Self::at(client, path, resource).fields(field_selector)
    }

    fn at(client: Client, path: String, resource: &<T::Resource as Resource>::DynamicType) -> Self {
        let kind = TypeMeta {
            api_version: T::Resource::api_version(resource).into_owned(),
            kind: T::Resource::kind(resource).into_owned(),
        };
        let http = Http {
            client,
            path,
            asked: DecodeContext { metadata_only: T::Resource::metadata_api(), ..DecodeContext::new(kind) },
            decoder: Arc::new(T::Decoder::default()),
            max_object_bytes: MAX_OBJECT_BYTES,
            options: ListOptions::default(),
            modifiers: Vec::new(),
        };
        Self { source: Source::Http(Arc::new(http)), chunking: true }
    }
}

impl<T: 'static> ListWatch<T> {
    pub(crate) fn from_parts(functions: Functions<T>) -> Self {
        Self { source: Source::Functions(functions), chunking: true }
    }

    /// Restricts to objects with these labels, in the syntax of the API: `app=web,tier!=cache`.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        self.modify(|http| http.options.label_selector = Some(selector.to_owned()))
    }

    /// Restricts to objects with these fields, in the syntax of the API: `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        self.modify(|http| http.options.field_selector = Some(selector.to_owned()))
    }

    /// client-go's `NewFilteredListWatchFromClient`: a function that may change the options of
    /// each request, LIST and WATCH alike. Called for each request; several are called in order.
    #[must_use]
    pub fn options(self, modifier: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.modify(|http| http.modifiers.push(Arc::new(modifier)))
    }

    /// The largest object that is accepted, in bytes; 16 MiB unless set. A larger one is
    /// [`ListWatchError::TooLong`].
    ///
    /// Lists are compressed where the client asks for it, as that of kube-client does with its feature `gzip` and not
    /// without; watches never are. What counts is the size after that, and no more is unpacked.
    #[must_use]
    pub fn max_object_bytes(self, limit: usize) -> Self {
        self.modify(|http| http.max_object_bytes = limit)
    }

    /// Keeps `metadata.managedFields`, which are cut out of each object before it is decoded unless this is called. They
    /// say which program owns which field, are half of many an object, and matter to who computes server-side applies. An
    /// object that is written back without them changes nothing about them: kube-apiserver then keeps its own.
    #[must_use]
    pub fn keep_managed_fields(self) -> Self {
        self.modify(|http| http.asked.keep_managed_fields = true)
    }

    /// A function that changes each object right after it was decoded, before a cache, an index or a handler sees it:
    /// client-go's `SetTransform`. Mostly it drops what the program does not need, to save memory. Several are called
    /// in order.
    ///
    /// It is called once for each version of an object that was decoded, the last state of a deleted one included; not
    /// for what is cached already and listed again, and not for a resync. Who an object is (its key, uid and version) is
    /// kept apart from it and can't be changed by it. It runs on the task that reads from the server: it must not block.
    ///
    /// Where it fails or panics the object counts as undecodable: it is reported with its key and this reason, and the
    /// last good version stays and is marked stale.
    #[must_use]
    pub fn transform(
        mut self,
        transform: impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        let transform: Transform<T> = Arc::new(transform);
        if let Source::Functions(functions) = &mut self.source {
            functions.transform(transform);
            return self;
        }
        self.modify(|http| {
            let decoder = Arc::clone(&http.decoder);
            http.decoder = Arc::new(Transforming { decoder, transform });
        })
    }

    /// Asks for each list in one answer, whatever page size the reflector wants.
    #[must_use]
    pub fn disable_chunking(mut self) -> Self {
        self.chunking = false;
        self
    }

    /// Functions bring their own options: there is nothing to modify for them.
    fn modify(mut self, change: impl FnOnce(&mut Http<T>)) -> Self {
        if let Source::Http(http) = &mut self.source {
            change(Arc::make_mut(http));
        }
        self
    }

    /// Path and query of a list, as it will be sent; `None` for functions.
    pub fn list_url(&self, request: &ListRequest) -> Option<String> {
        match &self.source {
            Source::Http(http) => Some(self.chunked(request.clone()).url(&http.path, &http.options())),
            Source::Functions(_) => None,
        }
    }

    /// Path and query of a watch, as it will be sent; `None` for functions.
    pub fn watch_url(&self, request: &WatchRequest) -> Option<String> {
        match &self.source {
            Source::Http(http) => Some(request.url(&http.path, &http.options())),
            Source::Functions(_) => None,
        }
    }

    fn chunked(&self, request: ListRequest) -> ListRequest {
        ListRequest { limit: request.limit.filter(|_| self.chunking), ..request }
    }
}

impl<T: Object> ListerWatcher<T> for ListWatch<T> {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        let request = self.chunked(request);
        match &self.source {
            Source::Http(http) => http.list(&request, known),
            Source::Functions(functions) => functions.list(request, known),
        }
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        match &self.source {
            Source::Http(http) => http.watch(&request, known),
            Source::Functions(functions) => functions.watch(request),
        }
    }

    /// Functions were written for lists and watches; an unknown kind of watch could not fail well.
    fn streams_lists(&self) -> bool {
        matches!(self.source, Source::Http(_))
    }

    fn coverage(&self) -> Option<Coverage> {
        match &self.source {
            Source::Http(http) => {
                Some(Coverage { namespace: namespace_of(&http.path), options: http.options() })
            }
            Source::Functions(_) => None,
        }
    }

    fn path(&self) -> String {
        match &self.source {
            Source::Http(http) => http.path.clone(),
            Source::Functions(_) => "(two functions)".to_owned(),
        }
    }
}

/// The namespace in the path of a resource: `/api/v1/namespaces/shop/pods`, and none in `/api/v1/namespaces`.
fn namespace_of(path: &str) -> Option<String> {
    let (_, below) = path.split_once("/namespaces/")?;
    let (namespace, _) = below.split_once('/')?;
    Some(namespace.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_of_a_path_is_that_of_its_objects() {
        for (path, namespace) in [
            ("/api/v1/namespaces/shop/pods", Some("shop")),
            ("/apis/apps/v1/namespaces/shop/deployments", Some("shop")),
            ("/api/v1/pods", None),
            ("/api/v1/namespaces", None),
            ("/apis/namespaces.example/v1/things", None),
        ] {
            assert_eq!(namespace_of(path).as_deref(), namespace, "{path}");
        }
    }
}

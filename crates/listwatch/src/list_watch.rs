//! `ListWatch`: a source of objects and its options.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use kube_client::{Api, Client, Resource};
use kube_object::{CacheProbe, Cached, DecodeContext, Object, Shard, TypeMeta};

use crate::{
    Coverage, ListOptions, ListPart, ListRequest, ListWatchError, ListerWatcher, WatchEvent, WatchRequest,
    functions::Functions,
    http::Http,
    transform::{Transform, Transforming},
};

/// The default of [`ListWatch::max_object_bytes`].
///
/// By default, kube-apiserver accepts requests of 3 MiB, and etcd accepts 1.5 MiB. managedFields and
/// defaulted fields increase the size of an object after these checks.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Lists and watches one resource, like client-go's `ListWatch`.
///
/// ```no_run
/// # fn example(client: kube_client::Client) {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_client::Api;
/// use kube_listwatch::ListWatch;
///
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
    /// Creates a source that lists and watches the objects of an `Api`, with the resource, namespace and
    /// client of the `Api`.
    pub fn new(api: Api<T::Resource>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
    {
        Self::dynamic(api, &Default::default())
    }

    /// Creates a source that lists and watches the objects of an `Api` whose type is known only at run
    /// time.
    ///
    /// `resource` must be the resource with which `api` was created. An `Api` does not expose its
    /// resource, so the caller must pass it again.
    pub fn dynamic(api: Api<T::Resource>, resource: &<T::Resource as Resource>::DynamicType) -> Self {
        let path = api.resource_url().to_owned();
        Self::at(api.into_client(), path, resource)
    }

    /// Creates a source that lists and watches a resource with a client, like client-go's
    /// `NewListWatchFromClient`.
    ///
    /// For a static type such as `Pod`, pass `&()` as the resource. For all namespaces and for
    /// cluster-scoped resources, pass `None` or an empty namespace. An empty field selector selects all
    /// objects.
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
            context: DecodeContext { metadata_only: T::Resource::metadata_api(), ..DecodeContext::new(kind) },
            decoder: Arc::new(T::Decoder::default()),
            max_object_bytes: MAX_OBJECT_BYTES,
            gzip_lists: false,
            gzip_failed: Arc::default(),
            options: ListOptions::default(),
            modifiers: Vec::new(),
            shard: None,
            slot_label: None,
        };
        Self { source: Source::Http(Arc::new(http)), chunking: true }
    }
}

impl<T: 'static> ListWatch<T> {
    pub(crate) fn from_parts(functions: Functions<T>) -> Self {
        Self { source: Source::Functions(functions), chunking: true }
    }

    /// Selects objects by labels, in the syntax of the API: `app=web,tier!=cache`.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        self.modify(|http| http.options.label_selector = Some(selector.to_owned()))
    }

    /// Selects objects by fields, in the syntax of the API: `spec.nodeName=node-1`.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        self.modify(|http| http.options.field_selector = Some(selector.to_owned()))
    }

    /// Selects objects whose label with this key contains the number of their slot. If a sharded informer
    /// uses this source, the server then sends only the objects of its slots, with any version of Kubernetes.
    ///
    /// Objects without the label are not selected. The client also checks the slot of each object, so an
    /// object whose label contains another slot is not cached.
    #[must_use]
    pub fn slot_label(self, label: &str) -> Self {
        self.modify(|http| http.slot_label = Some(label.to_owned()))
    }

    /// Adds a function that can change the options of each LIST and WATCH, like client-go's
    /// `NewFilteredListWatchFromClient`.
    ///
    /// The function runs for each request. Several functions run in the order of their addition.
    #[must_use]
    pub fn options(self, modifier: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.modify(|http| http.modifiers.push(Arc::new(modifier)))
    }

    /// Sets the maximum size of an object in bytes. The default is 16 MiB. A larger object causes
    /// [`ListWatchError::TooLong`].
    ///
    /// The server can compress lists with [`ListWatch::gzip_lists`], or with the feature `gzip` of
    /// kube-client. The limit applies to the decompressed size, and decompression stops at the limit.
    #[must_use]
    pub fn max_object_bytes(self, limit: usize) -> Self {
        self.modify(|http| http.max_object_bytes = limit)
    }

    /// Requests lists with gzip. By default, lists are not compressed.
    ///
    /// Use this option on slow networks. Lists of Pods become about 8 times smaller, and the server needs
    /// about 30 % more CPU time for them. At 20 MB/s, a program starts about four times faster. At 100 MB/s,
    /// the option saves no time. Objects that compress badly can cost the server three times the CPU time.
    ///
    /// kube-apiserver compresses lists above 128 KiB. It compresses streaming lists since Kubernetes 1.37,
    /// and never compresses other watches. Do not combine this option with streaming lists if the feature
    /// `gzip` of kube-client is enabled. That feature decompresses only the first object of a streaming list.
    ///
    /// A list is decompressed while it arrives, in chunks of at most 64 KiB. A corrupt or truncated list
    /// causes [`ListWatchError::Gzip`]. A list also fails if its decompressed size exceeds
    /// [`ListWatch::max_object_bytes`] plus 200 times its compressed size. Further requests do not request
    /// gzip, except after a truncated list.
    #[must_use]
    pub fn gzip_lists(self) -> Self {
        self.modify(|http| http.gzip_lists = true)
    }

    /// Keeps `metadata.managedFields`. By default, this crate removes the managed fields before it
    /// decodes an object.
    ///
    /// Managed fields record the fields that each program owns, and often take half of the size of an
    /// object. A program needs them only to compute the changes of a server-side apply. A program can
    /// update an object without managed fields, because kube-apiserver then keeps the stored managed
    /// fields. The write helpers of kube-operator, for example `create_or_update`, return objects without
    /// managed fields.
    #[must_use]
    pub fn keep_managed_fields(self) -> Self {
        self.modify(|http| http.context.keep_managed_fields = true)
    }

    /// Adds a function that changes each decoded object before it is cached, like client-go's
    /// `SetTransform`.
    ///
    /// Use a transform to remove unneeded fields and save memory. Several transforms run in the order of
    /// their addition. A transform runs once for each decoded state of an object, and for the last state
    /// of a deleted object. It does not run for an unchanged object of a list, or for a resync. It
    /// cannot change the key, uid or resourceVersion of an object. It runs on the task that reads the
    /// response, so it must not block.
    ///
    /// If a transform fails or panics, the object counts as undecodable. The log contains the key of the
    /// object and the reason. The last decoded state stays in the cache and is marked stale. If the object
    /// was deleted, it is removed from the cache, and the delete event contains its last cached state.
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

    /// Requests each list in one response. The page size of the reflector then has no effect.
    ///
    /// The method does not change requests for the latest state with a limit of one object. After a
    /// failed watch, the reflector uses such a request to check the resourceVersion of the server.
    #[must_use]
    pub fn disable_chunking(mut self) -> Self {
        self.chunking = false;
        self
    }

    /// Changes the HTTP source. Does not change a source from two functions, because it has no options.
    fn modify(mut self, change: impl FnOnce(&mut Http<T>)) -> Self {
        if let Source::Http(http) = &mut self.source {
            change(Arc::make_mut(http));
        }
        self
    }

    /// Returns the path and query of a list. Returns `None` for a source that was created with
    /// [`ListWatch::from_functions`].
    pub fn list_url(&self, request: &ListRequest) -> Option<String> {
        match &self.source {
            Source::Http(http) => {
                Some(self.chunked(request.clone()).url(&http.path, &http.with_slots(http.options())))
            }
            Source::Functions(_) => None,
        }
    }

    /// Returns the path and query of a watch. Returns `None` for a source that was created with
    /// [`ListWatch::from_functions`].
    pub fn watch_url(&self, request: &WatchRequest) -> Option<String> {
        match &self.source {
            Source::Http(http) => Some(request.url(&http.path, &http.with_slots(http.options()))),
            Source::Functions(_) => None,
        }
    }

    fn chunked(&self, request: ListRequest) -> ListRequest {
        let keeps_limit = self.chunking || request.is_version_check();
        ListRequest { limit: request.limit.filter(|_| keeps_limit), ..request }
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

    /// Returns a source that sends the selection of slots and skips the objects of other slots before they
    /// are decoded. Returns `None` for a source from two functions.
    fn for_shard(&self, shard: &Shard) -> Option<Arc<dyn ListerWatcher<T>>> {
        let Source::Http(http) = &self.source else { return None };
        let http = Http { shard: Some(*shard), ..Http::clone(http) };
        Some(Arc::new(Self { source: Source::Http(Arc::new(http)), chunking: self.chunking }))
    }

    /// Returns `false` for a source from two functions, because such functions may ignore the parameters
    /// of a streaming list.
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

    fn decode_context(&self) -> Option<&DecodeContext> {
        match &self.source {
            Source::Http(http) => Some(&http.context),
            Source::Functions(_) => None,
        }
    }

    fn path(&self) -> String {
        match &self.source {
            Source::Http(http) => http.path.clone(),
            Source::Functions(_) => "(list and watch functions)".to_owned(),
        }
    }
}

/// Returns the namespace in the path of a resource, for example `shop` in
/// `/api/v1/namespaces/shop/pods`.
fn namespace_of(path: &str) -> Option<String> {
    let (_, below) = path.split_once("/namespaces/")?;
    let (namespace, _) = below.split_once('/')?;
    Some(namespace.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_namespaced_resource_contains_namespace() {
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

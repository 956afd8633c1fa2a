//! `InformerFactory`: shares the informers of one cluster by type and selection.

mod any_informer;
mod erased_informer;
mod error;
mod multi_namespace;
mod registry;
mod scope;
mod selection;
mod selectors;
mod shared_handler;

use std::{
    any::{Any, TypeId},
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::try_join_all;
use kube_client::{Client, Resource};
use kube_listwatch::{ListOptions, ListWatch, ListWatchError};
use kube_object::{Cached, Object};
use kube_reflector::ReflectorOptions;
use tokio::{runtime::Handle, sync::watch};

use crate::{
    CacheSyncError, Informer, InformerStatus, WaitForLatestError, config::InformerSettings, slots::Division,
    sync,
};
use registry::Registry;
use selection::SelectedSlots;

pub(crate) use registry::FactoryLink;

pub use any_informer::{AnyInformer, WeakAnyInformer};
pub use error::FactoryError;
pub use multi_namespace::{MultiNamespaceInformer, MultiNamespaceRegistration};
pub use scope::Scope;
pub use selection::Selection;

type Modifier = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;
type Transform<T> = Arc<dyn Fn(&mut T) -> Result<(), &'static str> + Send + Sync>;

/// Creates informers and shares them. All callers that request the same type and selection receive
/// the same informer. Equivalent to client-go's `SharedInformerFactory`.
///
/// The factory is cheap to clone, and all clones share their informers. The methods that change the
/// configuration return a factory without informers, so call them before you clone the factory or
/// request an informer.
///
/// The factory keeps an informer alive until one of these events:
/// - [`Selection::remove`] removes the informer.
/// - [`InformerFactory::shutdown`] shuts down the factory.
/// - All clones and all selections of the factory are dropped.
///
/// Informers of [`Selection::ref_counted_informer`] are an exception. The factory does not keep
/// these informers alive.
#[derive(Clone)]
pub struct InformerFactory {
    config: FactoryConfig,
    registry: Arc<Registry>,
}

#[derive(Clone)]
struct FactoryConfig {
    client: Client,
    namespace: Option<String>,
    options: ListOptions,
    modifiers: Vec<Modifier>,
    /// The transforms by the id of their type `T`. Each value is a `Transform<T>`.
    transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The types for which the informers keep managedFields.
    keep_managed_fields: HashSet<TypeId>,
    gzip_lists: bool,
    settings: InformerSettings,
}

impl InformerFactory {
    /// Creates a factory for the cluster of this client. Its informers cache the objects of all
    /// namespaces.
    pub fn new(client: Client) -> Self {
        let config = FactoryConfig {
            client,
            namespace: None,
            options: ListOptions::default(),
            modifiers: Vec::new(),
            transforms: HashMap::new(),
            keep_managed_fields: HashSet::new(),
            gzip_lists: false,
            settings: InformerSettings::default(),
        };
        Self { config, registry: Arc::default() }
    }

    /// Sets the name of the cluster in the log lines of the informers, for a program with several clusters.
    #[must_use]
    pub fn cluster_name(self, name: impl Into<Arc<str>>) -> Self {
        self.with_config(|config| config.settings.cluster = Some(name.into()))
    }

    /// Restricts the informers of namespaced types to this namespace. An empty name selects all
    /// namespaces.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.with_config(|config| config.namespace = namespace)
    }

    /// Restricts the informers to objects that match this label selector, for example `app=web`.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.with_config(|config| config.options.label_selector = non_empty(selector.into()))
    }

    /// Restricts the informers to objects that match this field selector.
    ///
    /// Every type supports the field `metadata.name`, and most namespaced types also support
    /// `metadata.namespace`. The server decides which other fields a type supports.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.with_config(|config| config.options.field_selector = non_empty(selector.into()))
    }

    /// Adds a function that can change the options of each LIST and WATCH before the request is
    /// sent. Equivalent to client-go's `WithTweakListOptions`.
    #[must_use]
    pub fn tweak_list_options(self, modifier: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.with_config(|config| config.modifiers.push(Arc::new(modifier)))
    }

    /// Sets a function that changes each object of the type `T` before the object is cached. See
    /// [`ListWatch::transform`]. A second call for the same type replaces the first function.
    #[must_use]
    pub fn transform<T: Object>(
        self,
        transform: impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        let transform: Transform<T> = Arc::new(transform);
        self.with_config(|config| _ = config.transforms.insert(TypeId::of::<T>(), Arc::new(transform)))
    }

    /// Keeps `metadata.managedFields` of the objects of the type `T`. By default, the informers
    /// remove this field. See [`ListWatch::keep_managed_fields`].
    #[must_use]
    pub fn keep_managed_fields<T: Object>(self) -> Self {
        self.with_config(|config| _ = config.keep_managed_fields.insert(TypeId::of::<T>()))
    }

    /// Requests the lists of all informers with gzip, for a slow network to the server. By default,
    /// lists are not compressed. See [`ListWatch::gzip_lists`].
    #[must_use]
    pub fn gzip_lists(self) -> Self {
        self.with_config(|config| config.gzip_lists = true)
    }

    /// Sets the resync period of all handlers that are registered without a period. By default,
    /// there is no resync. See
    /// [`InformerBuilder::default_resync`](crate::InformerBuilder::default_resync).
    #[must_use]
    pub fn default_resync(self, period: Duration) -> Self {
        self.with_config(|config| config.settings.resync = Some(period))
    }

    /// Sets the options of each informer's reflector, for example the page size, the timeouts and
    /// the delays before retries.
    #[must_use]
    pub fn reflector_options(self, options: ReflectorOptions) -> Self {
        self.with_config(|config| config.settings.reflector = options)
    }

    /// Sets a function that each informer calls after a failed LIST or WATCH.
    ///
    /// The function runs on the task of the informer and must not block.
    #[must_use]
    pub fn on_error(self, on_error: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.with_config(|config| config.settings.on_error = Some(Arc::new(on_error)))
    }

    /// Sets the coalesce threshold. If a handler has at least this number of pending events,
    /// further events are coalesced. The default is 1024.
    ///
    /// For a handler of [`Informer::add_backpressured_handler`], events are never coalesced.
    /// Instead, the cache waits while the handler has at least this number of pending events. For
    /// such a handler, a threshold of zero is treated as one.
    #[must_use]
    pub fn coalesce_threshold(self, events: usize) -> Self {
        self.with_config(|config| config.settings.coalesce_threshold = events)
    }

    /// Sets the maximum number of objects in the queue between reflector and store. Each informer
    /// has its own queue. The default is 1024.
    #[must_use]
    pub fn queue_capacity(self, objects: usize) -> Self {
        self.with_config(|config| config.settings.queue_capacity = objects)
    }

    pub(crate) fn with_division(self, division: Division) -> Self {
        self.with_config(|config| config.settings.division = Some(division))
    }

    /// Changes the configuration. The result does not share informers with the previous factory.
    fn with_config(mut self, change: impl FnOnce(&mut FactoryConfig)) -> Self {
        change(&mut self.config);
        self.registry = Arc::default();
        self
    }

    /// Builds an informer of a type with these options, in one namespace or in all.
    fn build<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        namespace: Option<&str>,
        options: ListOptions,
        slots: &SelectedSlots,
        link: FactoryLink,
    ) -> Informer<T> {
        let name = link.informer_name();
        let config = self.config.clone();
        let mut source = ListWatch::<T>::from_client(config.client, resource, namespace, "")
            .options(move |request| *request = options.clone());
        for modifier in config.modifiers {
            source = source.options(move |request| modifier(request));
        }
        if config.keep_managed_fields.contains(&TypeId::of::<T>()) {
            source = source.keep_managed_fields();
        }
        if config.gzip_lists {
            source = source.gzip_lists();
        }
        if let SelectedSlots::Labelled(label) = slots {
            source = source.slot_label(label);
        }
        let transform = config.transforms.get(&TypeId::of::<T>());
        let transform = transform.and_then(|transform| transform.downcast_ref::<Transform<T>>()).cloned();
        if let Some(transform) = transform {
            source = source.transform(move |object| transform(object));
        }
        let mut builder = Informer::from_source(source).name(name);
        builder.settings = config.settings;
        builder.settings.division = builder.settings.division.filter(|_| *slots != SelectedSlots::All);
        builder.factory = Some(link);
        builder.build()
    }

    /// Adds an informer that was created with a builder or by another factory.
    ///
    /// The methods `start`, `wait_for_sync`, `status` and `shutdown` of the factory then include
    /// the adopted informer. [`InformerFactory::informer`] never returns an adopted informer. The
    /// call has no effect if the factory already contains the informer.
    ///
    /// # Errors
    /// Returns [`FactoryError::ShutDown`] if the factory is shut down.
    pub fn adopt<T: Object>(&self, informer: &Informer<T>) -> Result<(), FactoryError> {
        self.registry.adopt(informer)
    }

    /// Starts every informer of the factory. Informers that are requested later start immediately.
    ///
    /// An informer that is created later runs on the tokio runtime in which it is created. If it is
    /// created outside of a runtime, it runs on the runtime in which this method was called.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn start(&self) {
        self.registry.start(Handle::current());
    }

    /// Waits until every informer has its initial list in its store.
    ///
    /// # Errors
    /// Returns a [`CacheSyncError`] if an informer is not synced within the timeout, or if an
    /// informer is stopped. If the server rejects the list of an informer as invalid (400, 414, 422
    /// or 431), the method returns without waiting for the timeout.
    ///
    /// The error contains all informers that are not synced, sorted by name, each with its last
    /// failure. Informers that were not stopped continue to retry.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), CacheSyncError> {
        self.wait_for_sync_of(timeout, |_| true).await
    }

    /// Does the same as [`wait_for_sync`](Self::wait_for_sync), but only for selected informers. The
    /// method calls `is_selected` once for each informer that exists at the first poll. If it selects
    /// none, the method returns `Ok`.
    ///
    /// # Errors
    /// Returns the errors of [`InformerFactory::wait_for_sync`], only for the selected informers.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync_of(
        &self,
        timeout: Duration,
        is_selected: impl Fn(&InformerStatus) -> bool,
    ) -> Result<(), CacheSyncError> {
        let timeout = sync::effective_timeout(timeout);
        let mut informers = self.registry.all();
        informers.retain(|informer| is_selected(&informer.status()));
        let waits = informers.iter().map(|informer| informer.wait_for_sync(timeout));
        let unsynced = || informers.iter().filter_map(|informer| informer.unsynced()).collect();
        sync::wait_for_all(timeout, waits, unsynced).await
    }

    /// Waits until the caches of all synced informers contain all writes that the server has accepted
    /// before this call. See [`Informer::wait_for_latest`](crate::Informer::wait_for_latest), which costs
    /// some requests.
    ///
    /// # Errors
    /// Returns the error of the first informer whose cache is not known to contain these writes within the
    /// timeout.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn wait_for_latest(&self, within: Duration) -> Result<(), WaitForLatestError> {
        let mut informers = self.registry.all();
        informers.retain(|informer| informer.status().synced);
        let waits = informers.iter().map(|informer| informer.wait_for_latest(within));
        try_join_all(waits).await.map(|_| ())
    }

    /// Returns the informers, in the order in which they were created. [Adopted](InformerFactory::adopt)
    /// informers follow at the end.
    pub fn informers(&self) -> Vec<AnyInformer> {
        self.registry.informers()
    }

    /// Returns a watch channel that changes when an informer is created, adopted or removed. The value has no
    /// meaning.
    pub fn informers_changed(&self) -> watch::Receiver<u64> {
        self.registry.subscribe()
    }

    /// Returns the status of each informer, in the order in which the informers were created.
    /// [Adopted](InformerFactory::adopt) informers follow at the end.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.registry.informers().iter().map(AnyInformer::status).collect()
    }

    /// Stops every informer, and waits until all their tasks have completed. The method also waits
    /// for the tasks of informers that were stopped, removed or dropped before. A second call waits
    /// for the same tasks.
    ///
    /// Afterwards, requests for informers fail with [`FactoryError::ShutDown`]. The caches can
    /// still be read, but are no longer updated.
    ///
    /// # Cancel safety
    /// The first poll stops all informers. If you drop the future after this poll, the informers
    /// still stop, but you do not know when their tasks have completed.
    pub async fn shutdown(&self) {
        self.registry.shut_down();
        self.registry.wait_for_tasks().await;
    }
}

/// Returns `None` for an empty selector, which selects all objects.
fn non_empty(selector: String) -> Option<String> {
    Some(selector).filter(|selector| !selector.is_empty())
}

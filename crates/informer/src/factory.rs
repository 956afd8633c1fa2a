//! `InformerFactory`: shared informers of one cluster, one for each type and selection.

use std::{
    any::{Any, TypeId},
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kube_client::{Client, Resource, core::ClusterResourceScope};
use kube_listwatch::{Error, ListOptions, ListWatch};
use kube_object::{Cached, Object};
use kube_reflector::Options;
use tokio::{runtime::Handle, time::Instant};

use crate::{
    Informer, InformerStatus, NotSynced,
    builder::OnError,
    registry::Registry,
    selected::{Selected, some},
    sync,
};

type Modifier = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;
type Transform<T> = Arc<dyn Fn(&mut T) -> Result<(), &'static str> + Send + Sync>;

/// Gives each caller that asks for a type the same informer: client-go's
/// `SharedInformerFactory`.
///
/// Cheap to clone; all clones are one factory. Its informers live until they are removed
/// ([`Selected::remove`]), until [`InformerFactory::shutdown`], or until the factory and everything obtained from it is
/// dropped; counted ones ([`Selected::counted`]) only for as long as somebody has a use for them.
#[derive(Clone)]
pub struct InformerFactory {
    config: Config,
    pub(crate) registry: Arc<Registry>,
}

#[derive(Clone)]
struct Config {
    client: Client,
    namespace: Option<String>,
    options: ListOptions,
    modifiers: Vec<Modifier>,
    /// A `Transform<T>` under the id of each type `T` that has one.
    transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// Types whose managedFields are kept.
    managed: HashSet<TypeId>,
    resync: Option<Duration>,
    reflector: Options,
    on_error: Option<OnError>,
    backlog_mark: usize,
    queue_bound: usize,
}

/// The factory can't give this informer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// [`InformerFactory::shutdown`] has been called.
    #[error("the factory is shut down: no informer of {0} can be had")]
    ShutDown(String),
    /// Informers were asked for by namespaces, and this is none, or objects of the type live in none.
    #[error(
        "no informer of {kind} in namespace {namespace:?} can be had: give a name, and a type that lives in namespaces"
    )]
    NotOneNamespace {
        /// The kind of the objects.
        kind: String,
        /// What was asked for.
        namespace: String,
    },
}

/// Whether a type known only at run time lives in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Objects live in namespaces; the factory's namespace applies.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

impl InformerFactory {
    /// A factory for the cluster of this client, over all namespaces.
    pub fn new(client: Client) -> Self {
        let config = Config {
            client,
            namespace: None,
            options: ListOptions::default(),
            modifiers: Vec::new(),
            transforms: HashMap::new(),
            managed: HashSet::new(),
            resync: None,
            reflector: Options::default(),
            on_error: None,
            backlog_mark: kube_delta_fifo::DEFAULT_MARK,
            queue_bound: kube_delta_fifo::DEFAULT_BOUND,
        };
        Self { config, registry: Arc::default() }
    }

    /// Restricts namespaced types to this namespace; an empty one means all, as everywhere in the
    /// API.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.configured(|config| config.namespace = namespace)
    }

    /// Restricts every type to objects with these labels, in the syntax of the API.
    #[must_use]
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.configured(|config| config.options.label_selector = some(selector.into()))
    }

    /// Restricts every type to objects with these fields, in the syntax of the API. Few fields
    /// can be selected on every type: `metadata.name` and `metadata.namespace`.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.configured(|config| config.options.field_selector = some(selector.into()))
    }

    /// A function that may change the options of each LIST and WATCH (client-go's
    /// `WithTweakListOptions`).
    #[must_use]
    pub fn options(self, modifier: impl Fn(&mut ListOptions) + Send + Sync + 'static) -> Self {
        self.configured(|config| config.modifiers.push(Arc::new(modifier)))
    }

    /// A function that changes each object of one type before it is cached: see [`ListWatch::transform`]. The last one
    /// for a type counts.
    #[must_use]
    pub fn transform<T: Object>(
        self,
        transform: impl Fn(&mut T) -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        let transform: Transform<T> = Arc::new(transform);
        self.configured(|config| _ = config.transforms.insert(TypeId::of::<T>(), Arc::new(transform)))
    }

    /// Keeps `metadata.managedFields` of the objects of one type, which are left out otherwise: see
    /// [`ListWatch::keep_managed_fields`].
    #[must_use]
    pub fn keep_managed_fields<T: Object>(self) -> Self {
        self.configured(|config| _ = config.managed.insert(TypeId::of::<T>()))
    }

    /// The resync period of handlers that don't say their own; none unless set.
    #[must_use]
    pub fn default_resync(self, period: Duration) -> Self {
        self.configured(|config| config.resync = Some(period))
    }

    /// Time-outs, delays, page size and seed of each informer's reflector.
    #[must_use]
    pub fn reflector(self, options: Options) -> Self {
        self.configured(|config| config.reflector = options)
    }

    /// Called with each failure of a LIST or WATCH, on the informer's task: it must not block.
    #[must_use]
    pub fn on_error(self, on_error: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.configured(|config| config.on_error = Some(Arc::new(on_error)))
    }

    /// From how many waiting events on the changes of a handler are merged; 1024 unless set. Of a handler of
    /// [`Informer::on_every`] nothing is merged: there the cache waits from so many on, and zero counts as one.
    #[must_use]
    pub fn backlog_mark(self, events: usize) -> Self {
        self.configured(|config| config.backlog_mark = events)
    }

    /// How many objects may wait between the reflector and the store of each informer; 1024 unless set.
    #[must_use]
    pub fn queue_bound(self, objects: usize) -> Self {
        self.configured(|config| config.queue_bound = objects)
    }

    /// A factory that is configured differently shares no informers with the one before.
    fn configured(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self.registry = Arc::default();
        self
    }

    /// The informer of a type, of everything that the factory covers: [`InformerFactory::select`] without a selection
    /// of its own.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn informer<T: Cached>(&self) -> Result<Informer<T>, FactoryError>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        self.select::<T>().informer()
    }

    /// The informer of a type that is known only at run time, such as `DynamicObject` with an `ApiResource`, of
    /// everything that the factory covers.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn dynamic<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Result<Informer<T>, FactoryError>
    where
        <T::Resource as Resource>::DynamicType: Clone,
    {
        self.select_dynamic::<T>(resource, scope).informer()
    }

    /// Objects of a type, of which fewer can be selected than the factory covers.
    pub fn select<T: Cached>(&self) -> Selected<T>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let cluster =
            TypeId::of::<<T::Resource as Resource>::Scope>() == TypeId::of::<ClusterResourceScope>();
        let scope = if cluster { Scope::Cluster } else { Scope::Namespaced };
        self.selected(Arc::default(), scope)
    }

    /// The same of a type that is known only at run time.
    pub fn select_dynamic<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Selected<T>
    where
        <T::Resource as Resource>::DynamicType: Clone,
    {
        self.selected(Arc::new(resource.clone()), scope)
    }

    fn selected<T: Cached>(
        &self,
        resource: Arc<<T::Resource as Resource>::DynamicType>,
        scope: Scope,
    ) -> Selected<T> {
        let namespace = self.config.namespace.clone().filter(|_| scope == Scope::Namespaced);
        Selected { factory: self.clone(), resource, scope, namespace, options: self.config.options.clone() }
    }

    /// An informer of what these options leave over of a namespace or of all.
    pub(crate) fn build<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        namespace: Option<&str>,
        options: ListOptions,
        name: String,
    ) -> Informer<T> {
        let config = self.config.clone();
        let source = ListWatch::<T>::from_client(config.client, resource, namespace, "")
            .options(move |request| *request = options.clone());
        let modified =
            |source: ListWatch<T>, modifier: Modifier| source.options(move |request| modifier(request));
        let source = config.modifiers.into_iter().fold(source, modified);
        let source = match config.managed.contains(&TypeId::of::<T>()) {
            true => source.keep_managed_fields(),
            false => source,
        };
        let transform = config.transforms.get(&TypeId::of::<T>());
        let source = match transform.and_then(|transform| transform.downcast_ref::<Transform<T>>()).cloned() {
            Some(transform) => source.transform(move |object| transform(object)),
            None => source,
        };
        let mut builder = Informer::from_source(source).name(name).reflector(config.reflector);
        builder.resync = config.resync;
        builder.on_error = config.on_error;
        builder.backlog_mark(config.backlog_mark).queue_bound(config.queue_bound).build()
    }

    /// Starts, waits for, shows and stops an informer that was made elsewhere, by a builder or another factory, with this
    /// factory's own. Nothing happens where it is one of them. It is not what [`InformerFactory::informer`] gives.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn adopt<T: Object>(&self, informer: &Informer<T>) -> Result<(), FactoryError> {
        self.registry.adopt(informer)
    }

    /// Starts every informer, and those that are asked for later as they are: on the runtime of whoever asks, or outside of
    /// one on that of this call.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        self.registry.start(Handle::current());
    }

    /// Waits until every informer's first list is in its store.
    ///
    /// # Errors
    /// Some are not within this time, or were stopped before: the error names each, in the order of
    /// their names, with its last failure. Those that were not stopped go on trying.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> Result<(), NotSynced> {
        // Beyond the clock is never.
        let within = sync::patience(within);
        let deadline = Instant::now().checked_add(within);
        let mut late = Vec::new();
        for informer in self.registry.all() {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            late.extend(informer.wait_for_sync(left).await);
        }
        late.sort_unstable_by(|a, b| a.informer.cmp(&b.informer));
        match late.is_empty() {
            true => Ok(()),
            false => Err(NotSynced { within, informers: late }),
        }
    }

    /// What each informer is doing, and what it has done: in the order in which they were asked for, then those that were
    /// adopted.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.registry.status()
    }

    /// Stops every informer; when this returns no task of them is left, nor of those that were stopped, removed or let go
    /// of before. No informer can be had any more, and caches are no longer fresh.
    ///
    /// # Cancel safety
    /// All informers are told to stop at the first poll; only the wait is lost.
    pub async fn shutdown(&self) {
        let informers = self.registry.shut_down();
        let stopping: Vec<_> = informers.iter().map(|informer| informer.stop()).collect();
        futures_util::future::join_all(stopping).await;
        for tasks in self.registry.tasks() {
            tasks.wait().await;
        }
    }
}

//! `InformerFactory`: shared informers of one cluster, one for each type.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use kube_client::{Client, Resource, core::ClusterResourceScope};
use kube_listwatch::{Error, ListOptions, ListWatch};
use kube_object::{Cached, Object};
use kube_reflector::Options;
use tokio::time::Instant;

use crate::{Informer, InformerStatus, NotSynced, Unsynced, builder::OnError};

type Modifier = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;
type Transform<T> = Arc<dyn Fn(&mut T) -> Result<(), &'static str> + Send + Sync>;

/// Gives each caller that asks for a type the same informer: client-go's
/// `SharedInformerFactory`.
///
/// Cheap to clone; all clones are one factory. Its informers live until
/// [`InformerFactory::shutdown`] or until the factory and everything obtained from it is dropped.
#[derive(Clone)]
pub struct InformerFactory {
    config: Config,
    registry: Arc<Registry>,
}

#[derive(Clone)]
struct Config {
    client: Client,
    namespace: Option<String>,
    options: ListOptions,
    modifiers: Vec<Modifier>,
    /// A `Transform<T>` under the id of each type `T` that has one.
    transforms: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    resync: Option<Duration>,
    reflector: Options,
    on_error: Option<OnError>,
}

/// Never locked across an await: entries are cloned out first.
#[derive(Default)]
struct Registry {
    informers: DashMap<Key, Arc<dyn AnyInformer>>,
    started: AtomicBool,
    shut_down: AtomicBool,
}

/// What makes two requests for an informer the same one: everything else is the factory's.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    cached: TypeId,
    path: String,
}

/// The factory can't give this informer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FactoryError {
    /// [`InformerFactory::shutdown`] has been called.
    #[error("the factory is shut down: no informer of {0} can be had")]
    ShutDown(String),
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
            resync: None,
            reflector: Options::default(),
            on_error: None,
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
        self.configured(|config| config.options.label_selector = Some(selector.into()))
    }

    /// Restricts every type to objects with these fields, in the syntax of the API. Few fields
    /// can be selected on every type: `metadata.name` and `metadata.namespace`.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.configured(|config| config.options.field_selector = Some(selector.into()))
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

    /// A factory that is configured differently shares no informers with the one before.
    fn configured(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self.registry = Arc::default();
        self
    }

    /// The informer of a type; the same one whenever the type is asked for.
    ///
    /// On a factory that was started a new informer starts at once. Handlers and indexes can be
    /// added at any time; those added before the start miss nothing and see no late join.
    ///
    /// # Errors
    /// The factory is shut down.
    ///
    /// # Panics
    /// Outside of a tokio runtime, where the factory was started.
    pub fn informer<T: Cached>(&self) -> Result<Informer<T>, FactoryError>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let cluster =
            TypeId::of::<<T::Resource as Resource>::Scope>() == TypeId::of::<ClusterResourceScope>();
        let scope = if cluster { Scope::Cluster } else { Scope::Namespaced };
        self.dynamic(&Default::default(), scope)
    }

    /// The informer of a type that is known only at run time, such as `DynamicObject` with an
    /// `ApiResource`.
    ///
    /// # Errors
    /// The factory is shut down.
    ///
    /// # Panics
    /// Outside of a tokio runtime, where the factory was started.
    pub fn dynamic<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Result<Informer<T>, FactoryError> {
        let namespace = self.config.namespace.as_deref().filter(|_| scope == Scope::Namespaced);
        let path = T::Resource::url_path(resource, namespace);
        let name = format!("{} {path}", T::Resource::kind(resource));
        if self.registry.shut_down.load(Ordering::Acquire) {
            return Err(FactoryError::ShutDown(name));
        }
        let key = Key { cached: TypeId::of::<T>(), path };
        let found = self.registry.informers.get(&key).map(|found| typed::<T>(found.as_ref()));
        let informer = found.unwrap_or_else(|| {
            // Not under the registry's lock: what describes the resource may be a user's code.
            let built: Arc<dyn AnyInformer> = Arc::new(self.build::<T>(resource, namespace, name.clone()));
            typed(self.registry.informers.entry(key.clone()).or_insert(built).as_ref())
        });
        // A shutdown that came meanwhile may not have seen it.
        if self.registry.shut_down.load(Ordering::Acquire) {
            self.registry.informers.remove(&key);
            informer.shared.stop();
            return Err(FactoryError::ShutDown(name));
        }
        if self.registry.started.load(Ordering::Acquire) {
            informer.start();
        }
        Ok(informer)
    }

    fn build<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        namespace: Option<&str>,
        name: String,
    ) -> Informer<T> {
        let config = self.config.clone();
        let options = config.options;
        let source = ListWatch::<T>::from_client(config.client, resource, namespace, "")
            .options(move |request| *request = options.clone());
        let modified =
            |source: ListWatch<T>, modifier: Modifier| source.options(move |request| modifier(request));
        let source = config.modifiers.into_iter().fold(source, modified);
        let transform = config.transforms.get(&TypeId::of::<T>());
        let source = match transform.and_then(|transform| transform.downcast_ref::<Transform<T>>()).cloned() {
            Some(transform) => source.transform(move |object| transform(object)),
            None => source,
        };
        let mut builder = Informer::from_source(source).name(name).reflector(config.reflector);
        builder.resync = config.resync;
        builder.on_error = config.on_error;
        builder.build()
    }

    /// Starts every informer, and those that are asked for later as they are.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(&self) {
        self.registry.started.store(true, Ordering::Release);
        for informer in self.registry.all() {
            informer.start();
        }
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

    /// What each informer is doing, and what it has done.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.registry.all().iter().map(|informer| informer.status()).collect()
    }

    /// Stops every informer; when this returns no task of them is left. No informer can be had
    /// any more, and caches are no longer fresh.
    ///
    /// # Cancel safety
    /// All informers are told to stop at the first poll; only the wait is lost.
    pub async fn shutdown(&self) {
        self.registry.shut_down.store(true, Ordering::Release);
        let informers = self.registry.all();
        self.registry.informers.clear();
        let stopping: Vec<_> = informers.iter().map(|informer| informer.stop()).collect();
        futures_util::future::join_all(stopping).await;
    }
}

impl Registry {
    fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.informers.iter().map(|slot| Arc::clone(slot.value())).collect()
    }
}

type Waiting<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

/// An informer whose type is forgotten: what the factory does with all of them.
trait AnyInformer: Send + Sync {
    fn start(&self);
    fn stop(&self) -> Waiting<'_, ()>;
    fn wait_for_sync(&self, within: Duration) -> Waiting<'_, Option<Unsynced>>;
    fn status(&self) -> InformerStatus;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Object> AnyInformer for Informer<T> {
    fn start(&self) {
        Informer::start(self);
    }

    fn stop(&self) -> Waiting<'_, ()> {
        Box::pin(Informer::stop(self))
    }

    fn wait_for_sync(&self, within: Duration) -> Waiting<'_, Option<Unsynced>> {
        Box::pin(async move { Informer::wait_for_sync(self, within).await.err().map(|_| self.unsynced()) })
    }

    fn status(&self) -> InformerStatus {
        Informer::status(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The key holds the type, so the informer behind it is of that type.
fn typed<T: Cached>(informer: &dyn AnyInformer) -> Informer<T> {
    match informer.as_any().downcast_ref::<Informer<T>>() {
        Some(informer) => informer.clone(),
        None => unreachable!("an informer registered under the type id of {}", type_name::<T>()),
    }
}

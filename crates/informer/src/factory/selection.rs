//! `Selection`: the objects of a type for which a factory has one informer.

use std::{any::TypeId, sync::Arc};

use kube_client::Resource;
use kube_listwatch::ListOptions;
use kube_object::Cached;

use super::{
    FactoryError, InformerFactory, Scope, non_empty,
    registry::{InformerKey, Ownership},
};
use crate::Informer;

/// Selects objects of one type by namespace, labels and fields. A factory has one informer for each
/// type and selection.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informer::InformerFactory;
///
/// # fn example(factory: InformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let on_node = factory.select::<Pod>().fields("spec.nodeName=node-7").informer()?;
/// let web = factory.select::<Pod>().namespace("shop").labels("app=web").informer()?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct Selection<T: Cached> {
    factory: InformerFactory,
    resource: Arc<<T::Resource as Resource>::DynamicType>,
    scope: Scope,
    namespace: Option<String>,
    options: ListOptions,
}

impl<T: Cached> Clone for Selection<T> {
    fn clone(&self) -> Self {
        Self {
            factory: self.factory.clone(),
            resource: Arc::clone(&self.resource),
            scope: self.scope,
            namespace: self.namespace.clone(),
            options: self.options.clone(),
        }
    }
}

impl InformerFactory {
    /// Returns the informer of a type, for all objects that the factory selects.
    ///
    /// Same as [`InformerFactory::select`] and then [`Selection::informer`].
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

    /// Returns the informer of a type that is known only at run time, such as `DynamicObject` with
    /// an `ApiResource`, for all objects that the factory selects.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn dynamic_informer<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Result<Informer<T>, FactoryError>
    where
        <T::Resource as Resource>::DynamicType: Clone,
    {
        self.select_dynamic::<T>(resource, scope).informer()
    }

    /// Selects the objects of a type that the factory selects. The result can select fewer.
    pub fn select<T: Cached>(&self) -> Selection<T>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Selection::new(self, Arc::default(), scope)
    }

    /// Selects the objects of a type that is known only at run time.
    pub fn select_dynamic<T: Cached>(
        &self,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Selection<T>
    where
        <T::Resource as Resource>::DynamicType: Clone,
    {
        Selection::new(self, Arc::new(resource.clone()), scope)
    }
}

impl<T: Cached> Selection<T> {
    fn new(
        factory: &InformerFactory,
        resource: Arc<<T::Resource as Resource>::DynamicType>,
        scope: Scope,
    ) -> Self {
        let config = &factory.config;
        Self {
            factory: factory.clone(),
            resource,
            scope,
            namespace: config.namespace.clone().filter(|_| scope == Scope::Namespaced),
            options: config.options.clone(),
        }
    }

    /// Selects one namespace, in place of the factory's. An empty name means all namespaces.
    ///
    /// Does nothing for a cluster-scoped type.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.namespace = namespace.filter(|_| self.scope == Scope::Namespaced);
        self
    }

    /// Selects exactly one namespace.
    pub(super) fn single_namespace(self, namespace: &str) -> Result<Self, FactoryError> {
        if self.scope == Scope::Namespaced && !namespace.is_empty() {
            return Ok(self.namespace(namespace));
        }
        Err(FactoryError::InvalidNamespace {
            kind: T::Resource::kind(&self.resource).into_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// Selects by labels, in place of the factory's label selector.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.label_selector = non_empty(selector.into());
        self
    }

    /// Selects by fields, in place of the factory's field selector.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.field_selector = non_empty(selector.into());
        self
    }

    /// Returns the informer of this selection, the same one for the same selection.
    ///
    /// The informer lives until it is removed or the factory is shut down. If it was stopped, the
    /// next call returns a new one. If the factory is started, a new informer starts immediately.
    ///
    /// Handlers and indexes can be added at any time. Handlers that are added before the start
    /// receive the initial list as it arrives; later ones receive the cached objects first.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn informer(self) -> Result<Informer<T>, FactoryError> {
        self.get(Ownership::Factory)
    }

    /// Returns the informer of this selection, which lives only as long as it is used.
    ///
    /// It is used while an informer, a lister, an index, a stream or a registered handler exists.
    /// After that its watch ends, and the next call returns a new informer. If the same informer was
    /// also requested with [`Selection::informer`], the factory keeps it as described there.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn ref_counted_informer(self) -> Result<Informer<T>, FactoryError> {
        self.get(Ownership::Users)
    }

    /// Stops the informer and removes it from the factory. Returns `false` if there was none.
    ///
    /// When this returns, none of its tasks is left. Its cache can still be read. The next request
    /// creates a new informer.
    ///
    /// # Cancel safety
    /// The informer begins to stop at the first poll. Only the wait is lost.
    pub async fn remove(self) -> bool {
        let informer = self.factory.registry.remove(&self.key());
        match informer {
            Some(informer) => informer.stop().await,
            None => return false,
        }
        true
    }

    fn get(self, ownership: Ownership) -> Result<Informer<T>, FactoryError> {
        let key = self.key();
        let Self { factory, resource, namespace, options, .. } = self;
        let (resource, name) = (&*resource, key.informer_name());
        let build = || factory.build(resource, namespace.as_deref(), options, name);
        factory.registry.get_or_insert(&key, ownership, build)
    }

    fn key(&self) -> InformerKey {
        let path = T::Resource::url_path(&self.resource, self.namespace.as_deref());
        InformerKey {
            cached: TypeId::of::<T>(),
            kind_and_path: format!("{} {path}", T::Resource::kind(&self.resource)),
            labels: self.options.label_selector.clone(),
            fields: self.options.field_selector.clone(),
        }
    }
}

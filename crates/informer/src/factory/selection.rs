//! `Selection`: selects objects of a type. A factory has one informer for each selection.

use std::{any::TypeId, sync::Arc};

use kube_client::Resource;
use kube_listwatch::ListOptions;
use kube_object::Cached;

use super::selectors;
use super::{
    FactoryError, InformerFactory, Scope, non_empty,
    registry::{InformerKey, Ownership, Registry},
};
use crate::{Informer, slots::Division};

/// Selects objects of one type by namespace, labels and fields. [`InformerFactory::select`] creates
/// a selection. A factory has one informer for each type and selection.
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
    slots: SelectedSlots,
}

impl<T: Cached> Clone for Selection<T> {
    fn clone(&self) -> Self {
        Self {
            factory: self.factory.clone(),
            resource: Arc::clone(&self.resource),
            scope: self.scope,
            namespace: self.namespace.clone(),
            options: self.options.clone(),
            slots: self.slots.clone(),
        }
    }
}

/// The slots whose objects an informer of a factory caches.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum SelectedSlots {
    /// All slots. The informer is not sharded.
    All,
    /// The slots that the program sets.
    Own,
    /// Like `Own`, but only objects whose label with this key contains their slot.
    Labelled(String),
}

impl SelectedSlots {
    /// Returns the part of the informer's name that describes the slots.
    pub(super) fn name(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Own => " of some slots".to_owned(),
            Self::Labelled(label) => format!(" of some slots in label {label}"),
        }
    }
}

impl InformerFactory {
    /// Returns the informer of the type `T`, with the namespace and the selectors of the factory.
    ///
    /// Equivalent to [`InformerFactory::select`] followed by [`Selection::informer`].
    ///
    /// # Errors
    /// Returns the errors of [`Selection::informer`].
    pub fn informer<T: Cached>(&self) -> Result<Informer<T>, FactoryError>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        self.select::<T>().informer()
    }

    /// Returns the informer of a type that is known only at run time, for example of
    /// `DynamicObject` with an `ApiResource`. The informer has the namespace and the selectors of
    /// the factory.
    ///
    /// # Errors
    /// Returns the errors of [`Selection::informer`].
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

    /// Returns a selection of the type `T`, with the namespace and the selectors of the factory.
    /// The methods of [`Selection`] replace these values.
    pub fn select<T: Cached>(&self) -> Selection<T>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Selection::new(self, Arc::default(), scope)
    }

    /// Returns a selection of a type that is known only at run time. Otherwise equivalent to
    /// [`InformerFactory::select`].
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
        let divides = |division: &Division| scope == Scope::Namespaced || division.divides_cluster_scoped();
        Self {
            slots: match config.settings.division.as_ref().is_some_and(divides) {
                true => SelectedSlots::Own,
                false => SelectedSlots::All,
            },
            factory: factory.clone(),
            resource,
            scope,
            namespace: config.namespace.clone().filter(|_| scope == Scope::Namespaced),
            options: config.options.clone(),
        }
    }

    /// Replaces the namespace of the factory. An empty name selects all namespaces.
    ///
    /// The method has no effect for a cluster-scoped type.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.namespace = namespace.filter(|_| self.scope == Scope::Namespaced);
        self
    }

    /// Selects the objects of all slots, also if the factory is [sharded](InformerFactory::sharded).
    pub fn all_slots(mut self) -> Self {
        self.slots = SelectedSlots::All;
        self
    }

    /// Adds a label selector for the slots of the informer. The label with the key `label` must contain the
    /// number of the slot of each object. The server then sends only the objects of the slots of the process,
    /// with any version of Kubernetes.
    ///
    /// Objects without the label are not cached. Use this method only if your program creates all objects of
    /// the type, for example with `Applier::slot_label` of kube-operator. The method has no effect if the
    /// factory is not [sharded](InformerFactory::sharded), or after [`Selection::all_slots`].
    pub fn slot_label(mut self, label: impl Into<String>) -> Self {
        if self.slots != SelectedSlots::All {
            self.slots = SelectedSlots::Labelled(label.into());
        }
        self
    }

    /// Selects exactly one namespace.
    pub(super) fn single_namespace(self, namespace: &str) -> Result<Self, FactoryError> {
        if self.scope == Scope::Namespaced && selectors::is_namespace(namespace) {
            return Ok(self.namespace(namespace));
        }
        Err(self.invalid_namespace(namespace))
    }

    fn invalid_namespace(&self, namespace: &str) -> FactoryError {
        FactoryError::InvalidNamespace { kind: self.kind(), namespace: namespace.to_owned() }
    }

    fn kind(&self) -> String {
        T::Resource::kind(&self.resource).into_owned()
    }

    /// Refuses a namespace and selectors that every server rejects.
    fn check(&self) -> Result<(), FactoryError> {
        if let Some(namespace) = self.namespace.as_deref().filter(|name| !selectors::is_namespace(name)) {
            return Err(self.invalid_namespace(namespace));
        }
        let invalid = |selector: &String, reason| FactoryError::InvalidSelector {
            kind: self.kind(),
            selector: selector.clone(),
            reason,
        };
        if let Some(labels) = &self.options.label_selector {
            selectors::check_labels(labels).map_err(|reason| invalid(labels, reason))?;
        }
        if let SelectedSlots::Labelled(label) = &self.slots {
            selectors::check_label_key(label).map_err(|reason| invalid(label, reason))?;
        }
        if let Some(fields) = &self.options.field_selector {
            selectors::check_fields(fields).map_err(|reason| invalid(fields, reason))?;
        }
        Ok(())
    }

    /// Replaces the label selector of the factory.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.label_selector = non_empty(selector.into());
        self
    }

    /// Replaces the field selector of the factory.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.field_selector = non_empty(selector.into());
        self
    }

    /// Returns the informer of this selection. Callers with the same type and selection receive the
    /// same informer.
    ///
    /// The factory keeps the informer until the informer is removed or the factory is shut down. If
    /// the informer was stopped, this method returns a new informer. If the factory is started, a
    /// new informer starts immediately.
    ///
    /// You can add handlers and indexes at any time. If the informer already runs, a new handler
    /// first receives the cached objects.
    ///
    /// # Errors
    /// - Returns [`FactoryError::ShutDown`] if the factory is shut down.
    /// - Returns [`FactoryError::InvalidNamespace`] if the namespace is not a DNS label.
    /// - Returns [`FactoryError::InvalidSelector`] if a selector has invalid syntax.
    pub fn informer(self) -> Result<Informer<T>, FactoryError> {
        self.get(Ownership::Factory)
    }

    /// Returns the informer of this selection. The factory does not keep this informer alive, so it
    /// stops when its last user is dropped.
    ///
    /// The users are clones of the informer, listers, indexes, streams and registrations of
    /// handlers. If the informer has stopped, this method returns a new informer. If another caller
    /// requests the same informer with [`Selection::informer`], the factory keeps it alive.
    ///
    /// # Errors
    /// Returns the errors of [`Selection::informer`].
    pub fn ref_counted_informer(self) -> Result<Informer<T>, FactoryError> {
        self.get(Ownership::Users)
    }

    /// Stops the informer and removes it from the factory. Returns false if the factory has no
    /// informer for this selection.
    ///
    /// Waits until all tasks of the informer have completed. The cache can still be read. The next
    /// request for this selection creates a new informer.
    ///
    /// # Cancel safety
    /// The first poll removes and stops the informer. If you drop the future after this poll, the
    /// informer still stops, but you do not know when its tasks have completed.
    pub async fn remove(self) -> bool {
        let Some(tasks) = self.factory.registry.remove(&self.key()) else { return false };
        tasks.wait().await;
        true
    }

    fn get(self, ownership: Ownership) -> Result<Informer<T>, FactoryError> {
        self.check()?;
        let key = self.key();
        let Self { factory, resource, namespace, options, slots, .. } = self;
        let build = |link| factory.build(&*resource, namespace.as_deref(), options, &slots, link);
        Registry::get_or_insert(&factory.registry, &key, ownership, build)
    }

    fn key(&self) -> InformerKey {
        let path = T::Resource::url_path(&self.resource, self.namespace.as_deref());
        InformerKey {
            cached: TypeId::of::<T>(),
            kind_and_path: format!("{} {path}", T::Resource::kind(&self.resource)),
            labels: self.options.label_selector.clone(),
            fields: self.options.field_selector.clone(),
            slots: self.slots.clone(),
        }
    }
}

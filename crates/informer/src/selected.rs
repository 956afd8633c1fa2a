//! `Selected`: which objects of a type an informer of a factory is for.

use std::{any::TypeId, sync::Arc};

use kube_client::Resource;
use kube_listwatch::ListOptions;
use kube_object::Cached;

use crate::{
    FactoryError, Informer, InformerFactory, NamespacedInformers, Scope,
    registry::{Kept, Key},
};

/// Objects of one type, chosen by namespace, labels and fields: what a factory has one informer for.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::InformerFactory;
/// # fn example(factory: InformerFactory) -> Result<(), Box<dyn std::error::Error>> {
/// let of_this_node = factory.select::<Pod>().fields("spec.nodeName=node-7").informer()?;
/// let of_the_shop = factory.select::<Pod>().namespace("shop").labels("app=web").counted()?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct Selected<T: Cached> {
    pub(crate) factory: InformerFactory,
    pub(crate) resource: Arc<<T::Resource as Resource>::DynamicType>,
    pub(crate) scope: Scope,
    pub(crate) namespace: Option<String>,
    pub(crate) options: ListOptions,
}

impl<T: Cached> Clone for Selected<T> {
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

impl<T: Cached> Selected<T> {
    /// Of this namespace, in place of the factory's; an empty one means all. Nothing changes for a type that lives in no
    /// namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        let namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self.namespace = namespace.filter(|_| self.scope == Scope::Namespaced);
        self
    }

    /// Of one namespace and no more.
    pub(crate) fn in_one(self, namespace: &str) -> Result<Self, FactoryError> {
        match self.scope == Scope::Namespaced && !namespace.is_empty() {
            true => Ok(self.namespace(namespace)),
            false => Err(FactoryError::NotOneNamespace {
                kind: T::Resource::kind(&self.resource).into_owned(),
                namespace: namespace.to_owned(),
            }),
        }
    }

    /// With these labels, in place of the factory's, in the syntax of the API.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.label_selector = some(selector.into());
        self
    }

    /// With these fields, in place of the factory's, in the syntax of the API.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.field_selector = some(selector.into());
        self
    }

    /// The informer; the same one whenever the same is asked for. It lives until it is removed or the factory is shut
    /// down; if somebody stops it whoever asks next gets a new one.
    ///
    /// On a factory that was started a new informer starts at once. Handlers and indexes can be
    /// added at any time; those added before the start miss nothing and see no late join.
    ///
    /// # Errors
    /// The factory is shut down.
    pub fn informer(self) -> Result<Informer<T>, FactoryError> {
        self.get(Kept::ByFactory)
    }

    /// The informer, which lives for as long as somebody has a use for it: an informer, a lister, an index, a stream or
    /// a registered handler. When the last is gone its watch ends, and whoever asks again gets a new one. One that was
    /// also asked for by [`Selected::informer`] lives as is said there.
    ///
    /// # Errors
    /// As [`Selected::informer`].
    pub fn counted(self) -> Result<Informer<T>, FactoryError> {
        self.get(Kept::ByUsers)
    }

    /// An informer for each of these namespaces, in place of the factory's, and for those that are added later.
    ///
    /// # Errors
    /// As [`NamespacedInformers::add`].
    pub fn namespaces<N: Into<String>>(
        self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Result<NamespacedInformers<T>, FactoryError> {
        NamespacedInformers::new(self, namespaces.into_iter().map(Into::into))
    }

    /// Stops the informer and takes it out of the factory; whoever asks again gets a new one. `false` if there was none.
    /// When this returns no task of it is left; its cache can still be read.
    ///
    /// # Cancel safety
    /// The informer is stopped at the first poll; only the wait is lost.
    pub async fn remove(self) -> bool {
        let informer = self.factory.registry.remove(&self.key());
        match informer {
            Some(informer) => informer.stop().await,
            None => return false,
        }
        true
    }

    fn get(self, kept: Kept) -> Result<Informer<T>, FactoryError> {
        let key = self.key();
        let Self { factory, resource, namespace, options, .. } = self;
        let resource = &*resource;
        let name = shown(&key);
        factory.registry.get_or(&key, kept, || factory.build(resource, namespace.as_deref(), options, name))
    }

    fn key(&self) -> Key {
        let path = T::Resource::url_path(&self.resource, self.namespace.as_deref());
        Key {
            cached: TypeId::of::<T>(),
            name: format!("{} {path}", T::Resource::kind(&self.resource)),
            labels: self.options.label_selector.clone(),
            fields: self.options.field_selector.clone(),
        }
    }
}

/// An empty selector selects everything, as does none.
pub(crate) fn some(selector: String) -> Option<String> {
    Some(selector).filter(|selector| !selector.is_empty())
}

/// What errors and logs call an informer: several of one type differ by their selectors.
fn shown(key: &Key) -> String {
    let selectors = [("labels", &key.labels), ("fields", &key.fields)];
    let said =
        selectors.iter().filter_map(|(name, selector)| Some(format!(" {name} {}", selector.as_ref()?)));
    format!("{}{}", key.name, said.collect::<String>())
}

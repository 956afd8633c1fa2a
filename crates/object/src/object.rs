//! `Object`: what a layer may ask of a cached value, and `Id`, the borrowed identity.

use kube_core::Resource;

use crate::KeyRef;

/// Who an object is and which version of it: read from its bytes or from a decoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    /// `None` or empty for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// The name within the namespace.
    pub name: &'a str,
    /// Empty where the server sent none.
    pub uid: &'a str,
    /// Empty where the server sent none.
    pub resource_version: &'a str,
}

impl<'a> Id<'a> {
    /// The address part of the identity.
    pub fn key(&self) -> KeyRef<'a> {
        KeyRef::new(self.namespace, self.name)
    }
}

/// A value that can be cached: it knows who it is and can be asked for a label.
///
/// Implemented for everything that is a [`Resource`]: the types of k8s-openapi, types derived
/// with `kube::CustomResource`, `DynamicObject` and `PartialObjectMeta`.
pub trait Object: Send + Sync + 'static {
    /// The identity as the value has it. A transform may have changed the value: the layers
    /// keep the identity that the server sent in an [`Entry`](crate::Entry) beside it.
    fn id(&self) -> Id<'_>;

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str>;
}

impl<K: Resource + Send + Sync + 'static> Object for K {
    fn id(&self) -> Id<'_> {
        let meta = self.meta();
        Id {
            namespace: meta.namespace.as_deref(),
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default(),
        }
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }
}

//! `Object`: what a layer may ask of a cached value, and `ObjectIdRef`, the borrowed identity.

use kube_core::Resource;

use crate::{KeyRef, ResourceVersion, Uid};

/// Who an object is and which version of it, its key borrowed: read from its bytes or from a decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdRef<'a> {
    /// Its address.
    pub key: KeyRef<'a>,
    /// Its incarnation; empty where the server sent none.
    pub uid: Uid,
    /// Its version; empty where the server sent none.
    pub version: ResourceVersion,
}

impl<'a> ObjectIdRef<'a> {
    /// The identity that these texts name. An empty namespace is the same as none.
    pub fn new(namespace: Option<&'a str>, name: &'a str, uid: &str, version: &str) -> Self {
        Self { key: KeyRef::new(namespace, name), uid: Uid::new(uid), version: ResourceVersion::new(version) }
    }
}

/// A value that can be cached: it knows who it is and can be asked for a label.
///
/// Implemented for everything that is a [`Resource`]: the types of k8s-openapi, types derived
/// with `kube::CustomResource`, `DynamicObject` and `PartialObjectMeta`.
pub trait Object: Send + Sync + 'static {
    /// The identity as the value has it. A transform may have changed the value: the layers
    /// keep the identity that the server sent in an [`Entry`](crate::Entry) beside it.
    fn id(&self) -> ObjectIdRef<'_>;

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str>;
}

impl<K: Resource + Send + Sync + 'static> Object for K {
    fn id(&self) -> ObjectIdRef<'_> {
        let meta = self.meta();
        ObjectIdRef::new(
            meta.namespace.as_deref(),
            meta.name.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default(),
            meta.resource_version.as_deref().unwrap_or_default(),
        )
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }
}

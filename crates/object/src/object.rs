//! `Object`: the trait of cached values, and `ObjectIdRef`, the borrowed identity.

use kube_core::Resource;

use crate::{KeyRef, ResourceVersion, Uid};

/// Identifies one version of an object, with a borrowed key. Read from JSON or from a decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdRef<'a> {
    /// The namespace and name.
    pub key: KeyRef<'a>,
    /// The uid; empty if the server sent none.
    pub uid: Uid,
    /// The resourceVersion; empty if the server sent none.
    pub version: ResourceVersion,
}

impl<'a> ObjectIdRef<'a> {
    /// Creates an identity. An empty namespace is the same as none.
    pub fn new(namespace: Option<&'a str>, name: &'a str, uid: &str, version: &str) -> Self {
        Self { key: KeyRef::new(namespace, name), uid: Uid::new(uid), version: ResourceVersion::new(version) }
    }
}

/// A value that can be cached: it has an identity and labels.
///
/// Implemented for every [`Resource`]: types of k8s-openapi, types derived with `kube::CustomResource`,
/// `DynamicObject` and `PartialObjectMeta`.
pub trait Object: Send + Sync + 'static {
    /// Returns the identity in the value. A transform may have changed the value, so
    /// [`Entry`](crate::Entry) also keeps the identity that the server sent.
    fn id(&self) -> ObjectIdRef<'_>;

    /// Returns the value of a label.
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

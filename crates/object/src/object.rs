//! `Object`: the trait of cached values, and `ObjectIdRef`, the borrowed identity.

use kube_core::Resource;

use crate::{KeyRef, ObjectMemory, ResourceVersion, Uid, memory::resource_memory};

/// Identifies one version of an object, with a borrowed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdRef<'a> {
    /// The namespace and name.
    pub key: KeyRef<'a>,
    /// The uid. Empty if the server did not send a uid.
    pub uid: Uid,
    /// The resourceVersion. Empty if the server did not send a version.
    pub version: ResourceVersion,
}

impl<'a> ObjectIdRef<'a> {
    /// Creates an identity. An empty namespace is treated as `None`.
    pub fn new(namespace: Option<&'a str>, name: &'a str, uid: &str, version: &str) -> Self {
        Self { key: KeyRef::new(namespace, name), uid: Uid::new(uid), version: ResourceVersion::new(version) }
    }
}

/// Provides the identity and the labels of a value that can be cached.
///
/// Every [`Resource`] implements this trait: types of k8s-openapi, types derived with
/// `kube::CustomResource`, `DynamicObject` and `PartialObjectMeta`.
pub trait Object: Send + Sync + 'static {
    /// Returns the identity that the value contains. A transform can change this identity.
    /// [`Entry`](crate::Entry) therefore stores the identity that the server sent.
    fn id(&self) -> ObjectIdRef<'_>;

    /// Returns the value of a label. Returns `None` if the object does not have the label.
    fn label(&self, name: &str) -> Option<&str>;

    /// Returns the memory of the value. The default implementation counts only its size.
    fn memory(&self) -> ObjectMemory {
        ObjectMemory::at_least(size_of_val(self))
    }
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

    fn memory(&self) -> ObjectMemory {
        resource_memory(self)
    }
}

//! `Scope`: the scope of a type, which is a namespace or the cluster.

use std::any::TypeId;

use kube_client::{
    Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};

/// Describes whether the objects of a type belong to a namespace or to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each object belongs to a namespace. The namespace of the factory or of the selection
    /// applies.
    Namespaced,
    /// The objects are cluster-scoped. A namespace of the factory has no effect.
    Cluster,
}

impl Scope {
    /// Returns the scope of a type. Returns `None` if the scope is known only at run time, for
    /// example for `DynamicObject`.
    pub fn of<R: Resource>() -> Option<Self>
    where
        R::Scope: 'static,
    {
        let scope = TypeId::of::<R::Scope>();
        if scope == TypeId::of::<NamespaceResourceScope>() {
            Some(Self::Namespaced)
        } else if scope == TypeId::of::<ClusterResourceScope>() {
            Some(Self::Cluster)
        } else {
            None
        }
    }
}

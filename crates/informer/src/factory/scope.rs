//! `Scope`: whether the objects of a type are namespaced.

use std::any::TypeId;

use kube_client::{
    Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};

/// Whether the objects of a type are namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each object belongs to a namespace. The namespace of the factory applies.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

impl Scope {
    /// Returns the scope of a type; `None` if it is known only at run time, as for `DynamicObject`.
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

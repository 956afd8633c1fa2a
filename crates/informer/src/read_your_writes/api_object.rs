//! `ApiObject` and `StaticObject`: the bounds of types that can be written through an `Api`.

use std::fmt::Debug;

use kube_client::{
    Api, Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::{Serialize, de::DeserializeOwned};

/// Combines the bounds of a type that can be read and written through an `Api`.
///
/// A blanket implementation covers every type with these bounds, for example the types of
/// k8s-openapi, types derived with `kube::CustomResource`, `DynamicObject` and `PartialObjectMeta`.
/// You do not implement this trait yourself.
pub trait ApiObject: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<K> ApiObject for K where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// Combines the bounds of an [`ApiObject`] whose group, version, kind and scope are known at compile time.
///
/// A blanket implementation covers the types of k8s-openapi, types derived with `kube::CustomResource`,
/// and their `PartialObjectMeta`. You do not implement this trait yourself.
pub trait StaticObject: ApiObject + Resource<DynamicType: Default, Scope: ApiScope<Self>> {}

impl<K: ApiObject + Resource<DynamicType: Default, Scope: ApiScope<K>>> StaticObject for K {}

/// Creates an `Api` for a scope: a namespace, or the cluster. You do not implement this trait yourself.
pub trait ApiScope<K> {
    /// Returns an `Api` for the objects of a namespace. For `None`, and for cluster-scoped types, the
    /// `Api` covers the cluster.
    fn api(client: Client, namespace: Option<&str>) -> Api<K>;
}

impl<K> ApiScope<K> for NamespaceResourceScope
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
{
    fn api(client: Client, namespace: Option<&str>) -> Api<K> {
        match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }
}

impl<K> ApiScope<K> for ClusterResourceScope
where
    K: Resource<Scope = ClusterResourceScope, DynamicType: Default>,
{
    fn api(client: Client, _: Option<&str>) -> Api<K> {
        Api::all(client)
    }
}

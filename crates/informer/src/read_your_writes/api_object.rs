//! `ApiObject`: the bounds of a type that can be written through an `Api`.

use std::fmt::Debug;

use kube_client::Resource;
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

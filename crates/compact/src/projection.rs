//! `Projection`: caches only the fields of an object that a program needs.

use std::{fmt, marker::PhantomData, ops::Deref};

use kube_core::Resource;
use kube_object::{
    Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, RawObject, decode_json,
};
use serde::de::DeserializeOwned;

/// Caches only some fields of an object of type `K`. A projection dereferences to `F`, which
/// contains these fields.
///
/// `F` is your struct with the fields of `K` that the program needs. `F` can be any type that serde can
/// deserialize. Other fields of `K` are neither decoded nor stored. Key, uid, resourceVersion and labels
/// are always available.
///
/// ```
/// use kube_compact::Projection;
/// use k8s_openapi::api::core::v1::Pod;
///
/// #[derive(serde::Deserialize)]
/// struct Placement {
///     spec: Spec,
/// }
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec {
///     node_name: Option<String>,
/// }
///
/// fn node(pod: &Projection<Pod, Placement>) -> Option<&str> {
///     pod.spec.node_name.as_deref()
/// }
/// ```
pub struct Projection<K, F> {
    id: ObjectId,
    labels: Box<[u8]>,
    /// The decoded fields.
    pub fields: F,
    of: PhantomData<fn() -> K>,
}

impl<K, F> Projection<K, F> {
    /// Returns the identity of the object, as the server sent it.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Returns the labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::new(&self.labels)
    }
}

impl<K, F> Deref for Projection<K, F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.fields
    }
}

impl<K: 'static, F: Send + Sync + 'static> Object for Projection<K, F> {
    fn id(&self) -> ObjectIdRef<'_> {
        self.id.as_id()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels().get(name)
    }
}

impl<K: Resource + 'static, F: DeserializeOwned + Send + Sync + 'static> Cached for Projection<K, F> {
    type Resource = K;
    type Decoder = ProjectionDecoder;
}

/// Decodes objects into [`Projection`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ProjectionDecoder;

impl<K: 'static, F: DeserializeOwned + 'static> Decode<Projection<K, F>> for ProjectionDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<Projection<K, F>, DecodeError> {
        let fields = decode_json(&object.json(), object.kind())?;
        Ok(Projection { id: object.id.clone(), labels: object.labels().into(), fields, of: PhantomData })
    }
}

/// Prints the identity, and no contents of the object.
impl<K, F> fmt::Debug for Projection<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "some fields of {}", self.id)
    }
}

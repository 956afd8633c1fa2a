//! `Projection`: caches only the fields of an object that a program needs.

use std::{fmt, marker::PhantomData, mem::needs_drop, ops::Deref, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{
    Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, ObjectMemory, Persist, PersistError,
    RawObject, decode_json,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::header::{put_header, take_header};

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

    fn memory(&self) -> ObjectMemory {
        let bytes = size_of::<Self>() + self.labels.len();
        // Fields that need no drop have allocated no memory.
        if needs_drop::<F>() { ObjectMemory::at_least(bytes) } else { ObjectMemory::complete(bytes) }
    }
}

impl<K: Resource + 'static, F: DeserializeOwned + Send + Sync + 'static> Cached for Projection<K, F> {
    type Resource = K;
    type Decoder = ProjectionDecoder;
}

/// The bytes are the labels, and the JSON of the fields.
impl<K, F> Persist for Projection<K, F>
where
    K: Resource + 'static,
    F: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    const FORM: &'static str = "JSON of fields with labels";
    type Shared = ();

    fn persist(&self, (): &mut (), out: &mut Vec<u8>) -> Result<(), PersistError> {
        let labels = u32::try_from(self.labels.len()).map_err(|_| PersistError::Malformed)?;
        put_header(out, [labels, 0, 0]);
        out.extend_from_slice(&self.labels);
        serde_json::to_writer(out, &self.fields).map_err(|_| PersistError::Serialize)
    }

    fn restore(bytes: &[u8], id: &ObjectId, kind: &Arc<TypeMeta>, (): &mut ()) -> Result<Self, PersistError> {
        let ([labels, ..], rest) = take_header(bytes)?;
        let (labels, json) = rest.split_at_checked(labels as usize).ok_or(PersistError::Malformed)?;
        let fields = decode_json(json, kind)?;
        Ok(Self { id: id.clone(), labels: labels.into(), fields, of: PhantomData })
    }
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

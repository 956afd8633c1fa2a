//! `Lazy`: caches the JSON of an object, and decodes the object when a reader needs it.

use std::{borrow::Cow, fmt, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{
    Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, ObjectMemory, OwnerReferences,
    Persist, PersistError, RawObject, ToResource,
};
use serde::de::DeserializeOwned;

use crate::{
    decoded::{Decoded, Owned, SharedDecoded, decoded},
    header::{put_header, take_header},
};

/// Caches the JSON of an object. Key, uid, resourceVersion and labels are available without
/// decoding. The other fields are decoded when the program calls [`Lazy::get`] or [`Lazy::fields`].
///
/// Use this representation if your program caches many objects but reads only a few of them. The
/// cache holds only the JSON. For each change, the JSON is copied, which is much cheaper than
/// decoding.
///
/// An object that does not decode as `K` is also cached. [`Lazy::get`] then returns the error. In
/// contrast, an informer of the type `K` cannot cache such an object.
pub struct Lazy<K> {
    id: ObjectId,
    labels: LabelTexts,
    kind: Arc<TypeMeta>,
    /// The JSON. The capacity is a multiple of [`ALLOCATION_STEP_BYTES`].
    json: Vec<u8>,
    shared: SharedDecoded<K>,
}

/// The granularity of allocations, in bytes. Objects of a type have many slightly different sizes.
/// With exact allocations, an allocator leaves small gaps that it cannot merge, and the memory of a
/// cache grows while its objects change. `kube-bench scale` measures this effect.
const ALLOCATION_STEP_BYTES: usize = 512;

/// Concatenates the parts. Rounds the capacity up to a multiple of [`ALLOCATION_STEP_BYTES`].
fn concat_rounded(parts: [&[u8]; 2]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut json = Vec::with_capacity(length.next_multiple_of(ALLOCATION_STEP_BYTES));
    parts.iter().for_each(|part| json.extend_from_slice(part));
    json
}

/// The source of the [`Labels`].
enum LabelTexts {
    /// A range of the object's JSON.
    InJson(u32, u32),
    /// A separate copy, because [`Labels`] cannot read the labels in the JSON directly.
    Copied(Box<[u8]>),
}

impl LabelTexts {
    fn of(object: &RawObject<'_>) -> Self {
        let range = object.labels_in_json();
        match range.map(|range| (u32::try_from(range.start), u32::try_from(range.end))) {
            Some((Ok(start), Ok(end))) => Self::InJson(start, end),
            _ => Self::Copied(object.labels().into()),
        }
    }
}

impl<K> Lazy<K> {
    /// Returns the identity of the object, as the server sent it.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Returns the labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::new(match &self.labels {
            LabelTexts::InJson(start, end) => &self.json[*start as usize..*end as usize],
            LabelTexts::Copied(texts) => texts,
        })
    }

    /// Returns the JSON that the server sent. It contains managedFields only if the informer keeps
    /// them.
    pub fn json(&self) -> &[u8] {
        &self.json
    }
}

impl<K: DeserializeOwned + 'static> Lazy<K> {
    /// Returns the decoded object. Concurrent readers share one decoded value. If no reader holds
    /// this value, the method decodes the object again.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `K`, or if the `Deserialize` implementation
    /// of `K` panics.
    ///
    /// # Deadlocks
    /// Concurrent callers wait until the object is decoded. If the `Deserialize` implementation of
    /// `K` calls this method for the same object, the call waits for itself and never returns.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Decodes only the fields of `F`. This is cheaper than decoding all fields of `K`.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `F`, or if the `Deserialize` implementation
    /// of `F` panics.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decoded(&self.json, &self.kind)
    }

    /// Decodes the object into an owned value, which is not shared with other readers.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `K`, or if the `Deserialize` implementation
    /// of `K` panics.
    pub fn decode(&self) -> Result<K, DecodeError> {
        decoded(&self.json, &self.kind)
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn id(&self) -> ObjectIdRef<'_> {
        self.id.as_id()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels().get(name)
    }

    fn memory(&self) -> ObjectMemory {
        let labels = match &self.labels {
            LabelTexts::InJson(..) => 0,
            LabelTexts::Copied(texts) => texts.len(),
        };
        ObjectMemory::complete(size_of::<Self>() + self.json.capacity() + labels)
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for Lazy<K> {
    type Resource = K;
    type Decoder = LazyDecoder;
}

/// The bytes are the place of the labels, and the JSON.
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Persist for Lazy<K> {
    const FORM: &'static str = "JSON with labels";
    type Shared = ();

    fn persist(&self, (): &mut (), out: &mut Vec<u8>) -> Result<(), PersistError> {
        match &self.labels {
            LabelTexts::InJson(start, end) => put_header(out, [IN_JSON, *start, *end]),
            LabelTexts::Copied(texts) => {
                let len = u32::try_from(texts.len()).map_err(|_| PersistError::Malformed)?;
                put_header(out, [COPIED, len, 0]);
                out.extend_from_slice(texts);
            }
        }
        out.extend_from_slice(&self.json);
        Ok(())
    }

    fn restore(bytes: &[u8], id: &ObjectId, kind: &Arc<TypeMeta>, (): &mut ()) -> Result<Self, PersistError> {
        let ([form, a, b], rest) = take_header(bytes)?;
        let (labels, json) = match form {
            IN_JSON if a <= b && b as usize <= rest.len() => (LabelTexts::InJson(a, b), rest),
            COPIED => {
                let (texts, json) = rest.split_at_checked(a as usize).ok_or(PersistError::Malformed)?;
                (LabelTexts::Copied(texts.into()), json)
            }
            _ => return Err(PersistError::Malformed),
        };
        let json = concat_rounded([json, &[]]);
        Ok(Self { id: id.clone(), labels, kind: Arc::clone(kind), json, shared: SharedDecoded::new() })
    }
}

const IN_JSON: u32 = 0;
const COPIED: u32 = 1;

impl<K: DeserializeOwned + 'static> OwnerReferences for Lazy<K> {
    fn owner_references(&self) -> Cow<'_, [OwnerReference]> {
        self.fields::<Owned>().map(Owned::into_references).unwrap_or_default()
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> ToResource for Lazy<K> {
    fn to_resource(self: &Arc<Self>) -> Result<Arc<K>, DecodeError> {
        self.decode().map(Arc::new)
    }
}

/// Creates [`Lazy`] objects. The decoder only copies the JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct LazyDecoder;

impl<K: Send + Sync + 'static> Decode<Lazy<K>> for LazyDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<Lazy<K>, DecodeError> {
        Ok(Lazy {
            id: object.id.clone(),
            labels: LabelTexts::of(object),
            kind: Arc::clone(object.kind()),
            json: concat_rounded(object.json_parts()),
            shared: SharedDecoded::new(),
        })
    }
}

/// Prints the kind and the identity, and no contents of the object.
impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind.kind, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::concat_rounded;

    #[test]
    fn json_capacity_is_rounded_up() {
        for (parts, capacity) in
            [([&[][..], &[]], 0), ([&[7; 500], &[7; 12]], 512), ([&[7; 512], &[7]], 1024)]
        {
            let json = concat_rounded(parts);
            assert_eq!(json, vec![7; parts.concat().len()]);
            assert_eq!(json.capacity(), capacity);
        }
    }
}

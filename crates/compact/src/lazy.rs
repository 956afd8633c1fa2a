//! `Lazy`: caches an object as its JSON, and decodes it when it is read.

use std::{fmt, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, RawObject};
use serde::de::DeserializeOwned;

use crate::decoded::{Decoded, Shared, decoded};

/// Caches the JSON of an object. Key, uid, version and labels are available without decoding; the rest
/// is decoded when it is read.
///
/// Use it for programs that cache many objects and read few of them. It takes the memory of the JSON,
/// and a change costs a small part of decoding.
///
/// An object that does not decode as `K` is cached too, and [`Lazy::get`] returns the error. A typed
/// cache would reject this object.
pub struct Lazy<K> {
    id: ObjectId,
    labels: LabelTexts,
    kind: Arc<TypeMeta>,
    /// Its capacity is a multiple of [`GRAIN`].
    json: Vec<u8>,
    shared: Shared<K>,
}

/// The granularity of allocations, in bytes. Objects of a type have many slightly different sizes. With
/// exact allocations, an allocator would leave small gaps that it cannot merge, and a cache would grow
/// while its objects change. `kube-bench scale` measures this.
const GRAIN: usize = 512;

fn in_grains(parts: [&[u8]; 2]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut json = Vec::with_capacity(length.next_multiple_of(GRAIN));
    parts.iter().for_each(|part| json.extend_from_slice(part));
    json
}

/// The source of the [`Labels`].
enum LabelTexts {
    /// A range of the object's JSON.
    InJson(u32, u32),
    /// A separate copy, because the labels in the JSON are not in a readable form.
    Apart(Box<[u8]>),
}

impl LabelTexts {
    fn of(object: &RawObject<'_>) -> Self {
        let place = object.labels_in_json();
        match place.map(|place| (u32::try_from(place.start), u32::try_from(place.end))) {
            Some((Ok(start), Ok(end))) => Self::InJson(start, end),
            _ => Self::Apart(object.labels().into()),
        }
    }
}

impl<K> Lazy<K> {
    /// Returns the identity that the server sent.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Returns the labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::of(match &self.labels {
            LabelTexts::InJson(start, end) => &self.json[*start as usize..*end as usize],
            LabelTexts::Apart(texts) => texts,
        })
    }

    /// Returns the JSON that the server sent, without managedFields unless they are kept.
    pub fn json(&self) -> &[u8] {
        &self.json
    }
}

impl<K: DeserializeOwned + 'static> Lazy<K> {
    /// Returns the decoded object. Concurrent readers share one decoded value.
    ///
    /// # Errors
    /// The JSON does not decode as `K`, or the `Deserialize` of `K` panics.
    ///
    /// # Deadlocks
    /// If the `Deserialize` of `K` calls this method for the same object, the call deadlocks. Concurrent
    /// callers wait until the object is decoded.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Decodes only the fields of `F`, which is cheaper than decoding `K`.
    ///
    /// # Errors
    /// The JSON does not decode as `F`, or the `Deserialize` of `F` panics.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decoded(&self.json, &self.kind)
    }

    /// Decodes the object into an owned value.
    ///
    /// # Errors
    /// The JSON does not decode as `K`, or the `Deserialize` of `K` panics.
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
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for Lazy<K> {
    type Resource = K;
    type Decoder = LazyDecoder;
}

/// Decodes into [`Lazy`]: copies the JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct LazyDecoder;

impl<K: Send + Sync + 'static> Decode<Lazy<K>> for LazyDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<Lazy<K>, DecodeError> {
        Ok(Lazy {
            id: object.id.clone(),
            labels: LabelTexts::of(object),
            kind: Arc::clone(object.kind()),
            json: in_grains(object.json_parts()),
            shared: Shared::new(),
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
    use super::in_grains;

    #[test]
    fn json_capacity_is_rounded_up() {
        for (parts, capacity) in
            [([&[][..], &[]], 0), ([&[7; 500], &[7; 12]], 512), ([&[7; 512], &[7]], 1024)]
        {
            let json = in_grains(parts);
            assert_eq!(json, vec![7; parts.concat().len()]);
            assert_eq!(json.capacity(), capacity);
        }
    }
}

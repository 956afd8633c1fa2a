//! `Lazy`: an object kept as its JSON, and decoded when it is looked at.

use std::{fmt, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, RawObject};
use serde::de::DeserializeOwned;

use crate::decoded::{Decoded, Shared, decoded};

/// An object of which key, uid, version and labels are known at once, and the rest is decoded when it is looked at.
///
/// For programs that hold many objects and look at few: it takes as much memory as the object's JSON, and a change costs a
/// small part of decoding it.
///
/// A server's word is taken for the rest: that an object is not what `K` expects, or no JSON at all, is found out by
/// [`Lazy::get`], where a typed cache would have kept it out.
pub struct Lazy<K> {
    id: ObjectId,
    labels: LabelTexts,
    kind: Arc<TypeMeta>,
    /// As long as a multiple of [`GRAIN`] that it fits in.
    json: Vec<u8>,
    shared: Shared<K>,
}

/// Objects of a type are of many lengths that differ by little. Where each took exactly what it needs, an allocator would put a
/// new one into the place of a somewhat longer one, something small into what is left there, and so could never put the
/// two together again: a cache would grow while its objects change (`kube-bench scale` shows whether it does).
const GRAIN: usize = 512;

fn in_grains(parts: [&[u8]; 2]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut json = Vec::with_capacity(length.next_multiple_of(GRAIN));
    parts.iter().for_each(|part| json.extend_from_slice(part));
    json
}

/// What [`Labels`] are read from.
enum LabelTexts {
    /// The object's JSON from here to there.
    InJson(u32, u32),
    /// They can't be read in there.
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
    /// The identity that the server sent.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Its labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::of(match &self.labels {
            LabelTexts::InJson(start, end) => &self.json[*start as usize..*end as usize],
            LabelTexts::Apart(texts) => texts,
        })
    }

    /// Its JSON as the server sent it; without managedFields, unless they are kept.
    pub fn json(&self) -> &[u8] {
        &self.json
    }
}

impl<K: DeserializeOwned + 'static> Lazy<K> {
    /// The whole object. It is decoded, unless somebody looks at it already: then it is shared with them.
    ///
    /// # Errors
    /// The JSON is no `K`, or the `Deserialize` of `K` has panicked.
    ///
    /// # Deadlocks
    /// Where the `Deserialize` of `K` itself looks at this object. Who looks meanwhile waits until it is decoded.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Some of its fields, which is cheaper than all of them: nothing is made of what `F` does not have.
    ///
    /// # Errors
    /// The JSON is no `F`, or the `Deserialize` of `F` has panicked.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decoded(&self.json, &self.kind)
    }

    /// The whole object, to have it.
    ///
    /// # Errors
    /// The JSON is no `K`, or the `Deserialize` of `K` has panicked.
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

/// Keeps JSON for later.
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

/// Shows no contents.
impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind.kind, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::in_grains;

    #[test]
    fn json_is_kept_in_few_different_lengths() {
        for (parts, capacity) in
            [([&[][..], &[]], 0), ([&[7; 500], &[7; 12]], 512), ([&[7; 512], &[7]], 1024)]
        {
            let json = in_grains(parts);
            assert_eq!(json, vec![7; parts.concat().len()]);
            assert_eq!(json.capacity(), capacity);
        }
    }
}

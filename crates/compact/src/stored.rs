//! Stores `Compressed` objects in files, with their dictionaries.

use std::{fmt, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{ObjectId, Persist, PersistError};
use serde::de::DeserializeOwned;

use crate::{
    Compressed,
    codec::Codec,
    compressed::StoredJson,
    decoded::SharedDecoded,
    header::{put_header, take_header},
};

/// The maximum number of dictionaries of a file. Objects with further dictionaries are stored uncompressed.
const MAX_DICTIONARIES: usize = 32;

/// The form of uncompressed JSON. Higher numbers are the number of the dictionary, plus one.
const PLAIN: u32 = 0;

/// Contains the dictionaries of the objects of a file. The file contains each dictionary before its first
/// object.
#[derive(Default)]
pub struct Dictionaries(Vec<Arc<Codec>>);

impl Dictionaries {
    /// Returns the number of the dictionary. Returns `None` if the file cannot contain it.
    fn number(&mut self, codec: &Arc<Codec>) -> Option<usize> {
        let is_same =
            |known: &Arc<Codec>| Arc::ptr_eq(known, codec) || known.dictionary() == codec.dictionary();
        if let Some(number) = self.0.iter().position(is_same) {
            return Some(number);
        }
        (self.0.len() < MAX_DICTIONARIES).then(|| {
            self.0.push(Arc::clone(codec));
            self.0.len() - 1
        })
    }

    /// Returns the dictionary with this number. The next new dictionary follows the other dictionaries.
    fn read<'a>(&mut self, number: usize, bytes: &'a [u8]) -> Result<(Arc<Codec>, &'a [u8]), PersistError> {
        if let Some(codec) = self.0.get(number) {
            return Ok((Arc::clone(codec), bytes));
        }
        if number != self.0.len() || number >= MAX_DICTIONARIES {
            return Err(PersistError::Malformed);
        }
        let ([len, ..], rest) = take_header(bytes)?;
        let (dictionary, rest) = rest.split_at_checked(len as usize).ok_or(PersistError::Malformed)?;
        let codec = Arc::new(Codec::new(dictionary).map_err(|_| PersistError::Compression)?);
        self.0.push(Arc::clone(&codec));
        Ok((codec, rest))
    }
}

impl fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dictionaries", self.0.len())
    }
}

/// The bytes are the labels, and the compressed JSON.
impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Persist for Compressed<K> {
    const FORM: &'static str = "compressed JSON with labels";
    const IS_COMPRESSED: bool = true;
    type Shared = Dictionaries;

    fn persist(&self, shared: &mut Dictionaries, out: &mut Vec<u8>) -> Result<(), PersistError> {
        let labels = u32::try_from(self.labels.len()).map_err(|_| PersistError::Malformed)?;
        let before = shared.0.len();
        let packed = match &self.body {
            StoredJson::Plain(_) => None,
            StoredJson::Packed { packed, length, codec } => {
                shared.number(codec).map(|number| (number, packed, *length, codec))
            }
        };
        let Some((number, packed, length, codec)) = packed else {
            put_header(out, [PLAIN, labels, 0]);
            out.extend_from_slice(&self.labels);
            out.extend_from_slice(&self.json()?);
            return Ok(());
        };
        put_header(out, [number as u32 + 1, labels, length]);
        out.extend_from_slice(&self.labels);
        if number == before {
            let dictionary = codec.dictionary();
            put_header(out, [dictionary.len() as u32, 0, 0]);
            out.extend_from_slice(dictionary);
        }
        out.extend_from_slice(packed);
        Ok(())
    }

    fn restore(
        bytes: &[u8],
        id: &ObjectId,
        kind: &Arc<TypeMeta>,
        shared: &mut Dictionaries,
    ) -> Result<Self, PersistError> {
        let ([form, labels, length], rest) = take_header(bytes)?;
        let (labels, rest) = rest.split_at_checked(labels as usize).ok_or(PersistError::Malformed)?;
        let body = if form == PLAIN {
            StoredJson::Plain(rest.into())
        } else {
            let (codec, packed) = shared.read(form as usize - 1, rest)?;
            StoredJson::Packed { packed: packed.into(), length, codec }
        };
        let (labels, kind) = (labels.into(), Arc::clone(kind));
        Ok(Self { id: id.clone(), labels, kind, body, shared: SharedDecoded::new() })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{Decode, DecodeContext, Outline, RawObject};

    use super::*;
    use crate::CompressedDecoder;

    fn pods(count: usize) -> Vec<Compressed<Pod>> {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let decoder = CompressedDecoder::default();
        let pod = |at| {
            let json = format!(
                r#"{{"metadata":{{"name":"p{at}","uid":"u{at}","labels":{{"app":"a{at}"}}}},"spec":"{}"}}"#,
                "text ".repeat(at % 90)
            );
            decoder.decode(&RawObject::new(Outline::scan(json.as_bytes()), &context).unwrap()).unwrap()
        };
        (0..count).map(pod).collect()
    }

    #[test]
    fn objects_with_several_dictionaries_round_trip() {
        let (mut writer, mut reader) = (Dictionaries::default(), Dictionaries::default());
        let tiny = pods(1);
        let all: Vec<_> = [pods(3000), pods(3000), tiny].into_iter().flatten().collect();
        for pod in &all {
            let mut bytes = Vec::new();
            pod.persist(&mut writer, &mut bytes).unwrap();
            let read = Compressed::<Pod>::restore(&bytes, &pod.id, &pod.kind, &mut reader).unwrap();
            assert_eq!((read.json().unwrap(), &read.labels), (pod.json().unwrap(), &pod.labels));
            assert_eq!(read.compressed_bytes(), pod.compressed_bytes());
        }
        assert_eq!(writer.0.len(), reader.0.len());
    }

    #[test]
    fn objects_above_the_number_of_dictionaries_are_stored_uncompressed() {
        let full = || {
            Dictionaries(
                (0..MAX_DICTIONARIES as u8).map(|at| Arc::new(Codec::new(&[at; 9]).unwrap())).collect(),
            )
        };
        let pod = &pods(100)[89];
        assert!(matches!(pod.body, StoredJson::Packed { .. }));
        let mut bytes = Vec::new();
        pod.persist(&mut full(), &mut bytes).unwrap();
        let read = Compressed::<Pod>::restore(&bytes, &pod.id, &pod.kind, &mut full()).unwrap();
        assert!(matches!(read.body, StoredJson::Plain(_)));
        assert_eq!(read.json().unwrap(), pod.json().unwrap());
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        let pod = &pods(100)[89];
        let mut bytes = Vec::new();
        pod.persist(&mut Dictionaries::default(), &mut bytes).unwrap();
        for len in 0..24 {
            let read =
                Compressed::<Pod>::restore(&bytes[..len], &pod.id, &pod.kind, &mut Dictionaries::default());
            assert_eq!(read.err(), Some(PersistError::Malformed), "{len} bytes");
        }
        bytes[0] = 7;
        let read = Compressed::<Pod>::restore(&bytes, &pod.id, &pod.kind, &mut Dictionaries::default());
        assert_eq!(read.err(), Some(PersistError::Malformed), "the seventh dictionary");
    }
}

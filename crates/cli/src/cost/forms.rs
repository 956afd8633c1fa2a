//! Builds each representation of an object in memory, and counts its memory.

use std::{
    fmt,
    ops::AddAssign,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use k8s_openapi::api::core::v1::Pod;
use kube_client::core::{DynamicObject, PartialObjectMeta};
use kube_compact::{Compressed, CompressedDecoder, Lazy, LazyDecoder};
use kube_informer::Entry;
use kube_object::{Decode, DecodeContext, DecodeError, Outline, RawObject, TypeMeta};
use serde::Serialize;
use serde_json::Value;

use super::{
    counted::{counted, store_bytes_per_object},
    kinds::{Measure, entry_bytes, typed},
};

/// The memory of one or more objects in each representation, in bytes. The memory includes the store, and not
/// managedFields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Forms {
    /// The type of k8s-openapi, or the generic form.
    pub(super) typed: u64,
    /// Only metadata.
    pub(super) metadata: u64,
    /// JSON.
    pub(super) lazy: u64,
    /// Compressed JSON.
    pub(super) compressed: u64,
    /// The fields of `--fields`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) projection: Option<u64>,
}

impl AddAssign for Forms {
    fn add_assign(&mut self, other: Self) {
        self.typed += other.typed;
        self.metadata += other.metadata;
        self.lazy += other.lazy;
        self.compressed += other.compressed;
        self.projection = self
            .projection
            .zip(other.projection)
            .map(|(a, b)| a + b)
            .or(self.projection)
            .or(other.projection);
    }
}

/// Builds the representations of the objects of one resource.
pub(super) struct FormsDecoder {
    context: DecodeContext,
    with_managed_fields: DecodeContext,
    typed: Measure,
    /// Whether the kind has a type in k8s-openapi.
    pub(super) is_typed: bool,
    /// Whether the kind is a Secret, whose data is base64.
    pub(super) is_secret: bool,
    compressed: CompressedDecoder,
    held: CompressedDecoder,
    fields: Vec<ProjectedField>,
}

/// A field of the projection.
struct ProjectedField {
    path: FieldPath,
    /// Whether a measured object has the field.
    is_found: AtomicBool,
}

/// A path of field names, for example `spec.nodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<String>);

impl std::str::FromStr for FieldPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.trim().trim_start_matches('.').split('.').map(str::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err("use names that are separated by dots, for example spec.nodeName".to_owned());
        }
        Ok(Self(names))
    }
}

impl FormsDecoder {
    /// Creates a decoder for a kind. `fields` are the fields of the projection.
    pub(super) fn new(kind: &TypeMeta, fields: &[FieldPath]) -> Self {
        let (typed, is_typed) = typed(kind);
        let context = DecodeContext::new(kind.clone());
        Self {
            with_managed_fields: DecodeContext { keep_managed_fields: true, ..context.clone() },
            context,
            typed,
            is_typed,
            is_secret: kind.api_version == "v1" && kind.kind == "Secret",
            compressed: CompressedDecoder::default(),
            held: CompressedDecoder::default(),
            fields: fields.iter().map(ProjectedField::new).collect(),
        }
    }

    /// Returns the fields of the projection that no measured object has, for example because a name is
    /// misspelled.
    pub(super) fn missing_fields(&self) -> Vec<String> {
        let missing = self.fields.iter().filter(|field| !field.is_found.load(Relaxed));
        missing.map(|field| field.path.to_string()).collect()
    }

    /// Returns whether a measured object has a field of the projection.
    pub(super) fn has_found_field(&self) -> bool {
        self.fields.iter().any(|field| field.is_found.load(Relaxed))
    }

    /// Builds and counts each representation of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not have the fields of its kind.
    pub(super) fn measure(&self, json: &[u8]) -> Result<Forms, DecodeError> {
        let raw = RawObject::new(Outline::scan(json), &self.context)?;
        let store = store_bytes_per_object();
        let lazy = held::<Lazy<Pod>>(&LazyDecoder, &raw)?;
        // The size is computed, because the decoder also allocates buffers and a dictionary for all objects.
        let compressed: Compressed<Pod> = self.compressed.decode(&raw)?;
        let json_bytes = raw.json_parts().map(<[u8]>::len).iter().sum::<usize>() as u64;
        let compressed = lazy.saturating_sub(json_bytes) + compressed.compressed_bytes() as u64;
        Ok(Forms {
            typed: (self.typed)(&raw)? + store,
            metadata: entry_bytes::<PartialObjectMeta<DynamicObject>>(&raw)? + store,
            lazy: lazy + store,
            compressed: compressed + store,
            projection: (!self.fields.is_empty()).then(|| self.projection(&raw) + store),
        })
    }

    /// Compresses an object with its managedFields.
    ///
    /// # Errors
    ///
    /// Returns an error if the object has no name.
    pub(super) fn compress(&self, json: &[u8]) -> Result<Compressed<DynamicObject>, DecodeError> {
        self.held.decode(&RawObject::new(Outline::scan(json), &self.with_managed_fields)?)
    }

    /// Returns the memory of an entry with only the selected fields.
    fn projection(&self, raw: &RawObject<'_>) -> u64 {
        let object: Value = serde_json::from_slice(&raw.json()).unwrap_or_default();
        let (_, bytes) = counted(|| {
            let fields: Box<[Value]> = self.fields.iter().map(|field| field.of(&object)).collect();
            Entry::new(raw.id.clone(), Arc::new((raw.id.clone(), raw.labels().into_owned(), fields)))
        });
        bytes
    }
}

impl FieldPath {
    /// Returns the field of an object.
    fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(object, |value, name| value.get(name))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl ProjectedField {
    fn new(path: &FieldPath) -> Self {
        Self { path: path.clone(), is_found: AtomicBool::new(false) }
    }

    /// Returns a copy of the field of an object, or null.
    fn of(&self, object: &Value) -> Value {
        let Some(value) = self.path.find(object) else { return Value::Null };
        self.is_found.store(true, Relaxed);
        value.clone()
    }
}

/// Builds an entry, and returns its memory in bytes.
fn held<T>(decoder: &impl Decode<T>, raw: &RawObject<'_>) -> Result<u64, DecodeError> {
    let (entry, bytes) =
        counted(|| Ok::<_, DecodeError>(Entry::new(raw.id.clone(), Arc::new(decoder.decode(raw)?))));
    entry.map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(kind: &str, fields: &[&str]) -> FormsDecoder {
        let fields: Vec<_> = fields.iter().map(|field| field.parse().unwrap()).collect();
        FormsDecoder::new(&TypeMeta { api_version: "v1".into(), kind: kind.into() }, &fields)
    }

    fn config_map(bytes: usize) -> Vec<u8> {
        let data = "some text ".repeat(bytes / 10);
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","managedFields":[{{"manager":"m"}}]}},"data":{{"k":"{data}"}}}}"#)
            .into_bytes()
    }

    #[test]
    fn representations_have_their_sizes() {
        let forms = decoder("ConfigMap", &["data.missing"]).measure(&config_map(10_000)).unwrap();
        assert!(forms.typed > 10_000 && forms.lazy > 10_000, "{forms:?}");
        assert!(forms.metadata < 2_000 && forms.metadata > 100, "{forms:?}");
        assert!(forms.projection.is_some_and(|bytes| bytes < 2_000), "{forms:?}");
        let decoder = decoder("ConfigMap", &[]);
        let forms = (0..200).map(|_| decoder.measure(&config_map(10_000)).unwrap()).last().unwrap();
        assert!(forms.compressed < forms.lazy, "{forms:?}");
        assert_eq!(forms.projection, None);
    }

    #[test]
    fn object_of_other_shape_is_an_error() {
        let json = br#"{"metadata":{"name":"a"},"data":7}"#;
        assert!(decoder("ConfigMap", &[]).measure(json).is_err());
        assert!(decoder("Other", &[]).measure(json).is_ok());
        assert!(decoder("Other", &[]).measure(b"{}").is_err());
    }

    #[test]
    fn compressed_object_keeps_managed_fields() {
        let decoder = decoder("ConfigMap", &[]);
        let object = decoder.compress(&config_map(100)).unwrap();
        assert!(object.json().unwrap().windows(13).any(|part| part == b"managedFields"));
    }

    #[test]
    fn fields_of_no_object_are_missing() {
        let decoder = decoder("ConfigMap", &["data.k", "data.K", "data[0].k"]);
        assert!(!decoder.has_found_field());
        decoder.measure(&config_map(10)).unwrap();
        assert_eq!(decoder.missing_fields(), ["data.K", "data[0].k"]);
        assert!(decoder.has_found_field());
    }

    #[test]
    fn field_paths_have_names() {
        assert_eq!(".spec.nodeName".parse(), Ok(FieldPath(vec!["spec".into(), "nodeName".into()])));
        assert!("spec..x".parse::<FieldPath>().is_err() && "".parse::<FieldPath>().is_err());
    }
}

//! The sizes of the fields and annotations of an object.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;

/// The annotation in which `kubectl apply` stores the object again.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The parts of the metadata that can be large.
const LARGE_METADATA: [&str; 4] = ["managedFields", "annotations", "labels", "ownerReferences"];

/// The fields of a JSON map, as their JSON.
type Fields<'a> = BTreeMap<Name<'a>, &'a RawValue>;

/// The name of a field. A name without escapes is borrowed from the JSON.
#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The JSON of the parts of an object.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    top: Fields<'a>,
    metadata: Fields<'a>,
    annotations: Fields<'a>,
}

impl<'a> Parts<'a> {
    /// Splits the JSON of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not the JSON of an object with metadata.
    pub(super) fn of(json: &'a [u8]) -> serde_json::Result<Self> {
        let top: Fields<'a> = serde_json::from_slice(json)?;
        let below = |fields: &Fields<'a>, name: &str| -> serde_json::Result<Fields<'a>> {
            match field(fields, name).map(RawValue::get) {
                None | Some("null") => Ok(Fields::new()),
                Some(text) => serde_json::from_str(text),
            }
        };
        let metadata = below(&top, "metadata")?;
        Ok(Self { annotations: below(&metadata, "annotations")?, metadata, top })
    }

    /// Returns the JSON of the metadata.
    pub(super) fn metadata(&self) -> &'a str {
        field(&self.top, "metadata").map_or("{}", RawValue::get)
    }

    /// Returns the JSON of an annotation.
    pub(super) fn annotation(&self, name: &str) -> Option<&'a str> {
        field(&self.annotations, name).map(RawValue::get)
    }

    /// Returns the text at a path of names, for example `["status", "phase"]`.
    pub(super) fn text(&self, path: &[&str]) -> Option<String> {
        let (first, rest) = path.split_first()?;
        let mut value: serde_json::Value = serde_json::from_str(field(&self.top, first)?.get()).ok()?;
        for name in rest {
            value = value.get_mut(name)?.take();
        }
        value.as_str().map(str::to_owned)
    }

    /// Returns the paths and the sizes of the fields in bytes. The parts of the metadata are separate fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, usize)> {
        let top = self.top.iter().filter(|(name, _)| name.0 != "metadata");
        let top = top.map(|(name, value)| (format!(".{}", name.0), value.get().len()));
        let size = |(_, value): (_, &&RawValue)| value.get().len();
        let large = self.metadata.iter().filter(|(name, _)| LARGE_METADATA.contains(&&*name.0));
        let large = large.map(|(name, value)| (format!(".metadata.{}", name.0), value.get().len()));
        let other = self.metadata.iter().filter(|(name, _)| !LARGE_METADATA.contains(&&*name.0));
        top.chain(large).chain([(".metadata (other)".to_owned(), other.map(size).sum())])
    }

    /// Returns the names of the annotations, and the sizes of their values in bytes.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&str, usize)> {
        self.annotations.iter().map(|(name, value)| (&*name.0, value.get().len()))
    }
}

fn field<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a RawValue> {
    fields.get(&Name(Cow::Borrowed(name))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_fields_and_annotations_are_read() {
        let json = br#"{"metadata":{"name":"a","uid":"u","annotations":{"a\"b":"12"},"managedFields":[{}]},"spec":{"x":1},"status":{"phase":"Running"}}"#;
        let parts = Parts::of(json).unwrap();
        let fields: Vec<_> = parts.fields().collect();
        assert!(fields.contains(&(".spec".to_owned(), 7)), "{fields:?}");
        assert!(fields.contains(&(".metadata.managedFields".to_owned(), 4)), "{fields:?}");
        assert_eq!(parts.annotations().collect::<Vec<_>>(), [("a\"b", 4)]);
        assert_eq!(parts.text(&["status", "phase"]).as_deref(), Some("Running"));
        assert_eq!(parts.text(&["status", "phase", "x"]), None);
        assert!(parts.metadata().starts_with("{\"name\""));
    }

    #[test]
    fn missing_metadata_has_no_annotations() {
        for json in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{"annotations":null}}"#] {
            assert_eq!(Parts::of(json.as_bytes()).unwrap().annotations().count(), 0, "{json}");
        }
        assert!(Parts::of(br#"{"metadata":[]}"#).is_err());
        assert!(Parts::of(b"[]").is_err());
    }
}

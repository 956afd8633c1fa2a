//! `Labels`: the labels of an object that is not decoded, in one allocation.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;

use crate::{JsonObject, from_slice, json::from_str};

/// Labels that can be looked up without the object; sorted by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Names and values in turn, each after its length as four bytes.
    texts: Box<[u8]>,
}

impl Labels {
    /// Those of an object with this JSON of `metadata.labels`; none where it is no map of strings.
    pub(crate) fn of_json(json: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(json) else { return Self::default() };
        if let Ok(labels) = from_str::<BTreeMap<&str, &str>>(text) {
            return labels.into_iter().collect();
        }
        // Something is escaped, or null.
        let labels: Option<BTreeMap<_, _>> = from_str(text).unwrap_or_default();
        labels.as_ref().map(Self::of_map).unwrap_or_default()
    }

    /// The same, for an object of which no outline can be trusted.
    pub(crate) fn of_object(json: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Labelled {
            metadata: JsonObject<Metadata>,
        }
        #[derive(Deserialize)]
        struct Metadata {
            labels: Option<BTreeMap<String, String>>,
        }
        let Ok(JsonObject(Labelled { metadata: JsonObject(metadata) })) = from_slice(json) else {
            return Self::default();
        };
        metadata.labels.as_ref().map(Self::of_map).unwrap_or_default()
    }

    fn of_map(labels: &BTreeMap<String, String>) -> Self {
        labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.texts;
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, texts) = rest.split_first_chunk()?;
    let (text, after) = texts.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    std::str::from_utf8(text).ok()
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(labels: I) -> Self {
        let mut texts = Vec::new();
        for text in labels.into_iter().flat_map(|(name, value)| [name, value]) {
            texts.extend_from_slice(&(text.len() as u32).to_le_bytes());
            texts.extend_from_slice(text.as_bytes());
        }
        Self { texts: texts.into() }
    }
}

/// Shows no contents.
impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} labels", self.iter().count())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Asked, Outline, RawObject, TypeMeta};

    fn labels_of(object: &str) -> Vec<(String, String)> {
        let asked = Asked::of(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let labels = RawObject::new(Outline::of(object.as_bytes()), &asked).unwrap().labels();
        for (name, value) in labels.iter() {
            assert_eq!(labels.get(name), Some(value));
        }
        assert_eq!((labels.get("nobody"), labels.get("")), (None, None));
        labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn labels_are_those_that_serde_finds_however_they_are_written() {
        for (metadata, expected) in [
            (r#"{"name":"a"}"#, vec![]),
            (r#"{"name":"a","labels":null}"#, vec![]),
            (r#"{"name":"a","labels":{}}"#, vec![]),
            (r#"{"name":"a","labels":{"b":"2","a/x":""}}"#, vec![("a/x", ""), ("b", "2")]),
            (r#"{"name":"a","labels":{"a":"1","a":"2"}}"#, vec![("a", "2")]),
            (r#"{"name":"a","labels":{"\u0061":"\n","b":"2"}}"#, vec![("a", "\n"), ("b", "2")]),
            (r#"{"name":"\u0061","labels":{"b":"2"}}"#, vec![("b", "2")]),
            (r#"{"name":"a","x":{"labels":{"a":"1"}},"labels":{"b":"2"}}"#, vec![("b", "2")]),
        ] {
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let object = format!(r#"{{"metadata":{metadata},"spec":{{}}}}"#);
            assert_eq!(labels_of(&object), expected, "{object}");
            let object = format!(r#"{{"spec":{{"metadata":{{}}}},"metadata":{metadata}}}"#);
            assert_eq!(labels_of(&object), expected, "{object}");
        }
    }
}

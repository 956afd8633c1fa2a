//! `Labels`: the labels of an object that is not decoded.

use std::{borrow::Cow, fmt};

use crate::{
    from_slice,
    json::{Loose, is_plain_map},
};

/// The delimiter of texts that would need escapes in JSON. This byte never occurs in UTF-8.
const DELIMITER: u8 = 0xff;

/// Holds the labels of an object that is not decoded.
///
/// A lookup compares the labels one by one. It does not allocate.
#[derive(Clone, Copy)]
pub struct Labels<'a> {
    /// Alternating names and values. Each text has a delimiter at both ends. Other bytes are
    /// ignored.
    texts: &'a [u8],
    /// Either [`DELIMITER`] or `"`, if the texts are a part of the JSON.
    delimiter: u8,
}

impl<'a> Labels<'a> {
    /// Creates labels from the result of [`RawObject::labels`](crate::RawObject::labels), or from
    /// the bytes of the JSON in the range
    /// [`RawObject::labels_in_json`](crate::RawObject::labels_in_json).
    pub fn new(texts: &'a [u8]) -> Self {
        let delimiter = if texts.first() == Some(&DELIMITER) { DELIMITER } else { b'"' };
        Self { texts, delimiter }
    }

    /// Returns the value of a label. Returns `None` if the object does not have the label.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Iterates over the names and values of the labels, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let delimiter = self.delimiter;
        let delimited = self.texts.split(move |byte| *byte == delimiter).skip(1).step_by(2);
        let mut texts = delimited.map_while(|text| std::str::from_utf8(text).ok());
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }
}

/// Converts the JSON of labels for [`Labels::new`]. Returns no labels if the JSON is not a map of
/// strings.
pub(crate) fn readable(json: &[u8]) -> Cow<'_, [u8]> {
    if is_plain_map(json) {
        Cow::Borrowed(json)
    } else {
        Cow::Owned(from_slice(json).map(|labels| delimited(&labels)).unwrap_or_default())
    }
}

/// Returns the labels of an object whose outline is not reliable.
pub(crate) fn of_object(json: &[u8]) -> Cow<'static, [u8]> {
    let object = from_slice::<Loose>(json).ok();
    let labels = object.as_ref().and_then(|object| object.field("metadata")?.field("labels"));
    Cow::Owned(labels.map(delimited).unwrap_or_default())
}

fn delimited(labels: &Loose) -> Vec<u8> {
    let labels = labels.texts().unwrap_or_default();
    let texts = || labels.iter().flat_map(|(name, value)| [name, value]);
    let mut delimited = Vec::with_capacity(texts().map(|text| text.len() + 2).sum());
    for text in texts() {
        delimited.push(DELIMITER);
        delimited.extend_from_slice(text.as_bytes());
        delimited.push(DELIMITER);
    }
    delimited
}

/// Prints only the number of labels.
impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} labels", self.iter().count())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::Labels;
    use crate::{DecodeContext, Outline, RawObject, TypeMeta};

    /// Returns the labels of this object, and whether they were read directly from its JSON.
    fn labels_of(object: &str) -> (Vec<(String, String)>, bool) {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let raw = RawObject::new(Outline::scan(object.as_bytes()), &context).unwrap();
        let (texts, json) = (raw.labels(), raw.json());
        if let Cow::Owned(json) = &json {
            assert_eq!(json.capacity(), json.len());
        }
        let labels = Labels::new(&texts);
        for (name, value) in labels.iter() {
            assert_eq!(labels.get(name), Some(value));
        }
        assert_eq!((labels.get("absent"), labels.get("")), (None, None));
        let in_json = raw.labels_in_json();
        if let Some(range) = in_json.clone() {
            assert!(Labels::new(&json[range]).iter().eq(labels.iter()), "{object}");
        }
        let owned = labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        (owned, in_json.is_some())
    }

    #[test]
    fn labels_match_serde_in_any_notation() {
        for (metadata, expected, is_in_json) in [
            (r#"{"name":"a"}"#, vec![], false),
            (r#"{"name":"a","labels":null}"#, vec![], false),
            (r#"{"name":"a","labels":7}"#, vec![], false),
            (r#"{"name":"a","labels":{"a":7}}"#, vec![], false),
            (r#"{"name":"a","labels":{}}"#, vec![], true),
            (r#"{"name":"a","labels":{"a/x":"","b":"2"}}"#, vec![("a/x", ""), ("b", "2")], true),
            (r#"{"name":"a","labels": { "a" : "1" , "b":"é" } }"#, vec![("a", "1"), ("b", "é")], true),
            (r#"{"name":"a","labels":{"a":"1"},"managedFields":[{"x":"\"}]"}]}"#, vec![("a", "1")], true),
            (r#"{"managedFields":[{"x":"\"}]"}],"name":"a","labels":{"a":"1"}}"#, vec![("a", "1")], true),
            (r#"{"name":"a","labels":{"b":"2","a":"1"}}"#, vec![("a", "1"), ("b", "2")], false),
            (r#"{"name":"a","labels":{"a":"1","a":"2"}}"#, vec![("a", "2")], false),
            (r#"{"name":"a","labels":{"a":"1"},"labels":{"b":"2"}}"#, vec![("b", "2")], false),
            (
                r#"{"name":"a","labels":{"\u0061":"\n\"\\","b":"2"}}"#,
                vec![("a", "\n\"\\"), ("b", "2")],
                false,
            ),
            (r#"{"name":"\u0061","labels":{"b":"2"}}"#, vec![("b", "2")], true),
            (r#"{"name":"a","x":{"labels":{"a":"1"}},"labels":{"b":"2"}}"#, vec![("b", "2")], true),
        ] {
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let object = format!(r#"{{"metadata":{metadata},"spec":{{}}}}"#);
            assert_eq!(labels_of(&object), (expected.clone(), is_in_json), "{object}");
            let object = format!(r#"{{"spec":{{"metadata":{{}}}},"metadata":{metadata}}}"#);
            assert_eq!(labels_of(&object), (expected, is_in_json), "{object}");
        }
    }
}

//! Tests each method of serde's `Deserializer`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
};

use proptest::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{NearlyEqualValue, difference, same, same_value, text};
use crate::json::{JsonError, from_str};

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
enum External {
    Unit,
    Newtype(u8),
    Tuple(i32, String),
    Struct {
        a: Option<bool>,
        b: Box<External>,
    },
    #[serde(rename = "a")]
    List(Vec<External>),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "t")]
enum Internal {
    Unit,
    Newtype(Fields),
    #[serde(rename = "a")]
    Struct {
        a: Option<i64>,
    },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    Unit,
    Newtype(i16),
    Tuple(i32, String),
    Struct { a: Option<bool> },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Null,
    Bool(bool),
    Small(i8),
    Unsigned(u64),
    Signed(i64),
    Text(String),
    List(Vec<Untagged>),
    Fields(Fields),
    Map(BTreeMap<String, Untagged>),
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Fields {
    a: Option<Box<Fields>>,
    b: Vec<Fields>,
    #[serde(alias = "d")]
    c: Option<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    a: Option<NearlyEqualValue>,
    b: NearlyEqualValue,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Flat {
    a: Option<u8>,
    #[serde(flatten)]
    more: Option<Fields>,
    #[serde(flatten)]
    rest: BTreeMap<String, Untagged>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Borrowed<'a> {
    a: &'a str,
    #[serde(borrow)]
    b: Cow<'a, str>,
    #[serde(borrow)]
    c: Option<&'a [u8]>,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
struct Newtype(Option<i16>);

#[derive(Debug, PartialEq, Deserialize)]
struct Pair(i32, NearlyEqualValue);

#[derive(Debug, PartialEq, Deserialize)]
struct Nothing;

/// Deserializes from bytes.
#[derive(Debug, PartialEq)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Bytes, A::Error> {
                let mut all = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    all.push(byte);
                }
                Ok(Bytes(all))
            }
        }
        deserializer.deserialize_byte_buf(Collect)
    }
}

/// Reads only the first element or field.
#[derive(Debug, PartialEq)]
struct First(Option<Box<First>>);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = First;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything with a first part")
            }
            fn visit_u64<E>(self, _: u64) -> Result<First, E> {
                Ok(First(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<First, A::Error> {
                elements.next_element().map(First)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<First, A::Error> {
                let field: Option<(IgnoredAny, Box<First>)> = fields.next_entry()?;
                Ok(First(field.map(|(_, value)| value)))
            }
        }
        deserializer.deserialize_any(Take)
    }
}

/// Continues after elements of a wrong type.
#[derive(Debug, PartialEq)]
struct Lenient(Vec<Option<Vec<u8>>>);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Lenient;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Lenient, A::Error> {
                let mut all = Vec::new();
                loop {
                    match elements.next_element() {
                        Ok(Some(element)) => all.push(Some(element)),
                        Ok(None) => return Ok(Lenient(all)),
                        Err(_) if all.len() < 9 => all.push(None),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

#[test]
fn unread_elements_are_an_error() {
    for text in [
        "1",
        "[]",
        "{}",
        "[1]",
        "[ 1 ]",
        "[1,2]",
        "[1,]",
        "[1",
        "[1,",
        "[1}",
        "[[[1]]]",
        "[[[1],2]]",
        "[[[1]],2]",
        r#"{"a":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":1"#,
        r#"{"a":1,"#,
        r#"{"a":1]"#,
        r#"{"a":{"b":[1]}}"#,
        r#"[{"a":[1]}]"#,
        r#"[{"a":[1],"b":2}]"#,
        r#"[{"a":[1,2]}"#,
        r#"{"a":"x"}"#,
        r#"{"a":"x"#,
        "[tru",
        "[1]]",
        "[[1]",
        "[[1] 2",
        "[[1 2]]",
        "[[1]}",
        r#"{"a":[1}}"#,
        "[1] x",
    ] {
        same::<First>(text);
        same::<Vec<First>>(text);
        same::<(First, IgnoredAny)>(text);
        same::<BTreeMap<String, First>>(text);
        same::<Option<[First; 1]>>(text);
    }
}

#[test]
fn visitor_may_continue_after_mismatch() {
    for (text, fit) in [
        (r#"[[1],"x",[2]]"#, vec![Some(vec![1]), None, Some(vec![2])]),
        (
            r#"[true,[1,2],null,-1,1.5,[],"\n"]"#,
            vec![None, Some(vec![1, 2]), None, None, None, Some(vec![]), None],
        ),
        (r#"[[1],[2,"x"],[3]]"#, vec![Some(vec![1]), None, Some(vec![3])]),
    ] {
        same::<Lenient>(text);
        assert_eq!(from_str::<Lenient>(text), Ok(Lenient(fit)));
    }
    assert!(serde_json::from_str::<Lenient>(r#"[[1],["x",2],[3]]"#).is_err());
    assert!(from_str::<Lenient>(r#"[[1],["x",2],[3]]"#).is_err());
}

#[test]
fn mismatch_may_precede_missing_bracket() {
    // The content precedes its tag, so its type is already wrong when the tag is read. The
    // deserializer does not read the text after the tag.
    let text = r#"{"c":[1],"t":{"Unit":null{"#;
    same::<Adjacent>(text);
    assert!(matches!(from_str::<Adjacent>(text), Err(JsonError::Shape { .. })));
}

/// Compares only values, because serde_json returns another category of error for some names.
#[test]
fn bool_keys_match_serde_json() {
    for name in ["true", "false", "", "t", "truex", "fals", "null", "1", "\\u0074rue", "\\x"] {
        for text in [format!("{{\"{name}\":1}}"), format!("{{\"{name}"), format!("{{\"{name}\"")] {
            let theirs = serde_json::from_str::<BTreeMap<bool, u8>>(&text).ok();
            assert_eq!(from_str::<BTreeMap<bool, u8>>(&text).ok(), theirs, "{text}");
        }
    }
}

fn raw(text: &str) -> Result<(), String> {
    difference::<Box<RawValue>>(text, |theirs, ours| theirs.get() == ours.get())?;
    difference::<Vec<&RawValue>>(text, |theirs, ours| format!("{theirs:?}") == format!("{ours:?}"))?;
    difference::<BTreeMap<String, Box<RawValue>>>(text, |theirs, ours| {
        format!("{theirs:?}") == format!("{ours:?}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_matches_serde_json_as_value(text in text::text()) {
        same_value(&text);
        same::<IgnoredAny>(&text);
        raw(&text).unwrap();
    }

    #[test]
    fn any_text_matches_serde_json_as_struct(text in text::text()) {
        same::<Fields>(&text);
        same::<Strict>(&text);
        same::<Flat>(&text);
        same::<Borrowed<'_>>(&text);
        same::<Option<Newtype>>(&text);
        same::<Nothing>(&text);
        same::<Vec<Pair>>(&text);
        same::<(NearlyEqualValue, NearlyEqualValue)>(&text);
        same::<[Option<bool>; 2]>(&text);
        same::<()>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_enum(text in text::text()) {
        same::<External>(&text);
        same::<Vec<External>>(&text);
        same::<Internal>(&text);
        same::<Adjacent>(&text);
        same::<Untagged>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_map(text in text::text()) {
        same::<BTreeMap<String, IgnoredAny>>(&text);
        same::<BTreeMap<u8, NearlyEqualValue>>(&text);
        same::<BTreeMap<i64, IgnoredAny>>(&text);
        same::<BTreeMap<u128, IgnoredAny>>(&text);
        same::<BTreeMap<i128, IgnoredAny>>(&text);
        same::<BTreeMap<char, IgnoredAny>>(&text);
        same::<BTreeMap<External, IgnoredAny>>(&text);
        same::<HashMap<Newtype, IgnoredAny>>(&text);
        same::<BTreeMap<Option<Cow<'_, str>>, IgnoredAny>>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_bytes_and_chars(text in text::text()) {
        same::<Bytes>(&text);
        same::<&[u8]>(&text);
        same::<Vec<Bytes>>(&text);
        same::<char>(&text);
        same::<String>(&text);
        same::<&str>(&text);
    }
}

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

use super::{NearlyEqualValue, check_same, check_same_value, difference, text};
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
        check_same::<First>(text);
        check_same::<Vec<First>>(text);
        check_same::<(First, IgnoredAny)>(text);
        check_same::<BTreeMap<String, First>>(text);
        check_same::<Option<[First; 1]>>(text);
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
        check_same::<Lenient>(text);
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
    check_same::<Adjacent>(text);
    assert!(matches!(from_str::<Adjacent>(text), Err(JsonError::Shape { .. })));
}

/// Compares only values, because serde_json returns another category of error for some names.
#[test]
fn bool_keys_match_serde_json() {
    for name in ["true", "false", "", "t", "truex", "fals", "null", "1", "\\u0074rue", "\\x"] {
        for text in [format!("{{\"{name}\":1}}"), format!("{{\"{name}"), format!("{{\"{name}\"")] {
            let expected = serde_json::from_str::<BTreeMap<bool, u8>>(&text).ok();
            assert_eq!(from_str::<BTreeMap<bool, u8>>(&text).ok(), expected, "{text}");
        }
    }
}

fn raw(text: &str) -> Result<(), String> {
    difference::<Box<RawValue>>(text, |expected, actual| expected.get() == actual.get())?;
    difference::<Vec<&RawValue>>(text, |expected, actual| format!("{expected:?}") == format!("{actual:?}"))?;
    difference::<BTreeMap<String, Box<RawValue>>>(text, |expected, actual| {
        format!("{expected:?}") == format!("{actual:?}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_matches_serde_json_as_value(text in text::text()) {
        check_same_value(&text);
        check_same::<IgnoredAny>(&text);
        raw(&text).unwrap();
    }

    #[test]
    fn any_text_matches_serde_json_as_struct(text in text::text()) {
        check_same::<Fields>(&text);
        check_same::<Strict>(&text);
        check_same::<Flat>(&text);
        check_same::<Borrowed<'_>>(&text);
        check_same::<Option<Newtype>>(&text);
        check_same::<Nothing>(&text);
        check_same::<Vec<Pair>>(&text);
        check_same::<(NearlyEqualValue, NearlyEqualValue)>(&text);
        check_same::<[Option<bool>; 2]>(&text);
        check_same::<()>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_enum(text in text::text()) {
        check_same::<External>(&text);
        check_same::<Vec<External>>(&text);
        check_same::<Internal>(&text);
        check_same::<Adjacent>(&text);
        check_same::<Untagged>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_map(text in text::text()) {
        check_same::<BTreeMap<String, IgnoredAny>>(&text);
        check_same::<BTreeMap<u8, NearlyEqualValue>>(&text);
        check_same::<BTreeMap<i64, IgnoredAny>>(&text);
        check_same::<BTreeMap<u128, IgnoredAny>>(&text);
        check_same::<BTreeMap<i128, IgnoredAny>>(&text);
        check_same::<BTreeMap<char, IgnoredAny>>(&text);
        check_same::<BTreeMap<External, IgnoredAny>>(&text);
        check_same::<HashMap<Newtype, IgnoredAny>>(&text);
        check_same::<BTreeMap<Option<Cow<'_, str>>, IgnoredAny>>(&text);
    }

    #[test]
    fn any_text_matches_serde_json_as_bytes_and_chars(text in text::text()) {
        check_same::<Bytes>(&text);
        check_same::<&[u8]>(&text);
        check_same::<Vec<Bytes>>(&text);
        check_same::<char>(&text);
        check_same::<String>(&text);
        check_same::<&str>(&text);
    }
}

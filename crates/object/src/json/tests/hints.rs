//! Tests that `size_hint` of an array is exact, after any read or skipped values.

use std::fmt;

use proptest::prelude::*;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::text;
use crate::json::from_str;

/// Reads a complete value, and panics if the `size_hint` of an array is wrong. Skips fields with
/// the name `a`, and reads fields with the name `b` as raw values.
#[derive(Debug)]
struct Counted;

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counted)
    }
}

impl<'de> Visitor<'de> for Counted {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(Self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self, A::Error> {
        let hint = elements.size_hint();
        let mut read = 0;
        while elements.next_element::<Self>()?.is_some() {
            read += 1;
            assert_eq!(elements.size_hint(), hint.map(|hint| hint - read), "after {read} of {hint:?}");
        }
        assert_eq!(hint, Some(read));
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "a" => fields.next_value().map(|IgnoredAny| ())?,
                "b" => fields.next_value().map(|_: Box<RawValue>| ())?,
                _ => fields.next_value().map(|Self| ())?,
            }
        }
        Ok(self)
    }
}

#[test]
fn size_hint_is_exact_for_examples() {
    for text in [
        "[]",
        "[ ]",
        "[[],[1],[1,2]]",
        r#"[{"x":[1,2,3],"a":[[],[[1]]],"y":[1,[2,3],"],["]},[4]]"#,
        r#"{"x":[1],"b":[[1],[2]],"y":[1,2,[3,4,5]],"a":[],"z":[0]}"#,
        r#"["a,b","[\"],[\\",{"d":[","]}]"#,
    ] {
        from_str::<Counted>(text).unwrap();
    }
}

#[test]
fn deeply_nested_values_can_be_skipped() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [126, 127, 128, 129, 1000] {
        let text = format!(r#"[1,{{"a":{}}},[2,3]]"#, deep(depth));
        from_str::<Counted>(&text).unwrap();
        let text = format!(r#"{{"a":{},"x":[2,3]}}"#, deep(depth));
        from_str::<Counted>(&text).unwrap();
    }
}

#[test]
fn depth_limit_matches_serde_json() {
    for depth in [1, 126, 127, 128, 129, 5000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            super::check_same_value(&text);
            super::check_same::<IgnoredAny>(&text);
        }
    }
}

#[test]
fn vec_capacity_is_exact() {
    for length in [0, 1, 3, 5, 17, 100] {
        let text = serde_json::to_string(&vec![vec!["a".to_owned(); 3]; length]).unwrap();
        let value: Vec<Vec<String>> = from_str(&text).unwrap();
        assert_eq!((value.capacity(), value.len()), (length, length));
        assert!(value.iter().all(|inner| inner.capacity() == 3));
    }
}

proptest! {
    #[test]
    fn size_hint_is_exact_for_any_value(value in text::value(), pretty in any::<bool>()) {
        from_str::<Counted>(&text::write(&value, pretty, None)).unwrap();
    }
}

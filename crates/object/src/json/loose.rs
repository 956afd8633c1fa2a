//! `Loose`: reads the identity of an object whose JSON has an unusual notation.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Holds the strings and objects of a value. If a field occurs twice, the last value is used, like
/// in Go's decoder and in the types of k8s-openapi.
#[derive(Debug)]
pub(crate) enum Loose {
    Text(String),
    Object(BTreeMap<String, Loose>),
    Other,
}

impl Loose {
    /// Returns a field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Loose> {
        match self {
            Loose::Object(fields) => fields.get(name),
            Loose::Text(_) | Loose::Other => None,
        }
    }

    /// Returns the text of a string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Loose::Text(text) => Some(text),
            Loose::Object(_) | Loose::Other => None,
        }
    }

    /// Returns the fields of an object of strings, in the order of names.
    pub(crate) fn texts(&self) -> Option<Vec<(&str, &str)>> {
        match self {
            Loose::Object(fields) => {
                fields.iter().map(|(name, value)| Some((&**name, value.text()?))).collect()
            }
            Loose::Text(_) | Loose::Other => None,
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyJson)
    }
}

struct AnyJson;

impl<'de> Visitor<'de> for AnyJson {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Loose, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Loose, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = entries.next_entry()? {
            fields.insert(name, value);
        }
        Ok(Loose::Object(fields))
    }
}

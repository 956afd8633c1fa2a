//! `Loose`: an object whose JSON is not as plain as servers write it, read whole to find out who it is.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value of which texts and objects count. Of fields that are there twice the last one counts, as it does for Go's
/// decoder and for the types of k8s-openapi.
#[derive(Debug)]
pub(crate) enum Loose {
    Text(String),
    Object(BTreeMap<String, Loose>),
    Other,
}

impl Loose {
    /// A field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Loose> {
        match self {
            Loose::Object(fields) => fields.get(name),
            Loose::Text(_) | Loose::Other => None,
        }
    }

    /// What it says, if it is a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Loose::Text(text) => Some(text),
            Loose::Object(_) | Loose::Other => None,
        }
    }

    /// The fields of an object of texts, by name.
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

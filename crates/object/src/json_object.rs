//! `JsonObject`: deserializes a struct from a JSON object only.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Deserializes a struct from a JSON object, and rejects other JSON. A derived `Deserialize` also
/// accepts an array, so it could read the first element of an array as a kind or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonObject<T>(pub T);

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = JsonObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(JsonObject)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Named<'a> {
        name: &'a str,
    }

    #[test]
    fn arrays_are_rejected() {
        let read = |text| serde_json::from_str::<JsonObject<Named<'_>>>(text).ok();
        assert_eq!(read(r#"{"name":"a"}"#), Some(JsonObject(Named { name: "a" })));
        assert_eq!(read(r#"["a"]"#), None);
        assert_eq!(read(r#""a""#), None);
    }
}

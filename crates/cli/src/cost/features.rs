//! The properties of the JSON of objects from which the memory of a cache is predicted.
//!
//! kube-bench contains this module too, because coefficients fit only to the same properties.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// Contains the properties of a set of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Features {
    /// The number of objects.
    pub(crate) objects: u64,
    /// The bytes of the JSON without managedFields.
    pub(crate) bytes: u64,
    /// The number of JSON values without managedFields: scalars, maps and lists.
    pub(crate) values: u64,
    /// The bytes of the JSON of managedFields.
    pub(crate) managed_bytes: u64,
    /// The number of JSON values in managedFields.
    pub(crate) managed_values: u64,
}

/// The number of features.
pub(crate) const FEATURES: usize = 5;

impl Features {
    /// Returns the features of one object.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not the JSON of an object, or if the JSON is nested too deeply.
    pub(crate) fn of_json(json: &[u8]) -> serde_json::Result<Self> {
        let object: ObjectParts<'_> = serde_json::from_slice(json)?;
        let managed = object.metadata.managed_fields.map_or("", RawValue::get);
        let managed_values = if managed.is_empty() { 0 } else { count(managed.as_bytes())? };
        let values = count(json)?;
        Ok(Self {
            objects: 1,
            bytes: (json.len() - managed.len()) as u64,
            values: values - managed_values,
            managed_bytes: managed.len() as u64,
            managed_values,
        })
    }

    /// Adds the features of other objects.
    pub(crate) fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.values += other.values;
        self.managed_bytes += other.managed_bytes;
        self.managed_values += other.managed_values;
    }

    /// Returns the features in the order of the coefficients.
    pub(crate) fn array(&self) -> [f64; FEATURES] {
        [self.objects, self.bytes, self.values, self.managed_bytes, self.managed_values]
            .map(|count| count as f64)
    }
}

#[derive(serde::Deserialize)]
struct ObjectParts<'a> {
    #[serde(borrow, default)]
    metadata: MetadataParts<'a>,
}

#[derive(Default, serde::Deserialize)]
struct MetadataParts<'a> {
    #[serde(borrow, rename = "managedFields", default)]
    managed_fields: Option<&'a RawValue>,
}

/// Counts the values in JSON.
fn count(json: &[u8]) -> serde_json::Result<u64> {
    let mut values = 0;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Count(&mut values).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(values)
}

/// Adds the values of one JSON value to a number.
struct Count<'a>(&'a mut u64);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.0 += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Count(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key_seed(Name)?.is_some() {
            fields.next_value_seed(Count(&mut *self.0))?;
        }
        Ok(())
    }
}

/// Reads the name of a field, which is not a value.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = IgnoredAny;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<IgnoredAny, D::Error> {
        IgnoredAny::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_counted_separately() {
        let json = br#"{"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:x":{}}}]},"spec":{"a":[1,true,null,2.5,-1]}}"#;
        let features = Features::of_json(json).unwrap();
        let managed = br#"[{"fieldsV1":{"f:x":{}}}]"#.len() as u64;
        let expected = Features {
            objects: 1,
            bytes: json.len() as u64 - managed,
            values: 10,
            managed_bytes: managed,
            managed_values: 4,
        };
        assert_eq!(features, expected);
        let mut two = features;
        two.add(&features);
        assert_eq!(two.array(), features.array().map(|value| 2.0 * value));
    }

    #[test]
    fn objects_without_metadata_have_no_managed_fields() {
        assert_eq!(Features::of_json(b"{}").unwrap().values, 1);
        assert_eq!(Features::of_json(br#"{"metadata":{"managedFields":null}}"#).unwrap().managed_values, 0);
    }

    #[test]
    fn malformed_and_deep_json_is_an_error() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for json in ["", "{", "{} {}", "7", "{\"metadata\":1}", &deep] {
            assert!(Features::of_json(json.as_bytes()).is_err());
        }
    }
}

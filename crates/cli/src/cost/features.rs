//! Reads the properties of the JSON of objects from which the memory of a cache is predicted.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

pub(super) use super::calibration::Features;

impl Features {
    /// Returns the features of one object.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not the JSON of an object, or if the JSON is nested too deeply.
    pub(crate) fn of_json(json: &[u8]) -> serde_json::Result<Self> {
        let object: ObjectParts<'_> = serde_json::from_slice(json)?;
        let managed = object.metadata.managed_fields.map_or("", RawValue::get);
        let in_managed = if managed.is_empty() { Counts::default() } else { count(managed.as_bytes())? };
        let all = count(json)?;
        Ok(Self {
            objects: 1,
            bytes: (json.len() - managed.len()) as u64,
            text_bytes: all.text_bytes - in_managed.text_bytes,
            texts: all.texts - in_managed.texts,
            scalars: all.scalars - in_managed.scalars,
            maps: all.maps - in_managed.maps,
            lists: all.lists - in_managed.lists,
            managed_bytes: managed.len() as u64,
            managed_values: in_managed.texts + in_managed.scalars + in_managed.maps + in_managed.lists,
            ..Self::default()
        })
    }

    /// Counts the data of a Secret as decoded base64, which has 3/4 of its size. `data` is its JSON in bytes.
    pub(crate) fn decode_data(&mut self, data: u64) {
        self.text_bytes -= self.text_bytes.min(data / 4);
    }

    /// Adds the features of other objects.
    pub(crate) fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.text_bytes += other.text_bytes;
        self.texts += other.texts;
        self.scalars += other.scalars;
        self.maps += other.maps;
        self.lists += other.lists;
        self.managed_bytes += other.managed_bytes;
        self.managed_values += other.managed_values;
        self.typed_bytes += other.typed_bytes;
        self.dynamic_bytes += other.dynamic_bytes;
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

/// The numbers of values in JSON.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    text_bytes: u64,
    texts: u64,
    scalars: u64,
    maps: u64,
    lists: u64,
}

/// Counts the values in JSON.
fn count(json: &[u8]) -> serde_json::Result<Counts> {
    let mut counts = Counts::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Count(&mut counts).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(counts)
}

/// Adds one JSON value and its parts to the counts.
struct Count<'a>(&'a mut Counts);

impl Count<'_> {
    fn scalar<E>(self) -> Result<(), E> {
        self.0.scalars += 1;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.scalar()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.texts += 1;
        self.0.text_bytes += text.len() as u64;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.lists += 1;
        while items.next_element_seed(Count(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.0.maps += 1;
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
        let json = br#"{"metadata":{"name":"a","managedFields":[{"fieldsV1":{"f:x":{}}}]},"spec":{"a":["zz",true,null,2.5,-1]}}"#;
        let features = Features::of_json(json).unwrap();
        let managed = br#"[{"fieldsV1":{"f:x":{}}}]"#.len() as u64;
        let expected = Features {
            objects: 1,
            bytes: json.len() as u64 - managed,
            text_bytes: 3,
            texts: 2,
            scalars: 4,
            maps: 3,
            lists: 1,
            managed_bytes: managed,
            managed_values: 4,
            ..Features::default()
        };
        assert_eq!(features, expected);
        let mut two = features;
        two.add(&features);
        assert_eq!((two.objects, two.text_bytes, two.managed_values), (2, 6, 8));
    }

    #[test]
    fn objects_without_metadata_have_no_managed_fields() {
        assert_eq!(Features::of_json(b"{}").unwrap().maps, 1);
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

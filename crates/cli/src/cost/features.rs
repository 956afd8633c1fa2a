//! Reads the properties of the JSON of objects from which the memory of a cache is predicted.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
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
            managed_nodes: in_managed.nodes,
            go_map_bytes: all.go_map_bytes - in_managed.go_map_bytes,
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
        self.managed_nodes += other.managed_nodes;
        self.go_map_bytes += other.go_map_bytes;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    text_bytes: u64,
    texts: u64,
    scalars: u64,
    maps: u64,
    lists: u64,
    /// The nodes of a `BTreeMap` for each map.
    nodes: u64,
    /// The memory of the fields that are maps in Go, in bytes.
    go_map_bytes: u64,
}

/// Counts the values in JSON.
fn count(json: &[u8]) -> serde_json::Result<Counts> {
    let mut counts = Counts::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Count { counts: &mut counts, go_value_bytes: None }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(counts)
}

/// Adds one JSON value and its parts to the counts.
struct Count<'a> {
    counts: &'a mut Counts,
    /// The memory of a value in Go, if a map in this place is a map in Go.
    go_value_bytes: Option<u64>,
}

impl Count<'_> {
    fn scalar<E>(self) -> Result<(), E> {
        self.counts.scalars += 1;
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
        self.counts.texts += 1;
        self.counts.text_bytes += text.len() as u64;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { counts, .. } = self;
        counts.lists += 1;
        while items.next_element_seed(Count { counts: &mut *counts, go_value_bytes: None })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self { counts, go_value_bytes } = self;
        counts.maps += 1;
        let before = *counts;
        let (mut entries, mut key_bytes) = (0, 0);
        while let Some(name) = fields.next_key_seed(Name)? {
            entries += 1;
            key_bytes += name.go_bytes;
            fields.next_value_seed(Count { counts: &mut *counts, go_value_bytes: name.go_value_bytes })?;
        }
        counts.nodes += nodes(entries);
        // Other types have fields with the same names. Their values are not only strings.
        let has_only_texts = Counts { texts: before.texts + entries, ..before }
            == Counts { text_bytes: before.text_bytes, nodes: before.nodes, ..*counts };
        if let Some(value_bytes) = go_value_bytes.filter(|_| has_only_texts) {
            counts.go_map_bytes += go_map_bytes(entries, value_bytes) + key_bytes;
        }
        Ok(())
    }
}

/// Reads the name of a field, which is not a value.
struct Name;

/// The properties of the name of a field.
struct NameParts {
    /// The memory of the name in Go, in bytes.
    go_bytes: u64,
    /// The memory of a value in Go, if fields with this name are maps in Go.
    go_value_bytes: Option<u64>,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = NameParts;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NameParts, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = NameParts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<NameParts, E> {
        // Go rounds the memory of a short string to 8 bytes.
        let go_bytes = (name.len() as u64).next_multiple_of(8);
        Ok(NameParts { go_bytes, go_value_bytes: go_value_bytes(name) })
    }
}

/// Returns the memory of a value in a Go map, without the memory that the value points to, in bytes. Returns
/// `None` if no type of Kubernetes has a map with strings in a field with this name.
fn go_value_bytes(field: &str) -> Option<u64> {
    match field {
        "labels" | "annotations" | "matchLabels" | "nodeSelector" | "selector" | "data" | "stringData"
        | "parameters" | "options" | "volumeAttributes" => Some(16),
        "binaryData" => Some(24),
        // `resource.Quantity`.
        "limits" | "requests" | "capacity" | "allocatable" | "allocatedResources" | "overhead" | "hard"
        | "used" => Some(56),
        _ => None,
    }
}

/// Returns the memory of a Go map whose keys are strings, without the bytes of its keys.
///
/// A Go map consists of groups. A group has 8 slots and 8 control bytes. A map with more than one group
/// doubles before more than 7/8 of its slots are in use. A map with more than 1,024 slots consists of several
/// tables. The tables double at different times, so this map has at most the returned size.
fn go_map_bytes(entries: u64, value_bytes: u64) -> u64 {
    const HEADER: u64 = 48;
    const KEY: u64 = 16;
    let slots = if entries <= 8 { 8 } else { (8 * entries).div_ceil(7).next_power_of_two() };
    HEADER + slots * (1 + KEY + value_bytes)
}

/// Returns the nodes of a `BTreeMap` after the insertion of this number of ordered keys.
///
/// A node has room for 11 entries. The insertion into a full last node moves one key to its parent and 5 keys
/// to a new node. So 6 keys remain in the node.
fn nodes(entries: u64) -> u64 {
    match entries {
        0 => 0,
        1..=11 => 1,
        _ => {
            let moved_up = (entries - 5) / 7;
            1 + moved_up + nodes(moved_up)
        }
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
            managed_nodes: 2,
            ..Features::default()
        };
        assert_eq!(features, expected);
        let mut two = features;
        two.add(&features);
        assert_eq!((two.objects, two.text_bytes, two.managed_values), (2, 6, 8));
    }

    #[test]
    fn maps_of_go_are_counted_by_the_names_of_their_fields() {
        let bytes = |json: &str| Features::of_json(json.as_bytes()).unwrap().go_map_bytes;
        // A group has 8 places with a key of 16 bytes, a value of 16 bytes and one further byte.
        let group = 48 + 8 * 33;
        assert_eq!(bytes(r#"{"metadata":{"labels":{"app":"x"}}}"#), group + 8);
        assert_eq!(bytes(r#"{"spec":{"selector":{"matchLabels":{"application":"x"}}}}"#), group + 16);
        assert_eq!(bytes(r#"{"status":{"capacity":{"cpu":"4"}}}"#), 48 + 8 * 73 + 8);
        for other in [
            r#"{"data":{"replicas":3}}"#,
            r#"{"data":{"list":["x"]}}"#,
            r#"{"data":{"nested":{"x":"y"}}}"#,
            r#"{"spec":{"template":{"x":"y"}}}"#,
            r#"{"metadata":{"managedFields":[{"labels":{"x":"y"}}]}}"#,
            r#"{"data":null}"#,
        ] {
            assert_eq!(bytes(other), 0, "{other}");
        }
    }

    #[test]
    fn maps_of_go_double_when_seven_eighths_are_full() {
        let places = |entries| (go_map_bytes(entries, 16) - 48) / 33;
        let expected = [(0, 8), (1, 8), (8, 8), (9, 16), (14, 16), (15, 32), (112, 128), (113, 256)];
        assert_eq!(expected.map(|(entries, _)| (entries, places(entries))), expected);
    }

    #[test]
    fn ordered_keys_fill_nodes_partly() {
        let expected = [(0, 0), (1, 1), (11, 1), (12, 3), (18, 3), (19, 4), (82, 13)];
        assert_eq!(expected.map(|(entries, _)| (entries, nodes(entries))), expected);
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

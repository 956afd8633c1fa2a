//! The protobuf encoding of a document of version 2, from its JSON. The messages are those of the package
//! `openapi.v2` of gnostic. kubectl reads only the definitions and their types, so the document has no paths
//! and no limits of values.

use serde_json::Value;

#[derive(Debug, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a text, a flag, or each item of a list. Ignores other values.
    fn plain(&mut self, number: u64, value: &Value) {
        match value {
            Value::String(text) => self.bytes(number, text.as_bytes()),
            Value::Bool(flag) => {
                self.varint(number << 3);
                self.varint((*flag).into());
            }
            Value::Array(list) => list.iter().for_each(|item| self.plain(number, item)),
            Value::Null | Value::Number(_) | Value::Object(_) => {}
        }
    }

    /// Adds the extensions of an object, whose names start with `x-`.
    fn extensions(&mut self, number: u64, object: &Value) {
        let all = object.as_object().into_iter().flatten();
        for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
            self.bytes(number, &pair(name, &any(value)));
        }
    }
}

/// Encodes a message in a field of another message.
fn inside(number: u64, message: &[u8]) -> Vec<u8> {
    let mut fields = Fields::default();
    fields.bytes(number, message);
    fields.0
}

/// Encodes a value of any type as text. JSON is also YAML.
fn any(value: &Value) -> Vec<u8> {
    inside(2, value.to_string().as_bytes())
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut fields = Fields::default();
    fields.bytes(1, name.as_bytes());
    fields.bytes(2, value);
    fields.0
}

/// Encodes an object as a message with repeated pairs.
fn pairs(number: u64, object: &Value, encode: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut fields = Fields::default();
    for (name, value) in object.as_object().into_iter().flatten() {
        fields.bytes(number, &pair(name, &encode(value)));
    }
    fields.0
}

pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut info = Fields::default();
    info.plain(1, &document["info"]["title"]);
    info.plain(2, &document["info"]["version"]);
    let mut fields = Fields::default();
    fields.plain(1, &document["swagger"]);
    fields.bytes(2, &info.0);
    fields.bytes(8, &[]);
    fields.bytes(9, &pairs(1, &document["definitions"], schema));
    fields.0
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut fields = Fields::default();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "$ref" => fields.plain(1, value),
            "format" => fields.plain(2, value),
            "title" => fields.plain(3, value),
            "description" => fields.plain(4, value),
            "pattern" => fields.plain(13, value),
            "required" => fields.plain(19, value),
            "enum" => value.as_array().into_iter().flatten().for_each(|one| fields.bytes(20, &any(one))),
            "additionalProperties" if value.is_object() => {
                fields.bytes(21, &inside(1, &self::schema(value)));
            }
            "additionalProperties" => {
                let mut flag = Fields::default();
                flag.plain(2, value);
                fields.bytes(21, &flag.0);
            }
            "type" => fields.bytes(22, &inside(1, value.as_str().unwrap_or_default().as_bytes())),
            "items" => fields.bytes(23, &inside(1, &self::schema(value))),
            "properties" => fields.bytes(25, &pairs(1, value, self::schema)),
            _ => {}
        }
    }
    fields.extensions(31, schema);
    fields.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn document_is_encoded_with_the_numbers_of_gnostic() {
        let document = json!({"swagger": "2.0", "info": {"title": "T", "version": "1"}, "definitions": {
            "A": {"type": "object", "x-a": 1}}});
        let schema = b"\xb2\x01\x08\x0a\x06object\xfa\x01\x0a\x0a\x03x-a\x12\x03\x12\x011";
        let mut expected = b"\x0a\x032.0\x12\x06\x0a\x01T\x12\x011\x42\x00".to_vec();
        let named = [&b"\x0a\x01A\x12"[..], &[schema.len() as u8], schema].concat();
        expected.extend([&b"\x4a"[..], &[named.len() as u8 + 2, 10, named.len() as u8], &named].concat());
        assert_eq!(super::document(&document), expected);
    }

    #[test]
    fn texts_flags_and_lists_have_the_types_of_their_fields() {
        let encoded = |value: Value| super::schema(&value);
        assert_eq!(encoded(json!({"pattern": "a"})), [13 << 3 | 2, 1, b'a']);
        assert_eq!(encoded(json!({"required": ["a", "b"]})), [0x9a, 1, 1, b'a', 0x9a, 1, 1, b'b']);
        assert_eq!(encoded(json!({"additionalProperties": true})), [0xaa, 1, 2, 2 << 3, 1]);
        assert_eq!(encoded(json!({"enum": ["a"]})), [0xa2, 1, 5, 18, 3, b'"', b'a', b'"']);
    }
}

//! The protobuf encoding of a document of version 2, from its JSON. The messages are those of the package
//! `openapi.v2` of gnostic.

use serde_json::Value;

/// The fields of a message.
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

    fn integer(&mut self, number: u64, value: &Value) {
        let value = value.as_i64().or_else(|| value.as_f64().map(|float| float as i64));
        self.varint(number << 3);
        self.varint(value.unwrap_or_default() as u64);
    }

    fn double(&mut self, number: u64, value: &Value) {
        self.varint(number << 3 | 1);
        self.0.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
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

/// Encodes a document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut info = Fields::default();
    info.plain(1, &document["info"]["title"]);
    info.plain(2, &document["info"]["version"]);
    let mut fields = Fields::default();
    fields.plain(1, &document["swagger"]);
    fields.bytes(2, &info.0);
    fields.bytes(8, &pairs(2, &document["paths"], path));
    fields.bytes(9, &pairs(1, &document["definitions"], schema));
    fields.0
}

fn path(path: &Value) -> Vec<u8> {
    let mut fields = Fields::default();
    for (method, number) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if let Some(found) = path.get(method) {
            fields.bytes(number, &operation(found));
        }
    }
    parameters(&mut fields, 9, path);
    fields.0
}

fn operation(operation: &Value) -> Vec<u8> {
    let response = |response: &Value| {
        let mut fields = Fields::default();
        fields.plain(1, &response["description"]);
        fields.bytes(2, &inside(1, &schema(&response["schema"])));
        inside(1, &fields.0)
    };
    let mut fields = Fields::default();
    fields.plain(6, &operation["produces"]);
    fields.plain(7, &operation["consumes"]);
    parameters(&mut fields, 8, operation);
    fields.bytes(9, &pairs(1, &operation["responses"], response));
    fields.extensions(13, operation);
    fields.0
}

fn parameters(fields: &mut Fields, number: u64, of: &Value) {
    for parameter in of["parameters"].as_array().into_iter().flatten() {
        let mut found = Fields::default();
        let place = parameter["in"].as_str();
        let names = match place {
            Some("body") => [("name", 2), ("in", 3), ("required", 4), ("", 0), ("", 0)],
            Some("path") => [("required", 1), ("in", 2), ("name", 4), ("type", 5), ("uniqueItems", 19)],
            _ => [("required", 1), ("in", 2), ("name", 4), ("type", 6), ("uniqueItems", 20)],
        };
        names.iter().for_each(|(name, number)| found.plain(*number, &parameter[*name]));
        let found = match place {
            Some("body") => {
                found.bytes(5, &schema(&parameter["schema"]));
                inside(1, &found.0)
            }
            Some("path") => inside(2, &inside(4, &found.0)),
            _ => inside(2, &inside(3, &found.0)),
        };
        fields.bytes(number, &inside(1, &found));
    }
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut fields = Fields::default();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "$ref" => fields.plain(1, value),
            "format" => fields.plain(2, value),
            "title" => fields.plain(3, value),
            "description" => fields.plain(4, value),
            "multipleOf" => fields.double(6, value),
            "maximum" => fields.double(7, value),
            "exclusiveMaximum" => fields.plain(8, value),
            "minimum" => fields.double(9, value),
            "exclusiveMinimum" => fields.plain(10, value),
            "maxLength" => fields.integer(11, value),
            "minLength" => fields.integer(12, value),
            "pattern" => fields.plain(13, value),
            "maxItems" => fields.integer(14, value),
            "minItems" => fields.integer(15, value),
            "uniqueItems" => fields.plain(16, value),
            "maxProperties" => fields.integer(17, value),
            "minProperties" => fields.integer(18, value),
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

//! The path of a value in messages, such as `spec.list[0].name`.

use serde_json::Value;

use crate::schemas::crd::schema::node::{self, Additional};

/// The path of a value. The path of the object is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn field(&self, name: &str) -> Self {
        Self(if self.0.is_empty() { name.into() } else { format!("{}.{name}", self.0) })
    }

    /// Returns the path of an entry of a map with `additionalProperties`.
    pub(crate) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

/// Calls `each` for a value and for all values below it that have a schema.
pub(crate) fn visit(value: &Value, schema: &Value, path: &Path, each: &mut dyn FnMut(&Value, &Value, &Path)) {
    each(value, schema, path);
    match (value, node::items(schema)) {
        (Value::Object(map), _) => {
            for (key, value) in map {
                match (node::property(schema, key), node::additional(schema)) {
                    (Some(property), _) => visit(value, property, &path.field(key), each),
                    (None, Additional::Schema(schema)) => visit(value, schema, &path.key(key), each),
                    (None, Additional::Unknown | Additional::Unspecified) => {}
                }
            }
        }
        (Value::Array(list), Some(items)) => {
            for (index, item) in list.iter().enumerate() {
                visit(item, items, &path.item(index), each);
            }
        }
        _ => {}
    }
}

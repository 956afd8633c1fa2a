//! The path of a value in messages, such as `spec.list[0].name`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::schemas::crd::schema::node::{self, Additional};

/// The current path during a walk through an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path of a field of the current value.
    pub(crate) fn child(&self, name: &str) -> String {
        if self.0.is_empty() { name.into() } else { format!("{}.{name}", self.0) }
    }

    /// Appends a field. The caller must truncate the path after the walk.
    pub(crate) fn push_field(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(name);
    }

    /// Appends an item of a list. The caller must truncate the path after the walk.
    pub(crate) fn push_item(&mut self, index: usize) {
        // A write to a string does not fail.
        let _ = write!(self.0, "[{index}]");
    }

    /// Shortens the path to a previous length of its text.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    /// Walks into a field.
    pub(crate) fn enter<T>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        self.push_field(name);
        self.walk(length, walk)
    }

    /// Walks into an entry of a map with `additionalProperties`.
    pub(crate) fn enter_key<T>(&mut self, key: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        // A write to a string does not fail.
        let _ = write!(self.0, "[{key}]");
        self.walk(length, walk)
    }

    /// Walks into an item of a list.
    pub(crate) fn enter_item<T>(&mut self, index: usize, walk: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        self.push_item(index);
        self.walk(length, walk)
    }

    fn walk<T>(&mut self, length: usize, walk: impl FnOnce(&mut Self) -> T) -> T {
        let result = walk(self);
        self.0.truncate(length);
        result
    }
}

/// Calls `each` for a value and for all values below it that have a schema.
pub(crate) fn visit(
    value: &Value,
    schema: &Value,
    path: &mut Path,
    each: &mut dyn FnMut(&Value, &Value, &mut Path),
) {
    each(value, schema, path);
    match (value, node::items(schema)) {
        (Value::Object(map), _) => {
            for (key, value) in map {
                match (node::property(schema, key), node::additional(schema)) {
                    (Some(property), _) => path.enter(key, |path| visit(value, property, path, each)),
                    (None, Additional::Schema(schema)) => {
                        path.enter_key(key, |path| visit(value, schema, path, each));
                    }
                    (None, Additional::Unknown | Additional::Unspecified) => {}
                }
            }
        }
        (Value::Array(list), Some(items)) => {
            for (index, item) in list.iter().enumerate() {
                path.enter_item(index, |path| visit(item, items, path, each));
            }
        }
        _ => {}
    }
}

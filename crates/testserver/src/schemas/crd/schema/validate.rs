//! Validates a value by a structural schema, with the messages and the order of kube-apiserver.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde_json::{Map, Value};

use crate::schemas::crd::schema::lists::key_of;
use crate::schemas::crd::schema::path::Path;
use crate::schemas::crd::schema::{node, scalars};
use crate::status::Cause;

/// The field of an error that applies to the entire object.
pub(crate) const NO_FIELD: &str = "<nil>";

/// A schema with its compiled patterns.
#[derive(Debug)]
pub(crate) struct Validator {
    patterns: HashMap<String, Regex>,
}

/// The previous value of an update, and its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub value: &'a Value,
    pub schema: &'a Value,
}

impl<'a> Before<'a> {
    fn field(self, name: &str) -> Option<Self> {
        Some(Self { value: self.value.get(name)?, schema: node::field(self.schema, name)? })
    }

    /// Returns the previous item with the same key. Only lists with keys have such items.
    fn item(self, item: &Value) -> Option<Self> {
        if node::text(self.schema, "x-kubernetes-list-type") != "map" {
            return None;
        }
        let key = key_of(item, self.schema);
        let value = self.value.as_array()?.iter().find(|old| key_of(old, self.schema) == key)?;
        Some(Self { value, schema: node::items(self.schema)? })
    }
}

impl Validator {
    /// Compiles the patterns of a schema. CRDs with an invalid pattern were rejected before.
    pub(crate) fn new(schema: &Value) -> Self {
        let patterns = RefCell::new(HashMap::new());
        node::any(schema, &|node| {
            let pattern = node::text(node, "pattern");
            if let Ok(compiled) = Regex::new(&scalars::ascii_classes(pattern)) {
                patterns.borrow_mut().insert(pattern.to_owned(), compiled);
            }
            false
        });
        Self { patterns: patterns.into_inner() }
    }

    /// Validates the value of `field`. An empty field means the object. Errors in values that did not
    /// change are tolerated.
    pub(crate) fn validate(
        &self,
        schema: &Value,
        value: &Value,
        field: &str,
        before: Option<Before<'_>>,
    ) -> Vec<Cause> {
        let mut walk = Walk { validator: self, field, causes: Vec::new() };
        walk.node(schema, value, before, &Path::default());
        walk.causes
    }
}

struct Walk<'a> {
    validator: &'a Validator,
    /// The field of the validated value. Empty for the object.
    field: &'a str,
    causes: Vec<Cause>,
}

impl Walk<'_> {
    /// Runs the checks of a schema node in the order of kube-apiserver.
    fn node(&mut self, schema: &Value, value: &Value, before: Option<Before<'_>>, path: &Path) {
        if before.is_some_and(|before| before.value == value) {
            return;
        }
        let (name, at) = (path.text(), self.at(path));
        self.causes.extend(scalars::wrong_type(schema, value, name, &at));
        // For a null, only the type and the enum are checked.
        if !value.is_null() {
            self.any_or_one_of(schema, value, before, path);
        }
        self.all_of(schema, value, before, path);
        if !value.is_null() {
            let not = schema.get("not").filter(|inner| inner.is_object());
            if not.is_some_and(|inner| self.errors(inner, value) == 0) {
                self.causes.push(without_field(&format!("\"{name}\" must not validate the schema (not)")));
            }
            let pattern = self.validator.patterns.get(node::text(schema, "pattern"));
            self.causes.extend(scalars::text(schema, value, name, &at, pattern));
            self.causes.extend(scalars::number(schema, value, name, &at));
        }
        if let (Value::Array(list), Some(items)) = (value, node::items(schema)) {
            for (index, item) in list.iter().enumerate() {
                let before = before.and_then(|before| before.item(item));
                self.node(items, item, before, &path.item(index));
            }
        }
        self.causes.extend(scalars::size(schema, value, name, &at));
        self.causes.extend(scalars::not_in_enum(schema, value, &at));
        if let Value::Object(object) = value {
            if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                let unknown = object.keys().filter(|key| node::property(schema, key).is_none());
                self.causes.extend(unknown.map(|key| {
                    let text = format!("{name}.{key} in body is a forbidden property");
                    Cause::invalid_text(&at, key, &text)
                }));
            }
            self.fields(schema, object, before, path);
            let missing = node::texts(schema, "required").filter(|name| !object.contains_key(*name));
            let missing: Vec<Cause> =
                missing.map(|name| Cause::required(&self.at(&path.field(name)), "")).collect();
            self.causes.extend(missing);
        }
    }

    /// Walks into the fields, in the order of their names.
    fn fields(
        &mut self,
        schema: &Value,
        object: &Map<String, Value>,
        before: Option<Before<'_>>,
        path: &Path,
    ) {
        for (name, value) in object.iter().collect::<BTreeMap<_, _>>() {
            let Some(field) = node::field(schema, name) else { continue };
            let before = before.and_then(|before| before.field(name));
            self.node(field, value, before, &path.field(name));
        }
    }

    fn any_or_one_of(&mut self, schema: &Value, value: &Value, before: Option<Before<'_>>, path: &Path) {
        for (key, count) in [("anyOf", "at least one schema"), ("oneOf", "one and only one schema")] {
            let parts = node::list(schema, key);
            let valid = parts.iter().filter(|part| self.errors(part, value) == 0).count();
            let found = match (key, valid) {
                _ if parts.is_empty() => continue,
                ("anyOf", 0) => String::new(),
                ("oneOf", 0) => ". Found none valid".into(),
                ("oneOf", 2..) => format!(". Found {valid} valid alternatives"),
                _ => continue,
            };
            self.fail(path, &format!("{count} ({key}){found}"));
            if valid == 0 {
                self.best(parts, value, before, path);
            }
        }
    }

    fn all_of(&mut self, schema: &Value, value: &Value, before: Option<Before<'_>>, path: &Path) {
        let parts = node::list(schema, "allOf");
        let mut failed = 0;
        for part in parts {
            let count = self.causes.len();
            self.node(part, value, before, path);
            failed += usize::from(self.causes.len() > count);
        }
        if failed > 0 {
            let none = if failed == parts.len() { ". None validated" } else { "" };
            self.fail(path, &format!("all the schemas (allOf){none}"));
        }
    }

    /// Reports that the alternatives of a value do not match.
    fn fail(&mut self, path: &Path, what: &str) {
        self.causes.push(without_field(&format!("\"{}\" must validate {what}", path.text())));
    }

    /// Adds the causes of the first alternative with the fewest errors.
    fn best(&mut self, parts: &[Value], value: &Value, before: Option<Before<'_>>, path: &Path) {
        let best = parts.iter().min_by_key(|part| self.errors(part, value));
        if let Some(best) = best {
            self.node(best, value, before, path);
        }
    }

    fn errors(&self, schema: &Value, value: &Value) -> usize {
        self.validator.validate(schema, value, "", None).len()
    }

    fn at(&self, path: &Path) -> String {
        match (self.field, path.text()) {
            ("", "") => NO_FIELD.into(),
            (field, "") => field.into(),
            ("", path) => path.into(),
            (field, path) => format!("{field}.{path}"),
        }
    }
}

pub(super) fn without_field(text: &str) -> Cause {
    Cause::invalid(NO_FIELD, "\"\"", text)
}

#[cfg(test)]
mod tests;

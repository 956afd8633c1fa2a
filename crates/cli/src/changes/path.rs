//! `FieldPath`: the path of a field in an object, and `Pattern`: the paths that a user selects.

use std::{fmt, str::FromStr};

use serde_json::Value;

/// A step from a value to one of its parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A field of a map.
    Field(String),
    /// The item of a list whose field `key` has this value.
    Item { key: &'static str, value: Value },
    /// The item of a list at this position.
    Index(usize),
}

/// The position of a field, for example `spec.containers[name=app].image`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldPath(Vec<Step>);

impl FieldPath {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns the path of a part of this field.
    pub(super) fn join(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

#[cfg(test)]
impl FieldPath {
    /// Returns a path of fields.
    pub(super) fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Step::Field((*name).to_owned())).collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if is_plain(name) && index > 0 => write!(f, ".{name}")?,
                Step::Field(name) if is_plain(name) => f.write_str(name)?,
                Step::Field(name) => write!(f, "[{name:?}]")?,
                Step::Item { key, value: Value::String(text) } => write!(f, "[{key}={text}]")?,
                Step::Item { key, value } => write!(f, "[{key}={value}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Returns whether a name needs no quotes in a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '$'))
}

/// A path in the command line. List items are optional: `spec.containers.image` selects the images of all
/// containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Field(String),
    /// The item of a list whose field `key` has the value.
    Item {
        key: String,
        value: String,
    },
    Index(usize),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid =
            || format!("invalid path {text:?}: use for example spec.replicas or metadata.labels[\"a.b/c\"]");
        let mut parts = Vec::new();
        let mut rest = text.trim().trim_start_matches('.');
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner).ok_or_else(invalid)?;
                parts.push(bracket(&inner[..end]).ok_or_else(invalid)?);
                rest = &inner[end + 1..];
                if let Some(next) = rest.strip_prefix('.') {
                    rest = next;
                }
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(invalid());
                }
                parts.push(Part::Field(rest[..end].to_owned()));
                rest = &rest[end..];
                rest = rest.strip_prefix('.').unwrap_or(rest);
            }
        }
        if parts.is_empty() { Err(invalid()) } else { Ok(Self(parts)) }
    }
}

/// Returns the position of the closing bracket of this text. A JSON string can contain brackets.
fn closing(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    for (index, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return Some(index),
            _ => {}
        }
    }
    None
}

/// Parses the contents of brackets: a position, a name as a JSON string, or a key and its value.
fn bracket(text: &str) -> Option<Part> {
    if text.starts_with('"') {
        return serde_json::from_str(text).ok().map(Part::Field);
    }
    if let Ok(index) = text.parse() {
        return Some(Part::Index(index));
    }
    let (key, value) = text.split_once('=')?;
    let value = value.trim_matches('"');
    (!key.is_empty()).then(|| Part::Item { key: key.to_owned(), value: value.to_owned() })
}

impl Pattern {
    /// Returns whether a change of the field can change a selected field. The field is selected, is a part of
    /// a selected field, or contains a selected field.
    pub(crate) fn concerns(&self, path: &FieldPath) -> bool {
        let mut steps = path.steps().iter().peekable();
        for part in &self.0 {
            // The pattern can omit list items.
            while matches!(part, Part::Field(_))
                && steps.next_if(|step| !matches!(step, Step::Field(_))).is_some()
            {}
            let Some(step) = steps.next() else { return true };
            let is_equal = match (part, step) {
                (Part::Field(name), Step::Field(own)) => name == own,
                (Part::Index(index), Step::Index(own)) => index == own,
                (Part::Item { key, value }, Step::Item { key: own, value: item }) => {
                    key == own && *value == text_of(item)
                }
                // The diff has identified the item by another field, so the change can concern the item.
                (Part::Index(_) | Part::Item { .. }, Step::Item { .. } | Step::Index(_)) => true,
                _ => false,
            };
            if !is_equal {
                return false;
            }
        }
        true
    }

    /// Returns the values of the field in an object: several values if the pattern omits the item of a list.
    pub(crate) fn values<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut values = vec![object];
        for part in &self.0 {
            values = values.into_iter().flat_map(|value| part.select(value)).collect();
        }
        values
    }

    /// Calls `change` with each value of the field in an object.
    pub(crate) fn for_each_mut(&self, object: &mut Value, change: &mut impl FnMut(&mut Value)) {
        change_parts(&self.0, object, change);
    }
}

impl Part {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Field(name), Value::Array(items)) => {
                items.iter().filter_map(|item| item.get(name)).collect()
            }
            (Self::Index(index), Value::Array(items)) => items.get(*index).into_iter().collect(),
            (Self::Item { key, value }, Value::Array(items)) => {
                let has_value = |item: &&Value| item.get(key).is_some_and(|own| text_of(own) == *value);
                items.iter().filter(has_value).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn change_parts(parts: &[Part], value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    let Some((part, rest)) = parts.split_first() else { return change(value) };
    match (part, value) {
        (Part::Field(name), Value::Object(fields)) => {
            fields.get_mut(name).into_iter().for_each(|field| change_parts(rest, field, change));
        }
        (Part::Field(_), Value::Array(items)) => {
            items.iter_mut().for_each(|item| change_parts(parts, item, change));
        }
        (Part::Index(index), Value::Array(items)) => {
            items.get_mut(*index).into_iter().for_each(|item| change_parts(rest, item, change));
        }
        (Part::Item { key, value }, Value::Array(items)) => {
            let has_value = |item: &&mut Value| item.get(key).is_some_and(|own| text_of(own) == *value);
            items.iter_mut().filter(has_value).for_each(|item| change_parts(rest, item, change));
        }
        _ => {}
    }
}

/// Returns a value as a text. A string has no quotes.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            match part {
                Part::Field(name) if is_plain(name) && index > 0 => write!(f, ".{name}")?,
                Part::Field(name) if is_plain(name) => f.write_str(name)?,
                Part::Field(name) => write!(f, "[{name:?}]")?,
                Part::Item { key, value } => write!(f, "[{key}={value}]")?,
                Part::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container_image() -> FieldPath {
        let item = Step::Item { key: "name", value: json!("app") };
        FieldPath::of_fields(&["spec", "containers"]).join(item).join(Step::Field("image".to_owned()))
    }

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn names_with_dots_are_json_strings() {
        assert_eq!(container_image().to_string(), "spec.containers[name=app].image");
        let label = FieldPath::of_fields(&["metadata", "labels", "a.b/c"]);
        assert_eq!(label.to_string(), "metadata.labels[\"a.b/c\"]");
    }

    #[test]
    fn pattern_matches_the_field_its_parents_and_items() {
        for text in
            ["spec", "spec.containers.image", "spec.containers[name=app]", ".spec.containers[0].image"]
        {
            assert!(pattern(text).concerns(&container_image()), "{text}");
        }
        for text in ["status", "spec.containers[name=proxy].image", "spec.containers.name", "specs"] {
            assert!(!pattern(text).concerns(&container_image()), "{text}");
        }
        assert!(pattern("spec.replicas").concerns(&FieldPath::of_fields(&["spec"])));
    }

    #[test]
    fn pattern_selects_values() {
        let object =
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}});
        assert_eq!(pattern("spec.containers.image").values(&object), [&json!("1"), &json!("2")]);
        assert_eq!(pattern("spec.containers[name=b].image").values(&object), [&json!("2")]);
        assert_eq!(pattern("spec.containers[1].image").values(&object), [&json!("2")]);
        assert!(pattern("spec.missing.image").values(&object).is_empty());
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for text in ["", ".", "a..b", "a[", "a[]", "a[\"b]", "a[=x]"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}

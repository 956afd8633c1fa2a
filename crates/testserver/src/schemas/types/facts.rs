//! The facts of the OpenAPI schema of a message or a field: the words with `+` in `types.txt`. The header
//! of the file explains them.

use serde_json::{Map, Value};

use super::table::{Base, Empty, Field, Form, Shape, Types};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// True if the message has the fields `apiVersion` and `kind`.
    pub kind: bool,
    /// The ownership of an object: `atomic` or `granular`.
    pub map: Option<&'static str>,
    pub required: bool,
    /// The permitted values, separated by commas.
    pub permitted: Option<&'static str>,
    /// The default as JSON, if the type does not imply it.
    default: Option<&'static str>,
    /// The type of a list, and the names of the key fields of its items.
    pub list: Option<(&'static str, &'static str)>,
    /// The strategy of strategic merge patches, and the key field of the items.
    pub patch: Option<(&'static str, &'static str)>,
}

impl Facts {
    pub(crate) fn parse(words: impl Iterator<Item = &'static str>) -> Option<Self> {
        let mut facts = Self::default();
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("kind", "") => facts.kind = true,
                ("required", "") => facts.required = true,
                ("map", value) => facts.map = Some(value),
                ("enum", values) => facts.permitted = Some(values),
                ("default", json) => facts.default = Some(json),
                ("list", value) => facts.list = Some(with_keys(value)),
                ("patch", value) => facts.patch = Some(with_keys(value)),
                _ => return None,
            }
        }
        Some(facts)
    }

    /// Returns whether one manager owns the whole object.
    pub(crate) fn is_atomic(&self) -> bool {
        self.map == Some("atomic")
    }
}

fn with_keys(value: &'static str) -> (&'static str, &'static str) {
    let (name, keys) = value.split_once('(').unwrap_or((value, ""));
    (name, keys.trim_end_matches(')'))
}

impl Types {
    pub(crate) fn default_of(&self, field: &Field) -> Option<Value> {
        if let Some(json) = field.facts.default {
            return serde_json::from_str(json).ok();
        }
        let is_message = matches!(field.base, Base::Message(_));
        let implied = field.shape == Shape::Value && (is_message || field.empty == Empty::Kept);
        implied.then(|| self.implied_default(field.base)).flatten()
    }

    /// Returns the default of the items of a list or of the values of a map.
    pub(crate) fn implied_default(&self, base: Base) -> Option<Value> {
        match base {
            Base::Bool => Some(false.into()),
            Base::Int32 | Base::Int64 | Base::Double => Some(0.into()),
            Base::String => Some("".into()),
            Base::Message(place) if self.message(place)?.form == Form::Object => {
                Some(Value::Object(Map::new()))
            }
            _ => None,
        }
    }
}

//! The merge rules of a kind: which objects and lists are atomic, the keys of list items, and the patch
//! strategies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The merge rules of the values at one path.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// True if an object is atomic. One manager then owns all fields of the object.
    pub atomic: bool,
    /// The ownership of the items of a list.
    pub list: List,
    /// The way in which a strategic merge patch changes the value.
    pub patch: Strategy,
    /// True if the real server always adds an empty value to the enclosing object.
    pub always: bool,
    pub scalar: Option<Scalar>,
    /// The fields of an object that have specific rules.
    pub fields: BTreeMap<Box<str>, Arc<Schema>>,
    /// The rules for the keys of an object that are not in `fields`.
    pub others: Others,
    /// The rules for the items of a list.
    pub items: Option<Arc<Schema>>,
}

/// The ownership of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    /// A manager owns the entire list.
    #[default]
    Atomic,
    /// Each value has separate owners.
    Set,
    /// Each item has separate owners. The values of these fields identify an item.
    Keyed(Vec<Key>),
}

/// A key field of list items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub name: Box<str>,
    /// The value for items without this field.
    pub default: Option<Value>,
}

/// The strategy of a strategic merge patch for a list or an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Replaces a list, and merges an object.
    #[default]
    Plain,
    /// Replaces a list or an object.
    Replace,
    /// Merges a list of values.
    Values,
    /// Merges a list of objects with this key field.
    Key(Box<str>),
}

/// The type of a scalar value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Number,
    Bool,
    Any,
}

/// The meaning of keys that are not in `fields`.
#[derive(Debug, Default)]
pub(crate) enum Others {
    /// The other keys are fields without specific rules.
    #[default]
    Fields,
    /// The other keys are entries of a map. Each value has these rules.
    Entries(Arc<Schema>),
    /// The other keys are entries of a map with any values.
    Anything,
    /// Other keys are invalid.
    Unknown,
}

/// A value without specific rules.
pub(crate) static PLAIN: Schema = bare(Others::Fields);

/// A value of any type. Its objects are maps, and its lists are atomic.
pub(crate) static ANYTHING: Schema = bare(Others::Anything);

const fn bare(others: Others) -> Schema {
    Schema {
        atomic: false,
        list: List::Atomic,
        patch: Strategy::Plain,
        always: false,
        scalar: None,
        fields: BTreeMap::new(),
        others,
        items: None,
    }
}

impl Schema {
    /// Returns the rules for the value of a key.
    pub(crate) fn field(&self, name: &str) -> &Self {
        match (self.fields.get(name), &self.others) {
            (Some(field), _) => field,
            (None, Others::Entries(schema)) => schema,
            (None, Others::Anything) => &ANYTHING,
            (None, Others::Fields | Others::Unknown) => &PLAIN,
        }
    }

    /// Returns whether a key is a field name and not the key of a map entry.
    pub(crate) fn is_field(&self, name: &str) -> bool {
        matches!(self.others, Others::Fields) || self.fields.contains_key(name)
    }

    /// Returns whether the schema permits the key.
    pub(crate) fn declares(&self, name: &str) -> bool {
        !matches!(self.others, Others::Unknown) || self.fields.contains_key(name)
    }

    /// Returns the rules for the items of a list.
    pub(crate) fn item(&self) -> &Self {
        self.items.as_deref().unwrap_or(if matches!(self.others, Others::Anything) {
            &ANYTHING
        } else {
            &PLAIN
        })
    }

    /// Returns whether the parts of a value have separate owners.
    pub(crate) fn is_owned_in_parts(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => !self.atomic && !map.is_empty(),
            Value::Array(list) => self.list != List::Atomic && !list.is_empty(),
            _ => false,
        }
    }
}

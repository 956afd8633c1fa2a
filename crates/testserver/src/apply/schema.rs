//! What is known of the values of a kind: which objects and lists are owned as a whole, by what the items of the others
//! are known, and how patches merge them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// What is known of the values at one place.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// An object here is owned as a whole.
    pub atomic: bool,
    /// How a list here is owned.
    pub list: List,
    /// How a strategic merge patch treats what is here.
    pub patch: Strategy,
    /// The real server always has an (empty) value here if it has the object around it.
    pub always: bool,
    pub scalar: Option<Scalar>,
    /// Fields of an object here of which something is known.
    pub fields: BTreeMap<Box<str>, Arc<Schema>>,
    /// The other keys of an object here.
    pub others: Others,
    /// The items of a list here.
    pub items: Option<Arc<Schema>>,
}

/// How a list is owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    /// As a whole.
    #[default]
    Atomic,
    /// Each of its values by itself.
    Set,
    /// Each item, known by the values of these fields.
    Keyed(Vec<Key>),
}

/// A field by which items are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub name: Box<str>,
    /// Its value in items that lack it.
    pub default: Option<Value>,
}

/// What a strategic merge patch does with a list or an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Replaces lists, merges objects.
    #[default]
    Plain,
    /// Replaces objects, too.
    Replace,
    /// Merges a list of values.
    Values,
    /// Merges a list of objects that are known by this field.
    Key(Box<str>),
}

/// The type of a value that is neither object nor list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Number,
    Bool,
    Any,
}

/// What keys are that `fields` does not name.
#[derive(Debug, Default)]
pub(crate) enum Others {
    /// Fields like the named ones, of which nothing more is known.
    #[default]
    Fields,
    /// Entries of a map.
    Entries(Arc<Schema>),
    /// Entries of a map of anything.
    Anything,
    /// There are none.
    Unknown,
}

/// A value of which nothing is known.
pub(crate) static PLAIN: Schema = bare(Others::Fields);

/// A value that may be anything: its objects are maps, its lists are owned as a whole.
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
    /// What is known of the value of a key.
    pub(crate) fn field(&self, name: &str) -> &Self {
        match (self.fields.get(name), &self.others) {
            (Some(field), _) => field,
            (None, Others::Entries(schema)) => schema,
            (None, Others::Anything) => &ANYTHING,
            (None, Others::Fields | Others::Unknown) => &PLAIN,
        }
    }

    /// Whether a key is the name of a field, not of an entry of a map.
    pub(crate) fn is_field(&self, name: &str) -> bool {
        matches!(self.others, Others::Fields) || self.fields.contains_key(name)
    }

    /// Whether there can be such a key.
    pub(crate) fn declares(&self, name: &str) -> bool {
        !matches!(self.others, Others::Unknown) || self.fields.contains_key(name)
    }

    /// What is known of the items of a list.
    pub(crate) fn item(&self) -> &Self {
        self.items.as_deref().unwrap_or(if matches!(self.others, Others::Anything) {
            &ANYTHING
        } else {
            &PLAIN
        })
    }

    /// Whether a value here has parts that are owned each by itself.
    pub(crate) fn is_owned_in_parts(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => !self.atomic && !map.is_empty(),
            Value::Array(list) => self.list != List::Atomic && !list.is_empty(),
            _ => false,
        }
    }
}

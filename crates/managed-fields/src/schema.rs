//! The merge rules of a kind: which objects and lists are atomic, the keys of list items, and the patch
//! strategies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Holds a JSON object, such as a Kubernetes object.
pub type Object = Map<String, Value>;

/// Describes the merge rules of the values at one path.
#[derive(Debug, Default)]
pub struct Schema {
    /// True if an object is atomic. One manager then owns all fields of the object.
    pub atomic: bool,
    /// The ownership of the items of a list.
    pub list: ListType,
    /// The way in which a strategic merge patch changes the value.
    pub patch: PatchStrategy,
    /// True if the enclosing object always contains this value, at least as an empty object. An empty
    /// value that kube-apiserver adds has no owner.
    pub defaults_to_empty: bool,
    /// The type of a scalar, if it is known. No function of this crate reads it; it helps to validate an
    /// applied object.
    pub scalar: Option<Scalar>,
    /// The fields of an object that have specific rules.
    pub fields: BTreeMap<Box<str>, Arc<Schema>>,
    /// The rules for the keys of an object that are not in `fields`.
    pub others: OtherKeys,
    /// The rules for the items of a list.
    pub items: Option<Arc<Schema>>,
}

/// Describes the ownership of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// A manager owns the entire list.
    #[default]
    Atomic,
    /// Each value has separate owners.
    Set,
    /// Each item has separate owners. The values of these fields identify an item.
    Map(Vec<MapKey>),
}

/// Describes a key field of list items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey {
    /// The name of the field.
    pub name: Box<str>,
    /// The value for items without this field.
    pub default: Option<Value>,
}

/// Selects how a strategic merge patch changes a list or an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Replaces a list, and merges an object.
    #[default]
    Default,
    /// Replaces a list or an object.
    Replace,
    /// Merges a list of values.
    Merge,
    /// Merges a list of objects with this key field.
    MergeByKey(Box<str>),
}

/// Describes the type of a scalar value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string.
    String,
    /// An integer or a float.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any scalar.
    Any,
}

/// Describes the keys that are not in `fields`.
#[derive(Debug, Default)]
pub enum OtherKeys {
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
pub(crate) static PLAIN: Schema = bare(OtherKeys::Fields);

/// A value of any type. Its objects are maps, and its lists are atomic.
pub(crate) static ANYTHING: Schema = bare(OtherKeys::Anything);

const fn bare(others: OtherKeys) -> Schema {
    Schema {
        atomic: false,
        list: ListType::Atomic,
        patch: PatchStrategy::Default,
        defaults_to_empty: false,
        scalar: None,
        fields: BTreeMap::new(),
        others,
        items: None,
    }
}

impl Schema {
    /// Returns the rules for the value of a key.
    pub fn field(&self, name: &str) -> &Self {
        match (self.fields.get(name), &self.others) {
            (Some(field), _) => field,
            (None, OtherKeys::Entries(schema)) => schema,
            (None, OtherKeys::Anything) => &ANYTHING,
            (None, OtherKeys::Fields | OtherKeys::Unknown) => &PLAIN,
        }
    }

    /// Returns whether a key is a field name and not the key of a map entry.
    pub(crate) fn is_field(&self, name: &str) -> bool {
        matches!(self.others, OtherKeys::Fields) || self.fields.contains_key(name)
    }

    /// Returns whether the schema permits the key.
    pub fn declares(&self, name: &str) -> bool {
        !matches!(self.others, OtherKeys::Unknown) || self.fields.contains_key(name)
    }

    /// Returns the rules for the items of a list.
    pub fn item(&self) -> &Self {
        self.items.as_deref().unwrap_or(if matches!(self.others, OtherKeys::Anything) {
            &ANYTHING
        } else {
            &PLAIN
        })
    }

    /// Returns whether the parts of a value have separate owners.
    pub(crate) fn is_owned_in_parts(&self, value: &Value) -> bool {
        match value {
            Value::Object(map) => !self.atomic && !map.is_empty(),
            Value::Array(list) => self.list != ListType::Atomic && !list.is_empty(),
            _ => false,
        }
    }
}

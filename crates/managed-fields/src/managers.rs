//! `metadata.managedFields`: the managers with their operations, times and fields.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use crate::field_set::FieldSet;
use crate::step;

/// Tells by which operation a manager owns its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A server-side apply.
    Apply,
    /// Any other write.
    #[default]
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Identifies a manager of fields. For an apply, the API version is not part of the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name: the `fieldManager` of the request, or the start of its user agent.
    pub name: String,
    /// The operation.
    pub operation: Operation,
    /// The `apiVersion` of the written object.
    pub api_version: String,
    /// The written subresource, such as `status`. Empty for the main resource.
    pub subresource: String,
}

impl Manager {
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_version = self.operation == Operation::Apply || self.api_version == other.api_version;
        let (a, b) = ((&self.name, &self.subresource), (&other.name, &other.subresource));
        self.operation == other.operation && a == b && same_version
    }

    /// Formats the manager for conflict messages.
    pub(crate) fn in_message(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.api_version);
        }
        text
    }
}

/// Describes an entry of `managedFields`. A clone shares the manager and the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The manager.
    pub manager: Arc<Manager>,
    /// The time of the last change in RFC 3339. Empty if it is unknown.
    pub time: String,
    /// The owned fields.
    pub fields: SharedFields,
}

/// Holds a set of fields that several versions of an object share, with the JSON of the set.
#[derive(Clone, Debug, Default)]
pub struct SharedFields(Arc<(FieldSet, OnceLock<Box<[u8]>>)>);

impl From<FieldSet> for SharedFields {
    fn from(set: FieldSet) -> Self {
        Self(Arc::new((set, OnceLock::new())))
    }
}

impl Deref for SharedFields {
    type Target = FieldSet;

    fn deref(&self) -> &FieldSet {
        &self.0.0
    }
}

impl PartialEq for SharedFields {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for SharedFields {}

impl SharedFields {
    fn json(&self) -> &[u8] {
        self.0.1.get_or_init(|| {
            let mut text = Vec::new();
            self.write_json(false, &mut text);
            text.into()
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut FieldSet)) {
        let mut set =
            Arc::try_unwrap(std::mem::take(&mut self.0)).map_or_else(|shared| shared.0.clone(), |own| own.0);
        change(&mut set);
        *self = set.into();
    }
}

/// Holds the entries of `metadata.managedFields` of one object, in the order of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Vec<Entry>);

/// The maximum number of entries with the operation Update. The oldest further entries are merged.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

impl Managers {
    /// Parses `managedFields`. Returns `None` if an entry is invalid.
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut all = Self::default();
        for entry in value.as_array()? {
            let entry = Entry::read(entry.as_object()?)?;
            all.0.retain(|other| !other.manager.is(&entry.manager));
            all.0.push(entry);
        }
        all.sort();
        Some(all)
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
    }

    /// Converts the entries to JSON. Returns `None` if there are no entries.
    pub fn to_json(&self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut text = Vec::new();
        self.write_json(&mut text);
        serde_json::from_slice(&text).ok()
    }

    /// Writes the JSON of the entries to the end of a text.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, entry) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            entry.write_json(out);
        }
        out.push(b']');
    }

    /// Returns whether both have the same entries, except for their times. A write without another change
    /// must not create a new version of the object.
    pub fn is_same_except_times(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Entry, &Entry)| a.manager == b.manager && a.fields == b.fields;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Returns whether no field has an owner.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn find(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    pub(crate) fn remove(&mut self, manager: &Manager) -> Option<Entry> {
        let at = self.0.iter().position(|entry| entry.manager.is(manager))?;
        Some(self.0.remove(at))
    }

    /// Adds fields to a manager, and updates the time of the entry.
    pub(crate) fn add_fields(&mut self, manager: &Manager, fields: FieldSet, now: &str) {
        match self.0.iter_mut().find(|entry| entry.manager.is(manager)) {
            Some(entry) => {
                if !entry.fields.contains(&fields) {
                    entry.fields.change(|own| own.add(fields));
                }
                entry.time = now.into();
            }
            None => {
                let (manager, time) = (manager.clone().into(), now.into());
                self.0.push(Entry { manager, time, fields: fields.into() });
            }
        }
    }

    /// Removes fields from all managers except one, and removes managers without fields.
    pub(crate) fn remove_fields(&mut self, fields: &FieldSet, except: Option<&Manager>) {
        if fields.is_empty() {
            return;
        }
        self.0.retain_mut(|entry| {
            let is_excepted = except.is_some_and(|manager| entry.manager.is(manager));
            if !is_excepted && entry.fields.overlaps(fields) {
                entry.fields.change(|own| own.subtract(fields));
            }
            !entry.fields.is_empty()
        });
    }

    /// Merges the oldest entries with the operation Update of each version, until the limit is met.
    pub(crate) fn merge_oldest_updates(&mut self) {
        let mut count = self.0.iter().filter(|entry| entry.manager.operation == Operation::Update).count();
        if count <= MAX_UPDATERS {
            return;
        }
        self.0.sort_by(|a, b| (&a.time, &a.manager.name).cmp(&(&b.time, &b.manager.name)));
        let managers = self.0.iter().map(|entry| entry.manager.clone());
        let updaters: Vec<_> = managers.filter(|manager| manager.operation == Operation::Update).collect();
        let mut first: Vec<(String, Arc<Manager>)> = Vec::new();
        for manager in updaters {
            if count <= MAX_UPDATERS {
                break;
            }
            let version = manager.api_version.clone();
            let Some(earlier) = first.iter().find(|(of, _)| *of == version).map(|(_, m)| m.clone()) else {
                first.push((version, manager));
                continue;
            };
            let bucket = Manager {
                name: ANCIENT.into(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if self.find(&bucket).is_none()
                && let Some(entry) = self.remove(&earlier)
            {
                self.add_fields(&bucket, entry.fields.0.0.clone(), &entry.time);
            }
            if let Some(entry) = self.remove(&manager) {
                self.add_fields(&bucket, entry.fields.0.0.clone(), &entry.time);
                count -= 1;
            }
        }
    }
}

impl Entry {
    fn read(entry: &Map<String, Value>) -> Option<Self> {
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::from_json(fields)?,
        };
        let text = |key: &str| match entry.get(key) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => None,
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let manager = Manager {
            name: text("manager")?,
            operation,
            api_version: text("apiVersion").filter(|version| !version.is_empty())?,
            subresource: text("subresource")?,
        };
        (text("fieldsType")? == "FieldsV1").then_some(())?;
        Some(Self { manager: manager.into(), time: text("time")?, fields: fields.into() })
    }

    /// Writes the entry with the keys in alphabetical order.
    fn write_json(&self, out: &mut Vec<u8>) {
        let Manager { name, operation, api_version, subresource } = &*self.manager;
        out.extend_from_slice(b"{\"apiVersion\":");
        step::write_text(api_version, out);
        out.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        out.extend_from_slice(self.fields.json());
        let mut put = |key: &[u8], value: &str| {
            if !value.is_empty() {
                out.extend_from_slice(key);
                step::write_text(value, out);
            }
        };
        put(b",\"manager\":", name);
        put(b",\"operation\":", operation.name());
        put(b",\"subresource\":", subresource);
        put(b",\"time\":", &self.time);
        out.push(b'}');
    }

    fn order(&self) -> (Operation, &str, &str, &str, &str) {
        let Manager { name, operation, api_version, subresource } = &*self.manager;
        (*operation, &self.time, name, api_version, subresource)
    }
}

/// Returns whether a client resets the managers, with an empty list or a list of one empty entry.
pub fn is_reset(managed: &Value) -> bool {
    match managed.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => {
            entry.values().all(|value| *value == Value::Null || *value == json!(""))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updater(name: &str) -> Manager {
        Manager {
            name: name.into(),
            operation: Operation::Update,
            api_version: "v1".into(),
            subresource: String::new(),
        }
    }

    #[test]
    fn entries_are_unchanged_after_a_round_trip() {
        let value = json!([
            {"manager": "b", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        ]);
        assert_eq!(Managers::from_json(&value).unwrap().to_json(), Some(value));
    }

    #[test]
    fn entries_without_operation_version_or_type_are_invalid() {
        let good =
            json!({"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        assert!(Managers::from_json(&json!([good])).is_some());
        for key in ["operation", "apiVersion", "fieldsType"] {
            let mut entry = good.clone();
            entry[key] = json!("");
            assert_eq!(Managers::from_json(&json!([entry])), None, "{key}");
        }
    }

    #[test]
    fn oldest_updaters_above_the_limit_are_merged() {
        let mut all = Managers::default();
        for n in 0..12 {
            let fields = FieldSet::from_paths(&[&["data", &format!("k{n}")]]);
            all.add_fields(&updater(&format!("m{n:02}")), fields, &format!("2026-01-01T00:00:{n:02}Z"));
        }
        all.merge_oldest_updates();
        assert_eq!(all.0.len(), 10);
        let ancient = all.find(&updater(ANCIENT)).unwrap();
        assert_eq!(ancient.fields.paths(), [".data.k0", ".data.k1", ".data.k2"]);
        assert_eq!(ancient.time, "2026-01-01T00:00:02Z");
    }

    #[test]
    fn empty_list_or_entry_resets_managers() {
        assert!(is_reset(&json!([])) && is_reset(&json!([{}])));
        assert!(!is_reset(&json!([{"manager": "a"}])) && !is_reset(&Value::Null));
    }
}

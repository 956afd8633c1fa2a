//! `metadata.managedFields`: the managers with their operations, times and fields.

use serde_json::{Map, Value, json};

use crate::Object;
use crate::field_set::FieldSet;

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

/// Describes an entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The manager.
    pub manager: Manager,
    /// The time of the last change in RFC 3339. Empty if it is unknown.
    pub time: String,
    /// The owned fields.
    pub fields: FieldSet,
}

/// Holds the entries of `metadata.managedFields` of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(Vec<Entry>);

/// The maximum number of entries with the operation Update. The oldest further entries are merged.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

impl Managers {
    /// Parses `managedFields` of a client. Returns `None` if an entry is invalid.
    pub fn from_json(value: Value) -> Option<Self> {
        Self::read_with(value, FieldSet::from_json)
    }

    /// Returns the `managedFields` of a stored object, without validation of the field sets.
    pub fn from_json_unchecked(value: Value) -> Option<Self> {
        Self::read_with(value, FieldSet::from_json_unchecked)
    }

    fn read_with(value: Value, fields: fn(Value) -> Option<FieldSet>) -> Option<Self> {
        let Value::Array(list) = value else { return None };
        let mut all = Self::default();
        for entry in list {
            let Value::Object(entry) = entry else { return None };
            let entry = Entry::read(entry, fields)?;
            all.0.retain(|other| !other.manager.is(&entry.manager));
            all.0.push(entry);
        }
        Some(all)
    }

    /// Converts the entries to JSON. Returns `None` if there are no entries.
    pub fn into_json(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        Some(Value::Array(self.0.into_iter().map(Entry::into_json).collect()))
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
    pub(crate) fn add_fields(&mut self, manager: Manager, fields: FieldSet, now: &str) {
        match self.0.iter_mut().find(|entry| entry.manager.is(&manager)) {
            Some(entry) => {
                entry.fields.add(fields);
                entry.time = now.into();
            }
            None => self.0.push(Entry { manager, time: now.into(), fields }),
        }
    }

    /// Removes fields from all managers, and removes managers without fields.
    pub(crate) fn remove_fields(&mut self, fields: &FieldSet) {
        if fields.is_empty() {
            return;
        }
        self.0.retain_mut(|entry| {
            entry.fields.subtract(fields);
            !entry.fields.is_empty()
        });
    }

    /// Merges the oldest entries with the operation Update of each version, until the limit is met.
    pub(crate) fn merge_oldest_updates(&mut self) {
        let mut count = self.0.iter().filter(|entry| entry.manager.operation == Operation::Update).count();
        if count <= MAX_UPDATERS {
            return;
        }
        let mut updaters: Vec<Manager> = Vec::with_capacity(count);
        self.0.sort_by(|a, b| (&a.time, &a.manager.name).cmp(&(&b.time, &b.manager.name)));
        updaters.extend(
            self.0.iter().map(|entry| entry.manager.clone()).filter(|m| m.operation == Operation::Update),
        );
        let mut first: Vec<(String, Manager)> = Vec::new();
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
                self.add_fields(bucket.clone(), entry.fields, &entry.time);
            }
            if let Some(entry) = self.remove(&manager) {
                self.add_fields(bucket, entry.fields, &entry.time);
                count -= 1;
            }
        }
    }
}

impl Entry {
    fn read(mut entry: Map<String, Value>, read: fn(Value) -> Option<FieldSet>) -> Option<Self> {
        let fields = match entry.remove("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => read(fields)?,
        };
        let mut text = |key: &str| match entry.remove(key) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text),
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
        Some(Self { manager, time: text("time")?, fields })
    }

    fn into_json(self) -> Value {
        let Self { manager, time, fields } = self;
        let mut entry = Map::new();
        let mut put = |key: &str, value: String| {
            if !value.is_empty() {
                entry.insert(key.into(), value.into());
            }
        };
        put("manager", manager.name);
        put("operation", manager.operation.name().into());
        put("apiVersion", manager.api_version);
        put("time", time);
        put("subresource", manager.subresource);
        put("fieldsType", "FieldsV1".into());
        entry.insert("fieldsV1".into(), fields.into_json());
        Value::Object(entry)
    }

    fn order(&self) -> (Operation, &str, &str, &str, &str) {
        let Manager { name, operation, api_version, subresource } = &self.manager;
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

/// Restores the previous `metadata.managedFields` if a write changed only the times of its entries. Without
/// this step, a write without a change would still create a new version of the object.
pub fn keep_times(before: &Object, after: &mut Object) {
    let (Some(old), Some(new)) = (managed_fields(before), managed_fields(after)) else { return };
    if old == new || !is_same_except_managers(before, after) || !is_same_except_times(old, new) {
        return;
    }
    if let Some(Value::Object(metadata)) = after.get_mut("metadata") {
        metadata.insert(KEY.into(), old.clone());
    }
}

fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get(KEY)
}

const KEY: &str = "managedFields";

fn is_same_except_managers(before: &Object, after: &Object) -> bool {
    before.len() == after.len()
        && before.iter().all(|(name, old)| match after.get(name) {
            Some(new) if name == "metadata" => is_same_except(old, new, KEY),
            new => new == Some(old),
        })
}

fn is_same_except_times(a: &Value, b: &Value) -> bool {
    let (Value::Array(a), Value::Array(b)) = (a, b) else { return false };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_except(a, b, "time"))
}

/// Returns whether two objects are equal except for this key.
fn is_same_except(a: &Value, b: &Value, key: &str) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let rest = |map: &Object| map.len() - usize::from(map.contains_key(key));
    rest(a) == rest(b) && a.iter().all(|(name, value)| name == key || b.get(name) == Some(value))
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
        assert_eq!(Managers::from_json(value.clone()).unwrap().into_json(), Some(value));
    }

    #[test]
    fn entries_without_operation_version_or_type_are_invalid() {
        let good =
            json!({"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
        assert!(Managers::from_json(json!([good])).is_some());
        for key in ["operation", "apiVersion", "fieldsType"] {
            let mut entry = good.clone();
            entry[key] = json!("");
            assert_eq!(Managers::from_json(json!([entry])), None, "{key}");
        }
    }

    #[test]
    fn oldest_updaters_above_the_limit_are_merged() {
        let mut all = Managers::default();
        for n in 0..12 {
            let fields = FieldSet::from_paths(&[&["data", &format!("k{n}")]]);
            all.add_fields(updater(&format!("m{n:02}")), fields, &format!("2026-01-01T00:00:{n:02}Z"));
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

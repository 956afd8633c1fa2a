//! `ChangeLog`: the changed fields and the field manager of the latest changes of each object.
//!
//! It stores hashes of fields, and never their values.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    sync::Arc,
};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use serde_json::Value;

/// The maximum number of remembered objects. A new object replaces the object that was added first.
const MAX_OBJECTS: usize = 4096;

/// The maximum number of remembered fields of an object. Changes of further fields are not reported.
const MAX_FIELDS: usize = 64;

/// The maximum number of remembered field managers of an object.
const MAX_MANAGERS: usize = 16;

/// The maximum number of remembered changes of an object. A new change replaces the oldest change.
const MAX_CHANGES: usize = 4;

/// The maximum number of counted changes of an object, remembered or not.
const MAX_COUNTED_CHANGES: usize = 64;

/// The maximum length of a name of a field or a manager.
const MAX_NAME_CHARS: usize = 128;

/// The fields of which the log compares the parts.
const DIVIDED: [&str; 4] = ["metadata", "spec", "status", "data"];

/// The fields of the metadata that change with each write.
const BOOKKEEPING: [&str; 3] = ["managedFields", "resourceVersion", "generation"];

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectChange {
    pub(crate) version: String,
    /// The changed fields, such as `spec.replicas`. `None` if the log does not know the state before.
    pub(crate) fields: Option<Vec<Arc<str>>>,
    /// The field manager that wrote last, according to `managedFields`.
    pub(crate) manager: Option<Arc<str>>,
}

/// The changes of an object since a position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectChanges {
    /// In the order of their arrival.
    pub(crate) latest: Vec<ObjectChange>,
    /// The number of earlier changes that the log no longer contains. Counts at most 60.
    pub(crate) omitted: usize,
}

/// Remembers the changes of objects. A clone shares the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    log: Arc<Mutex<Log>>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Log {
    objects: HashMap<String, Known>,
    order: VecDeque<String>,
    /// The number of all changes.
    position: u64,
}

#[derive(Debug)]
struct Known {
    fields: Vec<(Arc<str>, u64)>,
    managers: Vec<Manager>,
    version: String,
    /// The latest changes.
    changes: VecDeque<ObjectChange>,
    /// The positions of the latest changes in the log. The log keeps more positions than `changes`, and
    /// counts the omitted changes.
    positions: VecDeque<u64>,
}

/// An entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager {
    name: Arc<str>,
    /// The operation and the subresource. A manager can have an entry for each.
    part: Arc<str>,
    time: Arc<str>,
    hash: u64,
    bytes: usize,
}

impl ChangeLog {
    /// Returns the current position in the log.
    pub(crate) fn position(&self) -> u64 {
        self.log.lock().position
    }

    /// Returns the changes of an object after a position, or its latest change if there are none.
    pub(crate) fn since(&self, position: u64, group: &str, kind: &str, key: &str) -> Option<ObjectChanges> {
        let log = self.log.lock();
        let Known { changes, positions, .. } = log.objects.get(&log_key(group, kind, key))?;
        let count = positions.iter().filter(|changed| **changed > position).count().max(1);
        let omitted = count.saturating_sub(changes.len());
        let latest = changes.iter().skip(changes.len().saturating_sub(count));
        Some(ObjectChanges { latest: latest.cloned().collect(), omitted })
    }

    /// Adds a state of an object. `api_version` is the group and the version.
    pub(super) fn add(&self, api_version: &str, kind: &str, object: &Value) {
        let Some(key) = key_of(api_version, kind, object) else { return };
        let meta = &object["metadata"];
        let version = meta["resourceVersion"].as_str().unwrap_or_default().to_owned();
        // Reconciles also lock the log, so large objects are hashed before.
        let (fields, managers) = (fields(object, &self.hasher), managers(meta, &self.hasher));
        let mut log = self.log.lock();
        log.position += 1;
        let position = log.position;
        let Some(known) = log.objects.get_mut(&key) else {
            let change =
                ObjectChange { version: version.clone(), fields: None, manager: writer(&[], &managers) };
            let (changes, positions) = ([change].into(), [position].into());
            log.objects.insert(key.clone(), Known { fields, managers, version, changes, positions });
            log.order.push_back(key);
            if log.order.len() > MAX_OBJECTS
                && let Some(oldest) = log.order.pop_front()
            {
                log.objects.remove(&oldest);
            }
            return;
        };
        // A list, or another informer, can deliver the same state again.
        if known.version != version {
            let changed = difference(&known.fields, &fields);
            let manager = writer(&known.managers, &managers);
            known.push(position, ObjectChange { version: version.clone(), fields: Some(changed), manager });
            (known.fields, known.managers, known.version) = (fields, managers, version);
        }
    }

    pub(super) fn remove(&self, api_version: &str, kind: &str, object: &Value) {
        let Some(key) = key_of(api_version, kind, object) else { return };
        let mut log = self.log.lock();
        log.position += 1;
        let position = log.position;
        if let Some(known) = log.objects.get_mut(&key) {
            known.fields.clear();
            known.version.clear();
            known.push(position, ObjectChange { version: String::new(), fields: None, manager: None });
        }
    }
}

impl Known {
    fn push(&mut self, position: u64, change: ObjectChange) {
        push_bounded(&mut self.changes, change, MAX_CHANGES);
        push_bounded(&mut self.positions, position, MAX_COUNTED_CHANGES);
    }
}

/// Adds an item. Removes the first item if there are more than `limit` items.
fn push_bounded<T>(items: &mut VecDeque<T>, item: T, limit: usize) {
    items.push_back(item);
    if items.len() > limit {
        items.pop_front();
    }
}

fn log_key(group: &str, kind: &str, key: &str) -> String {
    format!("{kind}.{group} {key}")
}

fn key_of(api_version: &str, kind: &str, object: &Value) -> Option<String> {
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let name = object["metadata"]["name"].as_str()?;
    let key = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    Some(log_key(group, kind, &key))
}

/// Returns a name that is safe to print.
fn short_name(name: &str) -> Arc<str> {
    crate::redact::single_line(name, MAX_NAME_CHARS).into()
}

/// Returns a hash of each field.
fn fields(object: &Value, hasher: &RandomState) -> Vec<(Arc<str>, u64)> {
    let mut fields = Vec::new();
    // Items of a list have no kind and no apiVersion.
    let compared = |name: &str| !["apiVersion", "kind"].contains(&name);
    for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| compared(name)) {
        match value.as_object().filter(|_| DIVIDED.contains(&&**name)) {
            Some(parts) => {
                let parts = parts.iter().filter(|(part, _)| !BOOKKEEPING.contains(&&***part));
                let hashed = parts.map(|(part, value)| {
                    (short_name(&format!("{name}.{part}")), hasher.hash_one(value.to_string()))
                });
                fields.extend(hashed);
            }
            None => fields.push((short_name(name), hasher.hash_one(value.to_string()))),
        }
    }
    fields.truncate(MAX_FIELDS);
    fields
}

/// Returns the names of the fields that differ.
fn difference(old: &[(Arc<str>, u64)], new: &[(Arc<str>, u64)]) -> Vec<Arc<str>> {
    let differs = |fields: &[(Arc<str>, u64)], field: &(Arc<str>, u64)| !fields.contains(field);
    let mut names: Vec<&Arc<str>> =
        old.iter().filter(|field| differs(new, field)).map(|(name, _)| name).collect();
    names.extend(new.iter().filter(|field| differs(old, field)).map(|(name, _)| name));
    names.sort();
    names.dedup();
    names.into_iter().map(Arc::clone).collect()
}

fn managers(meta: &Value, hasher: &RandomState) -> Vec<Manager> {
    let entries = meta["managedFields"].as_array().into_iter().flatten().take(MAX_MANAGERS);
    let manager = |entry: &Value| {
        let (text, field) = (entry.to_string(), |name: &str| entry[name].as_str().unwrap_or_default());
        Manager {
            name: short_name(field("manager")),
            part: short_name(&format!("{} {}", field("operation"), field("subresource"))),
            time: short_name(field("time")),
            hash: hasher.hash_one(&text),
            bytes: text.len(),
        }
    };
    entries.map(manager).collect()
}

/// Returns the manager of the changed entry with the latest time. Times have a
/// precision of one second. If several entries have this time, returns the manager that gained most fields.
fn writer(old: &[Manager], new: &[Manager]) -> Option<Arc<str>> {
    let growth = |manager: &Manager| {
        let before = old.iter().find(|old| (&old.name, &old.part) == (&manager.name, &manager.part));
        manager.bytes as i64 - before.map_or(0, |old| old.bytes as i64)
    };
    let changed = new.iter().filter(|manager| !old.iter().any(|old| old.hash == manager.hash));
    changed.max_by_key(|manager| (&*manager.time, growth(manager))).map(|manager| Arc::clone(&manager.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: usize, spec: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string()}, "spec": spec})
    }

    fn fields(changes: &ObjectChanges) -> Vec<Option<String>> {
        changes.latest.iter().map(|change| change.fields.as_ref().map(|fields| fields.join(" "))).collect()
    }

    #[test]
    fn equal_kinds_of_two_groups_have_separate_changes() {
        let log = ChangeLog::default();
        for group in ["a.example.com/v1", "b.example.com/v1", "v1"] {
            log.add(group, "Site", &object("web", 1, &json!({"from": group})));
        }
        log.add("b.example.com/v2", "Site", &object("web", 2, &json!({"from": "new"})));
        let of = |group| fields(&log.since(0, group, "Site", "shop/web").unwrap());
        assert_eq!((of("a.example.com"), of("")), (vec![None], vec![None]));
        assert_eq!(of("b.example.com"), [None, Some("spec.from".to_owned())]);
    }

    #[test]
    fn changes_since_a_position_are_bounded_and_counted() {
        let log = ChangeLog::default();
        let change = |versions: std::ops::Range<usize>| {
            versions.for_each(|version| {
                log.add("v1", "Pod", &object("web", version, &json!({(version % 2).to_string(): 1})));
            });
        };
        let since = |position| {
            let changes = log.since(position, "", "Pod", "shop/web").unwrap();
            (changes.latest.len(), changes.omitted)
        };
        change(1..3);
        assert_eq!(since(0), (2, 0));
        let position = log.position();
        assert_eq!(since(position), (1, 0), "the latest change, because it is known to be the cause");
        change(3..9);
        assert_eq!((since(position), since(0)), ((MAX_CHANGES, 2), (MAX_CHANGES, 4)));
        change(9..999);
        assert_eq!(since(0), (MAX_CHANGES, MAX_COUNTED_CHANGES - MAX_CHANGES));
        // The log receives the same state from another informer.
        let position = log.position();
        log.add("v1", "Pod", &object("web", 998, &json!({})));
        assert_eq!(since(position), (1, 0));
    }

    /// Returns the number of bytes of an object, without spare capacity.
    fn bytes(key: &str, known: &Known) -> usize {
        let text = |text: &Arc<str>| text.len() + 16;
        let fields = known.fields.iter().map(|(name, _)| text(name) + 24);
        let manager = |manager: &Manager| text(&manager.name) + text(&manager.part) + text(&manager.time);
        let managers = known.managers.iter().map(|known| size_of::<Manager>() + manager(known));
        let change = |change: &ObjectChange| {
            size_of::<ObjectChange>() + change.version.len() + change.fields.iter().flatten().count() * 16
        };
        let changes = known.changes.iter().map(change).sum::<usize>() + known.positions.len() * 8;
        size_of::<Known>() + 2 * key.len() + fields.chain(managers).sum::<usize>() + changes
    }

    /// The documentation of `ManagerOptions::explain_changes` contains these numbers.
    #[test]
    fn full_log_has_4096_objects_of_at_most_16_kilobytes() {
        let log = ChangeLog::default();
        for version in 1..=2 * MAX_COUNTED_CHANGES {
            let field = |field| (format!("field-with-a-long-name-{field}"), json!(version));
            let mut object = object("web", version, &(0..2 * MAX_FIELDS).map(field).collect());
            let manager = |manager| json!({"manager": format!("manager-{manager}"), "operation": "Apply", "time": "2024-01-01T00:00:00Z"});
            object["metadata"]["managedFields"] = (0..2 * MAX_MANAGERS).map(manager).collect();
            log.add("apps/v1", "Deployment", &object);
        }
        let sizes: Vec<_> = log.log.lock().objects.iter().map(|(key, known)| bytes(key, known)).collect();
        assert!(sizes.len() == 1 && (8_000..16_000).contains(&sizes[0]), "{sizes:?}");

        for number in 0..MAX_OBJECTS {
            log.add("v1", "Pod", &object(&number.to_string(), 1, &json!({})));
        }
        assert_eq!(log.log.lock().objects.len(), MAX_OBJECTS);
        assert!(log.since(0, "apps", "Deployment", "shop/web").is_none(), "the first object is forgotten");
    }
}

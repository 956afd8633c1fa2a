//! Snapshots of all objects, and the differences between two snapshots.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::http::yaml::yaml;
use crate::server::Server;
use crate::status::Named;
use crate::storage::entry::Entry;

/// # Snapshots
impl Server {
    /// Returns a snapshot of all objects. It shares the stored objects, so it needs little memory.
    ///
    /// ```
    /// # use kube_testserver::Server;
    /// # use serde_json::json;
    /// let server = Server::new();
    /// let map = |colour| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
    ///     "data": {"colour": colour}});
    /// server.create(&map("red"))?;
    /// let before = server.snapshot();
    /// server.update(&map("blue"))?;
    /// let diff = before.diff(&server.snapshot());
    /// assert_eq!(diff.to_string(), "~ ConfigMap default/settings\n    data.colour: \"red\" -> \"blue\"\n");
    /// # Ok::<(), kube_testserver::Status>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.shared.read(|state| {
            let mut objects = BTreeMap::new();
            // Two groups serve the same table of events.
            let mut seen = HashSet::new();
            for served in state.registry.tables().filter(|served| seen.insert(served.table)) {
                let kind = Named { group: &served.kind.group, resource: &served.kind.kind }.to_string();
                for (key, entry) in state.store.table(served.table).objects() {
                    objects.insert(format!("{kind} {key}"), entry.clone());
                }
            }
            Snapshot { resource_version: state.store.revision(), objects }
        })
    }
}

/// Holds all objects of a server at one resourceVersion. [`Server::snapshot`] creates it.
#[derive(Clone)]
pub struct Snapshot {
    resource_version: u64,
    /// The objects by kind, group, namespace and name, such as `Deployment.apps shop/web`.
    objects: BTreeMap<String, Arc<Entry>>,
}

impl Snapshot {
    /// Returns the resourceVersion of the server when the snapshot was created. [`Server::restore`] can
    /// restore this state.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// Returns the differences between this snapshot and a later snapshot.
    ///
    /// Ignores `metadata.managedFields` and `metadata.resourceVersion`. [`Snapshot::diff_all`] includes
    /// them.
    pub fn diff(&self, later: &Self) -> SnapshotDiff {
        self.compare(later, without_bookkeeping)
    }

    /// Returns the differences between this snapshot and a later snapshot in all fields.
    pub fn diff_all(&self, later: &Self) -> SnapshotDiff {
        self.compare(later, |_| {})
    }

    fn compare(&self, later: &Self, prepare: impl Fn(&mut Value)) -> SnapshotDiff {
        let value = |entry: &Arc<Entry>| {
            let mut value = Value::Object(entry.object());
            prepare(&mut value);
            value
        };
        let names: BTreeSet<&String> = self.objects.keys().chain(later.objects.keys()).collect();
        let compared = names.into_iter().filter_map(|name| {
            let change = match (self.objects.get(name), later.objects.get(name)) {
                (Some(old), Some(new)) if Arc::ptr_eq(old, new) => return None,
                (Some(old), Some(new)) => ObjectChange::Changed(field_changes(&value(old), &value(new))),
                (None, Some(new)) => ObjectChange::Added(value(new)),
                (_, None) => ObjectChange::Removed,
            };
            Some((name.clone(), change))
        });
        let is_change =
            |change: &ObjectChange| !matches!(change, ObjectChange::Changed(fields) if fields.is_empty());
        SnapshotDiff(compared.filter(|(_, change)| is_change(change)).collect())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, count) = (self.resource_version, self.objects.len());
        write!(f, "Snapshot({count} objects at resourceVersion {version})")
    }
}

/// Lists the objects that were added, removed or changed between two [`Snapshot`]s.
///
/// `Display` prints `+` and the YAML of an added object, `-` for a removed object, and `~` and the changed
/// fields of a changed object. Use [`SnapshotDiff::is_empty`] to assert that nothing changed.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotDiff(Vec<(String, ObjectChange)>);

#[derive(Clone, Debug, PartialEq)]
enum ObjectChange {
    Added(Value),
    Removed,
    Changed(Vec<String>),
}

impl SnapshotDiff {
    /// Returns whether no object was added, removed or changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the added objects, for example `Deployment.apps shop/web`.
    pub fn added(&self) -> Vec<&str> {
        self.names(|change| matches!(change, ObjectChange::Added(_)))
    }

    /// Returns the removed objects, in the form of [`SnapshotDiff::added`].
    pub fn removed(&self) -> Vec<&str> {
        self.names(|change| *change == ObjectChange::Removed)
    }

    /// Returns the changed objects, in the form of [`SnapshotDiff::added`].
    pub fn changed(&self) -> Vec<&str> {
        self.names(|change| matches!(change, ObjectChange::Changed(_)))
    }

    fn names(&self, wanted: impl Fn(&ObjectChange) -> bool) -> Vec<&str> {
        self.0.iter().filter(|(_, change)| wanted(change)).map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for SnapshotDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, change)| match change {
            ObjectChange::Added(object) => write!(f, "+ {name}\n{}", indent(&yaml(object))),
            ObjectChange::Removed => writeln!(f, "- {name}"),
            ObjectChange::Changed(fields) => write!(f, "~ {name}\n{}", indent(&fields.join("\n"))),
        })
    }
}

/// Removes the fields that each write changes.
pub(crate) fn without_bookkeeping(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
}

/// Indents each line by four spaces, and ends each line.
pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Returns a line for each field that differs, such as `spec.replicas: 1 -> 2`.
pub(crate) fn field_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    compare_fields("", Some(old), Some(new), &mut changes);
    changes
}

fn compare_fields(path: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<String>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let path = match (path, key.contains(['.', '/'])) {
                    (_, true) => format!("{path}[{key:?}]"),
                    ("", false) => key.clone(),
                    (_, false) => format!("{path}.{key}"),
                };
                compare_fields(&path, old.get(key), new.get(key), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare_fields(&format!("{path}[{index}]"), old.get(index), new.get(index), changes);
            }
        }
        _ if old == new => {}
        _ => {
            let shown = |value: Option<&Value>| value.map_or("(absent)".to_owned(), Value::to_string);
            changes.push(format!("{path}: {} -> {}", shown(old), shown(new)));
        }
    }
}

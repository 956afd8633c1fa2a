//! The owners of fields after a write, and server-side apply.

use std::sync::LazyLock;

use crate::Object;
use crate::diff::changes;
use crate::extract::{drop_nulls, fields, with_enclosing_fields, without};
use crate::field_set::FieldSet;
use crate::managers::{Entry, Manager, Managers};
use crate::merge::merge;
use crate::schema::Schema;

/// Describes a write: the properties that determine the owners.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The merge rules of the written kind.
    pub schema: &'a Schema,
    /// The writer.
    pub manager: Manager,
    /// The time of the write in RFC 3339, such as `2026-01-01T00:00:00Z`.
    pub time: String,
    /// The fields that this write cannot change, with all nested fields. Examples are `.status` for a
    /// write of the main resource, and `.spec` for a write of `/status`.
    pub excluded: FieldSet,
    /// True for custom resources. Fields of built-in kinds cannot be null, so an apply drops null values.
    pub keeps_nulls: bool,
}

/// Selects the result of an apply that changes fields of other managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// The apply fails with [`Conflicts`].
    #[default]
    No,
    /// The apply fails with [`Conflicts`], except for changes of these fields.
    Only(FieldSet),
    /// The apply takes the fields from their owners.
    Yes,
}

/// Identifies a changed field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as in the messages of kube-apiserver. An example is `"kubectl" using v1`.
    pub owner: String,
    /// The path of the field, such as `.spec.replicas`.
    pub field: String,
}

/// Reports that an apply changes fields that other managers own. Contains at least one conflict, sorted
/// by owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Apply failed with {}", describe(.0))]
pub struct Conflicts(pub Vec<Conflict>);

fn describe(conflicts: &[Conflict]) -> String {
    if let [Conflict { owner, field }] = conflicts {
        return format!("1 conflict: conflict with {owner}: {field}");
    }
    let groups = conflicts.chunk_by(|a, b| a.owner == b.owner).map(|group| {
        let fields: Vec<&str> = group.iter().map(|conflict| conflict.field.as_str()).collect();
        let owner = group.first().map_or("", |conflict| &conflict.owner);
        format!("conflicts with {owner}:\n- {}", fields.join("\n- "))
    });
    format!("{} conflicts: {}", conflicts.len(), groups.collect::<Vec<_>>().join("\n"))
}

/// The fields without owners. The metadata itself has no owner, but fields within it can have owners.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from_paths(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

impl Managers {
    /// Computes the owners after a create, an update or a patch other than an apply. The writer owns all
    /// added and changed fields. The objects must not contain `metadata.managedFields`.
    ///
    /// For a create, `before` is an empty object.
    pub fn update(&mut self, write: &Write<'_>, before: &Object, after: &Object) {
        let mut changes = changes(write.schema, before, after);
        changes.written.subtract_nested(&write.excluded);
        changes.removed.subtract_nested(&write.excluded);
        changes.written.subtract(&NEVER_OWNED);
        self.remove_fields(&changes.removed, None);
        if !changes.written.is_empty() {
            self.remove_fields(&changes.written, Some(&write.manager));
            self.add_fields(&write.manager, changes.written, &write.time);
        }
        self.merge_oldest_updates();
        self.sort();
    }

    /// Executes a server-side apply. Returns the object after the apply. The writer owns all applied
    /// fields. Fields that it applied before, and that it does not apply now, are removed if they have no
    /// other owner. The objects must not contain `metadata.managedFields`.
    ///
    /// If the object does not exist, `live` is an empty object.
    ///
    /// # Errors
    /// Returns the conflicts if the apply changes fields of other managers, and `force` does not permit
    /// it. The managers are then in an unspecified state.
    pub fn apply(
        &mut self,
        write: &Write<'_>,
        live: &Object,
        applied: &Object,
        force: &Force,
    ) -> Result<Object, Conflicts> {
        let schema = write.schema;
        let last = self.remove(&write.manager);
        let mut set = fields(schema, applied);
        set.subtract_nested(&write.excluded);
        let merged = merge(schema, live, applied);
        let mut after = match &last {
            Some(last) => self.prune(schema, merged, &set, &last.fields),
            None => merged,
        };
        if !write.keeps_nulls {
            drop_nulls(&mut after);
        }
        let mut changes = changes(schema, live, &after);
        changes.written.subtract_nested(&write.excluded);
        changes.removed.subtract_nested(&write.excluded);
        self.check_conflicts(&changes.written, force)?;
        self.remove_fields(&changes.written, None);
        self.remove_fields(&changes.removed, None);
        set.subtract(&NEVER_OWNED);
        if !set.is_empty() {
            // An apply without a change keeps the time of the previous apply.
            let time = match last {
                _ if after != *live => write.time.clone(),
                Some(last) => last.time,
                None => String::new(),
            };
            self.push(Entry { manager: write.manager.clone().into(), time, fields: set.into() });
        }
        self.sort();
        Ok(after)
    }

    /// Removes the fields in `last` that are not in `set`. Fields of other managers stay.
    fn prune(&self, schema: &Schema, merged: Object, set: &FieldSet, last: &FieldSet) -> Object {
        if last.is_empty() {
            return merged;
        }
        let enclosed = |set: &FieldSet| with_enclosing_fields(schema, set);
        let last = enclosed(last);
        let all = enclosed(&fields(schema, &merged));
        let pruned = without(schema, &merged, &last);
        // Keep the fields of other owners.
        let mut kept = enclosed(&fields(schema, &pruned));
        kept.add(enclosed(set));
        for owner in self.entries() {
            kept.add(enclosed(&owner.fields));
        }
        let mut removed = all.clone();
        removed.subtract(&kept);
        let pruned = without(schema, &merged, &removed);
        // Keep fields that are missing only because an enclosing value was removed.
        let mut removed = all;
        removed.subtract(&enclosed(&fields(schema, &pruned)));
        without(schema, &merged, &removed.intersection(&last))
    }

    fn check_conflicts(&self, written: &FieldSet, force: &Force) -> Result<(), Conflicts> {
        let mut written = written.clone();
        match force {
            Force::Yes => return Ok(()),
            Force::No => {}
            Force::Only(allowed) => written.subtract(allowed),
        }
        let mut owners: Vec<(String, Vec<String>)> = self
            .entries()
            .iter()
            .map(|entry| (entry.manager.in_message(), entry.fields.intersection(&written).paths()))
            .collect();
        owners.sort();
        let conflicts: Vec<Conflict> = owners
            .into_iter()
            .flat_map(|(owner, fields)| {
                fields.into_iter().map(move |field| Conflict { owner: owner.clone(), field })
            })
            .collect();
        if conflicts.is_empty() { Ok(()) } else { Err(Conflicts(conflicts)) }
    }
}

/// Returns the fields that a client-side `kubectl apply` set and that no other client changed since.
/// `applied` is the object in its annotation `kubectl.kubernetes.io/last-applied-configuration`.
///
/// `kubectl apply --server-side` may take these fields from other managers: see [`Force::Only`].
pub fn unchanged_since_client_side_apply(schema: &Schema, applied: &Object, live: &Object) -> FieldSet {
    let changes = changes(schema, applied, live);
    let mut same = fields(schema, applied);
    same.subtract(&changes.written);
    same.subtract(&changes.removed);
    same
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operation, testing};
    use serde_json::json;

    fn object(value: serde_json::Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn write<'a>(schema: &'a Schema, name: &str, operation: Operation) -> Write<'a> {
        let manager =
            Manager { name: name.into(), operation, api_version: "v1".into(), subresource: String::new() };
        Write {
            schema,
            manager,
            time: format!("2026-01-01T00:00:0{}Z", name.len()),
            excluded: FieldSet::from_paths(&[&["status"]]),
            keeps_nulls: false,
        }
    }

    fn pod(image: &str) -> Object {
        object(json!({"spec": {"containers": [{"name": "c", "image": image}]}, "status": {"phase": "x"}}))
    }

    #[test]
    fn fields_that_are_no_longer_applied_are_removed_unless_another_manager_owns_them() {
        let schema = testing::pod();
        let mut managers = Managers::default();
        let labels = |labels: serde_json::Value| object(json!({"metadata": {"labels": labels}}));
        let first = write(&schema, "one", Operation::Apply);
        let live = managers.apply(&first, &Object::new(), &labels(json!({"a": "1", "b": "1"})), &Force::No);
        let second = write(&schema, "other", Operation::Apply);
        let live = managers.apply(&second, &live.unwrap(), &labels(json!({"a": "1"})), &Force::No).unwrap();
        let live = managers.apply(&first, &live, &labels(json!({})), &Force::No).unwrap();
        assert_eq!(live["metadata"]["labels"], json!({"a": "1"}));
    }

    #[test]
    fn conflict_contains_the_owner_and_the_field() {
        let schema = testing::pod();
        let mut managers = Managers::default();
        managers.update(&write(&schema, "editor", Operation::Update), &Object::new(), &pod("1"));
        let apply = write(&schema, "one", Operation::Apply);
        let error = managers.clone().apply(&apply, &pod("1"), &pod("2"), &Force::No).unwrap_err();
        let field = r#".spec.containers[name="c"].image"#;
        let owner = r#""editor" using v1"#;
        assert_eq!(error.0, [Conflict { owner: owner.into(), field: field.into() }]);
        assert_eq!(
            error.to_string(),
            format!("Apply failed with 1 conflict: conflict with {owner}: {field}")
        );
        let image = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}}"#;
        let allowed = FieldSet::from_json(&serde_json::from_str(image).unwrap()).unwrap();
        let live = managers.apply(&apply, &pod("1"), &pod("2"), &Force::Only(allowed)).unwrap();
        assert_eq!(live["spec"], pod("2")["spec"]);
        assert!(managers.entries().iter().all(|entry| !entry.fields.paths().contains(&".status".to_owned())));
    }

    #[test]
    fn apply_without_a_change_keeps_the_time() {
        let schema = testing::pod();
        let mut managers = Managers::default();
        let first = write(&schema, "one", Operation::Apply);
        let live = managers.apply(&first, &Object::new(), &pod("1"), &Force::No).unwrap();
        let later = Write { time: "2027-01-01T00:00:00Z".into(), ..first };
        managers.apply(&later, &live, &pod("1"), &Force::No).unwrap();
        assert_eq!(managers.entries()[0].time, "2026-01-01T00:00:03Z");
        managers.apply(&later, &live, &pod("2"), &Force::No).unwrap();
        assert_eq!(managers.entries()[0].time, "2027-01-01T00:00:00Z");
    }

    #[test]
    fn fields_of_a_client_side_apply_are_returned_while_they_are_unchanged() {
        let schema = testing::pod();
        let same = unchanged_since_client_side_apply(&schema, &pod("1"), &pod("1"));
        assert!(same.paths().contains(&r#".spec.containers[name="c"].image"#.to_owned()));
        let changed = unchanged_since_client_side_apply(&schema, &pod("1"), &pod("2"));
        assert!(!changed.paths().contains(&r#".spec.containers[name="c"].image"#.to_owned()));
    }
}

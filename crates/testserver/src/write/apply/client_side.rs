//! Objects of client-side `kubectl apply` that `kubectl apply --server-side` takes over.

use kube_managed_fields::{FieldSet, unchanged_since_client_side_apply};
use serde_json::Value;

use crate::wire::object::Object;
use crate::wire::object::metadata_mut;
use crate::write::apply::track::Write;

const MANAGER: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum total size of the annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn last_applied(object: &Object) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

/// Returns the fields that kubectl may take from other managers. kubectl has applied them before, and
/// their values are unchanged.
pub(crate) fn allowed_conflicts(write: Write<'_>, live: &Object) -> FieldSet {
    let Some(text) = last_applied(live).filter(|_| write.manager == MANAGER) else {
        return FieldSet::default();
    };
    let Ok(Value::Object(applied)) = serde_json::from_str(text) else { return FieldSet::default() };
    let version = applied.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    if version != write.kind.api_version() {
        return FieldSet::default();
    }
    unchanged_since_client_side_apply(&write.kind.merging, &applied, live)
}

/// Updates the annotation in which kubectl stores the last applied object.
pub(crate) fn keep_last_applied(write: Write<'_>, applied: &Object, after: &mut Object) {
    if write.manager != MANAGER || last_applied(after).is_none() {
        return;
    }
    let mut applied = applied.clone();
    let annotations = metadata_mut(&mut applied).get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", Value::Object(applied));
    let annotations = metadata_mut(after).get_mut("annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    annotations.insert(LAST_APPLIED.into(), text.into());
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_LIMIT {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::kinds::kind::Kind;
    use crate::write::Part;
    use crate::write::apply::track;
    use serde_json::json;

    fn kind() -> Kind {
        crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.plural == "configmaps").unwrap()
    }

    fn live(a: &str) -> Object {
        let applied =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}});
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": a, "b": "2"},
            "metadata": {"name": "x", "annotations": {LAST_APPLIED: applied.to_string()}}});
        live.as_object().unwrap().clone()
    }

    #[test]
    fn kubectl_may_take_fields_with_the_last_applied_value() {
        let kind = kind();
        let write = Write { kind: &kind, part: Part::Main, manager: "kubectl", now: "" };
        assert!(allowed_conflicts(write, &live("1")).paths().contains(&".data.a".to_owned()));
        assert!(!allowed_conflicts(write, &live("9")).paths().contains(&".data.a".to_owned()));
        let other = Write { manager: "other", ..write };
        assert!(allowed_conflicts(other, &live("1")).is_empty());
    }

    #[test]
    fn last_applied_annotation_does_not_contain_itself() {
        let kind = kind();
        let write = Write { kind: &kind, part: Part::Main, manager: "kubectl", now: "" };
        let mut after = live("1");
        let applied = json!({"metadata": {"annotations": {LAST_APPLIED: "old", "x": "y"}}});
        keep_last_applied(write, applied.as_object().unwrap(), &mut after);
        assert_eq!(last_applied(&after), Some("{\"metadata\":{\"annotations\":{\"x\":\"y\"}}}\n"));
        assert!(track::managed_fields(&after).is_none());
    }
}

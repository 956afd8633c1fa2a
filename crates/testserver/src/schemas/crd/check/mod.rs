//! Validation of CRDs, with the messages and the order of kube-apiserver.
//!
//! If all versions have the same schema, subresources, columns or selectable fields, the real server
//! stores them once. It then reports their errors once, under `spec`.

mod conversion;
mod features;
pub(crate) mod field_path;
mod names;
mod rules;
mod schema;
mod spec;
mod structural;

use serde_json::Value;

use crate::schemas::crd::definition::{text, versions};
use crate::schemas::crd::schema::node::{self, texts};
use crate::schemas::crd::status;
use crate::status::Cause;
use crate::wire::object::Object;
use crate::wire::object::meta;

/// Validates a new CRD.
pub(crate) fn new(crd: &Object) -> Vec<Cause> {
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let (name, plural, group) = (meta(crd, "name"), text(spec, "/names/plural"), text(spec, "/group"));
    let mut causes = Vec::new();
    if name != format!("{plural}.{group}") {
        let text = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid_text("metadata.name", name, text));
    }
    causes.extend(spec::check(crd));
    causes.extend(stored_versions(crd));
    causes.extend(unknown_fields_kept(spec, None));
    causes
}

/// Validates an update of a CRD.
pub(crate) fn update(before: &Object, after: &Object) -> Vec<Cause> {
    let null = Value::Null;
    let (old, spec) = (before.get("spec").unwrap_or(&null), after.get("spec").unwrap_or(&null));
    let mut causes = spec::check(after);
    let established: &[&str] =
        if status::is(before, "Established") { &["/scope", "/names/kind"] } else { &[] };
    for pointer in established.iter().copied().chain(["/group", "/names/plural"]) {
        let value = text(spec, pointer);
        if value != text(old, pointer) {
            let field = format!("spec{}", pointer.replace('/', "."));
            causes.push(Cause::invalid_text(&field, value, "field is immutable"));
        }
    }
    causes.extend(stored_versions(after));
    causes.extend(unknown_fields_kept(spec, Some(old)));
    causes
}

/// Checks the stored versions. Each must exist in the spec, and they must include the storage version.
fn stored_versions(crd: &Object) -> Vec<Cause> {
    const FIELD: &str = "status.storedVersions";
    let stored = crd.get("status").and_then(|status| status.get("storedVersions"));
    let names: Vec<&str> = crd.get("status").into_iter().flat_map(|s| texts(s, "storedVersions")).collect();
    if names.is_empty() {
        return vec![Cause::invalid(FIELD, "null", "must have at least one stored version")];
    }
    let mut causes = Vec::new();
    let storing = versions(crd).filter(|version| node::flag(version, "storage"));
    for name in storing.map(|version| node::text(version, "name")).filter(|name| !names.contains(name)) {
        let shown = stored.map(Value::to_string).unwrap_or_default();
        causes.push(Cause::invalid(FIELD, &shown, &format!("must have the storage version {name}")));
    }
    for (index, name) in names.iter().enumerate() {
        if versions(crd).any(|version| node::text(version, "name") == *name) {
            continue;
        }
        let text = "missing from spec.versions; a stored version must remain in spec.versions";
        causes.push(Cause::invalid_text(&format!("{FIELD}[{index}]"), name, text));
    }
    causes
}

fn unknown_fields_kept(spec: &Value, before: Option<&Value>) -> Option<Cause> {
    let kept = |spec: &Value| node::flag(spec, "preserveUnknownFields");
    let text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    (kept(spec) && !before.is_some_and(kept))
        .then(|| Cause::invalid("spec.preserveUnknownFields", "true", text))
}

/// Returns whether all versions have the same value at this pointer.
fn is_shared(crd: &Object, pointer: &str) -> bool {
    let value_at = |version: &Value| version.pointer(pointer).cloned().filter(|value| !value.is_null());
    let first = versions(crd).next().and_then(value_at);
    first.is_some() && versions(crd).all(|version| value_at(version) == first)
}

#[cfg(test)]
mod tests;

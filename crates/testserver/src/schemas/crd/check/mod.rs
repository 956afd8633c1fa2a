//! Validation of CRDs, with the messages and the order of kube-apiserver.
//!
//! The real server stores the schema, subresources, columns and selectable fields of a single version under
//! `spec`, and reports their errors there.

mod features;
pub(crate) mod field_path;
mod schema;
mod spec;
mod structural;

use serde_json::Value;

use crate::schemas::crd::definition::{storage_version, text, versions};
use crate::schemas::crd::schema::node::{self, texts};
use crate::schemas::crd::status;
use crate::status::Cause;
use crate::wire::object::Object;
use crate::wire::object::meta;

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
    causes
}

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
    causes
}

/// Checks the stored versions. Each must exist in the spec, and they must include the storage version.
fn stored_versions(crd: &Object) -> Vec<Cause> {
    const FIELD: &str = "status.storedVersions";
    let names: Vec<&str> = crd.get("status").into_iter().flat_map(|s| texts(s, "storedVersions")).collect();
    if names.is_empty() {
        return vec![Cause::invalid(FIELD, "null", "must have at least one stored version")];
    }
    let mut causes = Vec::new();
    if let Some(name) = storage_version(crd).map(|version| node::text(version, "name"))
        && !names.contains(&name)
    {
        let text = format!("must have the storage version {name}");
        causes.push(Cause::invalid(FIELD, &Value::from(names.clone()).to_string(), &text));
    }
    let known: Vec<&str> = versions(crd).map(|version| node::text(version, "name")).collect();
    for (index, name) in names.iter().enumerate().filter(|(_, name)| !known.contains(name)) {
        let text = "missing from spec.versions; a stored version must remain in spec.versions";
        causes.push(Cause::invalid_text(&format!("{FIELD}[{index}]"), name, text));
    }
    causes
}

#[cfg(test)]
mod tests;

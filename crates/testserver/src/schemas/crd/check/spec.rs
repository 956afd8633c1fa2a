//! Validation of the spec of a CRD.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::schemas::crd::check::{conversion, features, is_shared, names, schema};
use crate::schemas::crd::definition::{text, versions};
use crate::schemas::crd::schema::node::{self, flag};
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, is_label_1035, is_subdomain};
use crate::wire::object::Object;

/// The pointer to the schema of a version.
const SCHEMA: &str = "/schema/openAPIV3Schema";

pub(super) fn check(crd: &Object) -> Vec<Cause> {
    let null = Value::Null;
    let spec = crd.get("spec").unwrap_or(&null);
    let mut causes: Vec<Cause> = group(text(spec, "/group")).into_iter().collect();
    match text(spec, "/scope") {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => causes.push(Cause::unsupported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    causes.extend(each_version(crd));
    causes.extend(all_versions(crd));
    causes.extend(names::check(spec));
    causes.extend(conversion::check(spec));
    causes
}

fn group(group: &str) -> Option<Cause> {
    match group {
        "" => Some(Cause::required("spec.group", "")),
        _ if is_subdomain(group) && group.contains('.') => None,
        _ => Some(Cause::invalid_text("spec.group", group, "must be a domain with at least one dot")),
    }
}

/// Returns the versions whose values at `pointer` are validated, with the fields of these values. If all
/// versions have the same value, the real server stores it once and reports its errors in `spec`.
fn places<'a>(crd: &'a Object, pointer: &str, shared: &str) -> Vec<(&'a Value, String)> {
    if is_shared(crd, pointer) {
        return versions(crd).take(1).map(|version| (version, format!("spec.{shared}"))).collect();
    }
    let own = pointer.replace('/', ".");
    let field = |index| format!("spec.versions[{index}]{own}");
    versions(crd).enumerate().map(|(index, version)| (version, field(index))).collect()
}

fn each_version(crd: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, version) in versions(crd).enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = node::text(version, "name");
        if !is_label_1035(name) {
            causes.push(Cause::invalid_text(&format!("{at}.name"), name, LABEL_1035));
        }
        if !version.pointer(SCHEMA).is_some_and(Value::is_object) {
            causes.push(Cause::required(&format!("{at}.schema.openAPIV3Schema"), ""));
        }
        causes.extend(deprecation(version, &at));
    }
    for (version, at) in places(crd, SCHEMA, "validation.openAPIV3Schema") {
        let status = version.pointer("/subresources/status").is_some_and(|status| !status.is_null());
        causes.extend(schema::check(version.pointer(SCHEMA), &at, status));
    }
    for (version, at) in places(crd, "/subresources", "subresources") {
        causes.extend(features::subresources(version, &at));
    }
    for (version, at) in places(crd, "/additionalPrinterColumns", "additionalPrinterColumns") {
        causes.extend(features::columns(version, &at));
    }
    for (version, at) in places(crd, "/selectableFields", "selectableFields") {
        causes.extend(features::selectable_fields(version, &at));
    }
    causes
}

fn deprecation(version: &Value, at: &str) -> Option<Cause> {
    let warning = version.get("deprecationWarning").and_then(Value::as_str)?;
    let detail = "can only be set for deprecated versions";
    let field = format!("{at}.deprecationWarning");
    (!flag(version, "deprecated")).then(|| Cause::invalid_text(&field, warning, detail))
}

/// Validates the versions as a list.
fn all_versions(crd: &Object) -> Vec<Cause> {
    let names: BTreeSet<&str> = versions(crd).map(|version| node::text(version, "name")).collect();
    let unique = names.len() == versions(crd).count();
    let stored = versions(crd).filter(|version| flag(version, "storage")).count();
    let wrong = [
        (!unique, "must contain unique version names"),
        (stored != 1, "must have exactly one version marked as storage version"),
    ];
    let shown = json!(names).to_string();
    let wrong = wrong.iter().filter(|(is, _)| *is);
    wrong.map(|(_, text)| Cause::invalid("spec.versions", &shown, text)).collect()
}

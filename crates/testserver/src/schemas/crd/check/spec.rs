//! Validation of the spec of a CRD.

use serde_json::{Value, json};

use crate::schemas::crd::check::{conversion, features, is_shared, names, schema};
use crate::schemas::crd::definition::{text, versions};
use crate::schemas::crd::schema::node::{self, flag};
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, SUBDOMAIN, is_label_1035, is_subdomain};
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
    for (index, version) in versions(crd).enumerate() {
        if !version.pointer(SCHEMA).is_some_and(Value::is_object) {
            causes.push(Cause::required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    causes.extend(each_version(crd));
    causes.extend(all_versions(crd, spec));
    causes.extend(names::check(spec));
    causes.extend(shared(crd));
    causes.extend(conversion::check(spec));
    causes
}

fn group(group: &str) -> Option<Cause> {
    match group {
        "" => Some(Cause::required("spec.group", "")),
        _ if !is_subdomain(group) => Some(Cause::invalid("spec.group", &format!("{group:?}"), SUBDOMAIN)),
        _ if !group.contains('.') => {
            let detail = "should be a domain with at least one dot";
            Some(Cause::invalid("spec.group", &format!("{group:?}"), detail))
        }
        _ => None,
    }
}

/// Validates each version separately.
fn each_version(crd: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, version) in versions(crd).enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = node::text(version, "name");
        if !is_label_1035(name) {
            causes.push(Cause::invalid(&format!("{at}.name"), &format!("{name:?}"), LABEL_1035));
        }
        causes.extend(deprecation(version, &at));
        if !is_shared(crd, SCHEMA) {
            let status = has_status(version);
            causes.extend(schema::check(
                version.pointer(SCHEMA),
                &format!("{at}.schema.openAPIV3Schema"),
                status,
            ));
        }
        if !is_shared(crd, "/subresources") {
            causes.extend(features::subresources(version, &format!("{at}.subresources")));
        }
        if !is_shared(crd, "/additionalPrinterColumns") {
            causes.extend(features::columns(version, &format!("{at}.additionalPrinterColumns")));
        }
        if !is_shared(crd, "/selectableFields") {
            causes.extend(features::selectable_fields(version, &format!("{at}.selectableFields")));
        }
    }
    causes
}

fn has_status(version: &Value) -> bool {
    version.pointer("/subresources/status").is_some_and(|status| !status.is_null())
}

fn deprecation(version: &Value, at: &str) -> Option<Cause> {
    let warning = version.get("deprecationWarning").and_then(Value::as_str)?;
    let detail = match warning {
        _ if !flag(version, "deprecated") => "can only be set for deprecated versions",
        "" => "must not be an empty string",
        long if long.len() > 256 => "must be <= 256 characters long",
        _ => return None,
    };
    Some(Cause::invalid(&format!("{at}.deprecationWarning"), &format!("{warning:?}"), detail))
}

/// Validates the versions as a list.
fn all_versions(crd: &Object, spec: &Value) -> Vec<Cause> {
    let names: Vec<&str> = versions(crd).map(|version| node::text(version, "name")).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    let mut causes = Vec::new();
    let mut add_cause = |text: &str| causes.push(Cause::invalid("spec.versions", &shown(crd, spec), text));
    if unique.len() != names.len() {
        add_cause("must contain unique version names");
    }
    if versions(crd).filter(|version| flag(version, "storage")).count() != 1 {
        add_cause("must have exactly one version marked as storage version");
    }
    if let Some(first) = names.first().filter(|first| !first.is_empty() && !is_label_1035(first)) {
        causes.push(Cause::invalid("spec.version", &format!("{first:?}"), LABEL_1035));
    }
    causes
}

/// Formats the versions like the real server, with Go field names and without shared fields.
fn shown(crd: &Object, spec: &Value) -> String {
    if !spec.get("versions").is_some_and(Value::is_array) {
        return "null".into();
    }
    let show = |version: &Value| {
        let text = |key: &str| Value::from(node::text(version, key)).to_string();
        let warning = version.get("deprecationWarning").unwrap_or(&Value::Null);
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{warning},\
             \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            text("name"),
            flag(version, "served"),
            flag(version, "storage"),
            flag(version, "deprecated"),
        )
    };
    let all: Vec<String> = versions(crd).map(show).collect();
    format!("[{}]", all.join(","))
}

/// Validates the fields that all versions share.
fn shared(crd: &Object) -> Vec<Cause> {
    let null = json!({});
    let first = versions(crd).next().unwrap_or(&null);
    let mut causes = Vec::new();
    if is_shared(crd, SCHEMA) {
        let status = versions(crd).any(has_status);
        causes.extend(schema::check(first.pointer(SCHEMA), "spec.validation.openAPIV3Schema", status));
    }
    if is_shared(crd, "/subresources") {
        causes.extend(features::subresources(first, "spec.subresources"));
    }
    if is_shared(crd, "/additionalPrinterColumns") {
        causes.extend(features::columns(first, "spec.additionalPrinterColumns"));
    }
    if is_shared(crd, "/selectableFields") {
        causes.extend(features::selectable_fields(first, "spec.selectableFields"));
    }
    causes
}

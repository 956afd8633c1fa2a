//! Validation of the spec of a CRD.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::schemas::crd::check::{conversion, features, names, schema};
use crate::schemas::crd::definition::{text, versions};
use crate::schemas::crd::schema::node::{self, flag};
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, is_label_1035, is_subdomain};
use crate::wire::object::Object;

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

fn each_version(crd: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let is_single = versions(crd).count() == 1;
    for (index, version) in versions(crd).enumerate() {
        let at = format!("spec.versions[{index}]");
        let place = if is_single { "spec" } else { &at };
        let name = node::text(version, "name");
        if !is_label_1035(name) {
            causes.push(Cause::invalid_text(&format!("{at}.name"), name, LABEL_1035));
        }
        let schema = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object());
        match schema {
            Some(schema) => {
                let part = if is_single { "validation" } else { "schema" };
                causes.extend(schema::check(schema, &format!("{place}.{part}.openAPIV3Schema")));
            }
            None => causes.push(Cause::required(&format!("{at}.schema.openAPIV3Schema"), "")),
        }
        causes.extend(features::subresources(version, &format!("{place}.subresources")));
        causes.extend(features::columns(version, &format!("{place}.additionalPrinterColumns")));
        causes.extend(features::selectable_fields(version, &format!("{place}.selectableFields")));
    }
    causes
}

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

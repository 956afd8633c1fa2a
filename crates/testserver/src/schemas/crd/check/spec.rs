//! Validation of the spec of a CRD.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::schemas::crd::check::{features, schema};
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
    causes.extend(names(spec));
    causes.extend(conversion(spec));
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

fn names(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let names = spec.get("names").unwrap_or(&Value::Null);
    for key in ["plural", "singular", "kind", "listKind"] {
        let (field, name) = (format!("spec.names.{key}"), node::text(names, key));
        if name.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if ["plural", "singular"].contains(&key) {
            causes.extend(label(&field, name));
        } else if !is_label_1035(&name.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            causes.push(Cause::invalid_text(&field, name, &detail));
        }
    }
    for key in ["shortNames", "categories"] {
        for (index, name) in node::texts(names, key).enumerate() {
            causes.extend(label(&format!("spec.names.{key}[{index}]"), name));
        }
    }
    let (kind, list_kind) = (node::text(names, "kind"), node::text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid_text("spec.names.listKind", list_kind, detail));
    }
    causes
}

fn label(field: &str, value: &str) -> Option<Cause> {
    (!is_label_1035(value)).then(|| Cause::invalid_text(field, value, LABEL_1035))
}

fn conversion(spec: &Value) -> Vec<Cause> {
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let given = |pointer: &str| conversion.pointer(pointer).is_some_and(|value| !value.is_null());
    let client = "spec.conversion.webhookClientConfig";
    match node::text(conversion, "strategy") {
        "" => causes.push(Cause::required("spec.conversion.strategy", "")),
        "None" if given("/webhook/clientConfig") => {
            causes.push(Cause::forbidden(client, "should not be set when strategy is not set to Webhook"));
        }
        "None" => {}
        "Webhook" => {
            if given("/webhook/clientConfig/url") == given("/webhook/clientConfig/service") {
                causes.push(Cause::required(client, "exactly one of url or service is required"));
            }
            let reviews =
                conversion.get("webhook").map_or(&[][..], |w| node::list(w, "conversionReviewVersions"));
            if !reviews.iter().any(|version| *version == "v1" || *version == "v1beta1") {
                let detail = "must include at least one of v1, v1beta1";
                let field = "spec.conversion.conversionReviewVersions";
                causes.push(match reviews {
                    [] => Cause::required(field, ""),
                    _ => Cause::invalid(field, &Value::from(reviews).to_string(), detail),
                });
            }
        }
        other => causes.push(Cause::unsupported("spec.conversion.strategy", other, &["None", "Webhook"])),
    }
    causes
}

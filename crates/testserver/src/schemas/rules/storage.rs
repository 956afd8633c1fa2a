//! Rules of volumes, claims, roles and nodes.

use serde_json::{Value, json};

use crate::schemas::rules::walk::{At, Walk, keys};
use crate::wire::qualified::{name_complaints, value_complaints};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "PersistentVolumeClaimSpec" => claim(walk, at),
        "PersistentVolumeSpec" => volume(walk, at),
        "PolicyRule" => rule(walk, at),
        "Subject" => subject(walk, at),
        "RoleRef" => role_ref(walk, at),
        "NodeSpec" if at.list("podCIDRs").len() > 1 => {
            walk.bad(at, "podCIDRs", "may specify no more than one CIDR for each IP family");
        }
        "Taint" => taint(walk, at),
        _ => {}
    }
}

fn taint(walk: &mut Walk, at: &At<'_>) {
    // The path of these errors has always been wrong.
    let path = at.path.replace("spec.", "metadata.");
    for text in name_complaints(at.text("key")) {
        walk.invalid(format!("{path}.key"), at.get("key"), &text);
    }
    for text in value_complaints(at.text("value")) {
        walk.invalid(format!("{path}.value"), at.get("value"), &text);
    }
    match at.text("effect") {
        "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
        "" => walk.required(format!("{path}.effect")),
        _ => walk.unsupported(
            format!("{path}.effect"),
            at.get("effect"),
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
        ),
    }
}

/// The fields of a volume that are not its source.
pub(super) const NO_SOURCES: &[&str] = &[
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn once_pod(walk: &mut Walk, at: &At<'_>) {
    let modes = at.list("accessModes");
    if modes.len() > 1 && modes.contains(&json!("ReadWriteOncePod")) {
        walk.forbidden(at.at("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
}

fn claim(walk: &mut Walk, at: &At<'_>) {
    once_pod(walk, at);
    match &at.get("resources")["requests"]["storage"] {
        Value::Null => walk.required(at.at("resources[storage]")),
        size if !is_positive(size) => {
            walk.invalid(at.at("resources[storage]"), size, "must be greater than zero");
        }
        _ => {}
    }
}

fn is_positive(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.starts_with('-') && text != "0")
}

fn volume(walk: &mut Walk, at: &At<'_>) {
    once_pod(walk, at);
    let capacity = at.get("capacity");
    if keys(capacity).count() != 1 || capacity["storage"].is_null() {
        walk.unsupported(at.at("capacity"), capacity, &["storage"]);
    }
    if capacity.get("storage").is_some_and(|size| !is_positive(size)) {
        walk.invalid(at.at("capacity[storage]"), &capacity["storage"], "must be greater than zero");
    }
    match at.object.keys().filter(|key| !NO_SOURCES.contains(&key.as_str())).count() {
        0 => walk.required(&at.path),
        1 => {}
        _ => walk.forbidden(&at.path, "may not specify more than 1 volume type"),
    }
}

fn rule(walk: &mut Walk, at: &At<'_>) {
    let has = |key: &str| !at.list(key).is_empty();
    if !has("verbs") {
        walk.required(at.at("verbs"));
    }
    if has("nonResourceURLs") {
        if has("apiGroups") || has("resources") || has("resourceNames") {
            walk.bad(
                at,
                "nonResourceURLs",
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    for key in ["apiGroups", "resources"] {
        if !has(key) {
            walk.required(at.at(key));
        }
    }
}

fn subject(walk: &mut Walk, at: &At<'_>) {
    if at.text("name").is_empty() {
        walk.required(at.at("name"));
    }
    let group = match at.text("kind") {
        "ServiceAccount" => {
            if !at.text("name").is_empty() && !crate::wire::names::is_subdomain(at.text("name")) {
                walk.invalid(at.at("name"), at.get("name"), crate::wire::names::SUBDOMAIN);
            }
            if at.text("namespace").is_empty() && !walk.is_namespaced {
                walk.required(at.at("namespace"));
            }
            ""
        }
        "User" | "Group" => "rbac.authorization.k8s.io",
        _ => return walk.unknown(at, "kind", &["ServiceAccount", "User", "Group"]),
    };
    if at.text("apiGroup") != group {
        walk.unknown(at, "apiGroup", &[group]);
    }
}

fn role_ref(walk: &mut Walk, at: &At<'_>) {
    let known = ["Role", "ClusterRole"];
    if !known.contains(&at.text("kind")) {
        walk.unknown(at, "kind", &known);
    }
}

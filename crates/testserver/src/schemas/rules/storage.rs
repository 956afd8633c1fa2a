//! Rules of volumes, claims and roles.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk, keys};
use crate::wire::names::{SUBDOMAIN, is_subdomain};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "PersistentVolumeClaimSpec" => {
            size(walk, at, "resources[storage]", at.get("resources.requests.storage"));
        }
        "PersistentVolumeSpec" => volume(walk, at),
        "PolicyRule" => rule(walk, at),
        "Subject" => subject(walk, at),
        _ => {}
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

fn size(walk: &mut Walk, at: &At<'_>, key: &str, size: &Value) {
    match size.as_str() {
        None => walk.required(at.at(key)),
        Some(text) if text.starts_with('-') || text == "0" => {
            walk.invalid(at.at(key), size, "must be greater than zero");
        }
        Some(_) => {}
    }
}

fn volume(walk: &mut Walk, at: &At<'_>) {
    let capacity = at.get("capacity");
    if keys(capacity).count() != 1 || capacity["storage"].is_null() {
        walk.unknown(at, "capacity", &["storage"]);
    } else {
        size(walk, at, "capacity[storage]", &capacity["storage"]);
    }
    match at.object.keys().filter(|key| !NO_SOURCES.contains(&key.as_str())).count() {
        0 => walk.required(&at.path),
        1 => {}
        _ => walk.forbid(at, "", "may not specify more than 1 volume type"),
    }
}

fn rule(walk: &mut Walk, at: &At<'_>) {
    let has = |key: &str| !at.list(key).is_empty();
    if !has("nonResourceURLs") {
        for key in ["apiGroups", "resources"].into_iter().filter(|key| !has(key)) {
            walk.required(at.at(key));
        }
    } else if has("apiGroups") || has("resources") || has("resourceNames") {
        walk.bad(at, "nonResourceURLs", "rules cannot apply to both resources and non-resource URLs");
    }
}

fn subject(walk: &mut Walk, at: &At<'_>) {
    let group = match at.text("kind") {
        "ServiceAccount" => {
            if !at.text("name").is_empty() && !is_subdomain(at.text("name")) {
                walk.bad(at, "name", SUBDOMAIN);
            }
            if at.text("namespace").is_empty() && !walk.is_namespaced {
                walk.required(at.at("namespace"));
            }
            ""
        }
        "User" | "Group" => "rbac.authorization.k8s.io",
        _ => return,
    };
    if at.text("apiGroup") != group {
        walk.unknown(at, "apiGroup", &[group]);
    }
}

//! Rules of updates that concern several fields: the parts of an object that an update may change.

use serde_json::Value;

use crate::schemas::rules::storage::NO_SOURCES;
use crate::schemas::rules::walk::{At, Walk, is_same_except, list};
use crate::schemas::types::quantity::nanos;

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "JobSpec" if at.path == "spec" => job(walk, at),
        _ if !at.path.is_empty() => {}
        "Pod" => pod(walk, at),
        "PersistentVolumeClaim" => claim(walk, at),
        "PersistentVolume" => {
            if !is_same_except(at.get("spec"), at.old("spec"), NO_SOURCES) {
                walk.forbid(at, "spec.persistentvolumesource", "is immutable after creation");
            }
            keep(walk, at, &["volumeMode", "nodeAffinity"]);
        }
        _ => {}
    }
}

/// Checks fields of a volume or claim whose errors do not contain the path of the spec.
fn keep(walk: &mut Walk, at: &At<'_>, keys: &[&str]) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    for key in keys.iter().filter(|key| !old[**key].is_null() && spec[**key] != old[**key]) {
        walk.invalid(key, &spec[*key], "field is immutable");
    }
}

/// A Pod can change only its images, deadline, tolerations and scheduling gates. A gated Pod can also change
/// its node selector and node affinity.
fn pod(walk: &mut Walk, at: &At<'_>) {
    for key in ["spec.containers", "spec.initContainers"] {
        if at.list(key).len() != list(at.old(key)).len() {
            return walk.forbid(at, key, "pod updates may not add or remove containers");
        }
    }
    if !list(at.old("spec.tolerations")).iter().all(|old| at.list("spec.tolerations").contains(old)) {
        walk.forbid(at, "spec.tolerations", "existing tolerations can not be modified");
    }
    let is_gated = at.old("spec.schedulingGates").is_array();
    if !is_permitted(at.get("spec"), at.old("spec"), is_gated) {
        walk.forbid(at, "spec", "pod updates may not change other fields");
    }
}

/// Returns whether two specs differ only in parts that an update may change.
fn is_permitted(spec: &Value, old: &Value, is_gated: bool) -> bool {
    const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
    let mut mutable = vec!["tolerations", "schedulingGates", "activeDeadlineSeconds"];
    mutable.extend(CONTAINERS);
    if is_gated {
        mutable.extend(["nodeSelector", "affinity"]);
    }
    let keeps_containers = CONTAINERS.iter().all(|key| {
        list(&spec[key])
            .iter()
            .zip(list(&old[key]))
            .all(|(one, other)| is_same_except(one, other, &["image"]))
    });
    let keeps_affinity = !is_gated || is_same_except(&spec["affinity"], &old["affinity"], &["nodeAffinity"]);
    keeps_containers && keeps_affinity && is_same_except(spec, old, &mutable)
}

/// A suspended Job can change its template: the scheduling of its Pods.
fn job(walk: &mut Walk, at: &At<'_>) {
    let is_indexed = at.text("completionMode") == "Indexed";
    let is_scaled = is_indexed && at.has("completions") && at.get("completions") == at.get("parallelism");
    if at.get("completions") != at.old("completions") && !is_scaled {
        walk.bad(at, "completions", "field is immutable");
    }
    let (key, mutable) = match at.old("suspend") == true {
        true => ("template.spec", &["nodeSelector", "tolerations", "schedulingGates"][..]),
        false => ("template", &[][..]),
    };
    if !is_same_except(at.get(key), at.old(key), mutable) {
        walk.bad(at, key, "field is immutable");
    }
}

fn claim(walk: &mut Walk, at: &At<'_>) {
    let mut mutable = Vec::new();
    if at.get("status.phase") == "Bound" {
        mutable.extend(["resources", "volumeAttributesClassName"]);
    }
    if at.old("spec.volumeName").is_null() {
        mutable.push("volumeName");
    }
    if !is_same_except(at.get("spec"), at.old("spec"), &mutable) {
        walk.forbid(at, "spec", "spec is immutable after creation except resources.requests");
    }
    keep(walk, at, &["volumeMode"]);
    let key = "spec.resources.requests.storage";
    let size = |value: &Value| nanos(value.as_str().unwrap_or("0"));
    if size(at.get(key)) < size(at.old(key)) {
        walk.forbid(at, key, "field can not be less than status.capacity");
    }
}

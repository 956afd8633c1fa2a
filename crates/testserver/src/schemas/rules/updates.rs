//! Rules of updates that concern several fields: the parts of an object that an update may change.

use serde_json::{Map, Value, json};

use crate::schemas::rules::storage::NO_SOURCES;
use crate::schemas::rules::walk::{At, Walk, list};

type Object = Map<String, Value>;

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    if !at.path.is_empty() && message != "ServiceSpec" {
        return;
    }
    match message {
        "Pod" => pod(walk, at),
        "StatefulSet" => {
            let mutable = [
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ];
            if without(at.get("spec"), &mutable) != without(at.old("spec"), &mutable) {
                walk.forbidden("spec", "updates to statefulset spec for other fields are forbidden");
            }
        }
        "Job" => job(walk, at),
        "PersistentVolumeClaim" => claim(walk, at),
        "PersistentVolume" => volume(walk, at),
        "PriorityClass" if at.get("value") != at.old("value") => {
            walk.forbidden("value", "may not be changed in an update.");
        }
        "Node" => node(walk, at),
        "ServiceSpec"
            if at.text("type") == "LoadBalancer"
                && at.old("type") == "LoadBalancer"
                && at.get("loadBalancerClass") != at.old("loadBalancerClass") =>
        {
            walk.bad(at, "loadBalancerClass", "may not change once set");
        }
        _ => {}
    }
}

fn without(value: &Value, keys: &[&str]) -> Object {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(key, _)| !keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// A Pod can change only its images, deadline, tolerations and scheduling gates. A gated Pod can also change
/// its node selector and node affinity.
fn pod(walk: &mut Walk, at: &At<'_>) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    for key in ["containers", "initContainers"] {
        if list(&spec[key]).len() != list(&old[key]).len() {
            return walk.forbidden(format!("spec.{key}"), "pod updates may not add or remove containers");
        }
        for (index, container) in list(&spec[key]).iter().enumerate() {
            if container["image"].as_str().is_none_or(str::is_empty) {
                walk.required(format!("spec.{key}[{index}].image"));
            }
        }
    }
    let deadline = &spec["activeDeadlineSeconds"];
    match (deadline.as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), Some(old)) if new > old => {
            return walk.invalid(
                "spec.activeDeadlineSeconds",
                deadline,
                "must be less than or equal to previous value",
            );
        }
        (None, Some(_)) => {
            walk.invalid(
                "spec.activeDeadlineSeconds",
                deadline,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
    let is_kept = |old: &Value| list(&spec["tolerations"]).contains(old);
    if !list(&old["tolerations"]).iter().all(is_kept) {
        walk.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let old_gates = list(&old["schedulingGates"]);
    for (index, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        if !old_gates.contains(gate) {
            walk.forbidden(format!("spec.schedulingGates[{index}].name"), "only deletion is allowed");
        }
    }
    let is_gated = !old_gates.is_empty();
    if is_gated {
        gated(walk, spec, old);
    }
    let comparable = |spec: &Value| {
        let mut spec = without(spec, &["tolerations", "schedulingGates", "activeDeadlineSeconds"]);
        for key in ["containers", "initContainers"] {
            for container in spec.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        if is_gated {
            spec.remove("nodeSelector");
            if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
                affinity.remove("nodeAffinity");
            }
            if spec.get("affinity") == Some(&json!({})) {
                spec.remove("affinity");
            }
        }
        spec
    };
    if comparable(spec) != comparable(old) {
        walk.forbidden("spec", "pod updates may not change other fields");
    }
}

/// The node selector and the required node affinity of a gated Pod can only become stricter.
fn gated(walk: &mut Walk, spec: &Value, old: &Value) {
    let is_kept = |(key, value): (&String, &Value)| spec["nodeSelector"].get(key) == Some(value);
    if !old["nodeSelector"].as_object().into_iter().flatten().all(is_kept) {
        walk.invalid("spec.nodeSelector", &spec["nodeSelector"], "only additions are allowed");
    }
    let path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let pointer = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = |spec: &Value| spec.pointer(pointer).map(|terms| list(terms).to_vec()).unwrap_or_default();
    let (new, old) = (terms(spec), terms(old));
    if old.is_empty() {
        return;
    }
    if new.len() != old.len() {
        return walk.invalid(
            path,
            &new.into(),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
    }
    for (index, (new, old)) in new.iter().zip(&old).enumerate() {
        let is_kept = |key: &str| {
            let (new, old) = (list(&new[key]), list(&old[key]));
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| new == old)
        };
        if !is_kept("matchExpressions") || !is_kept("matchFields") {
            walk.invalid(
                format!("{path}[{index}]"),
                new,
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

/// A suspended Job can change its template: the scheduling of its Pods.
fn job(walk: &mut Walk, at: &At<'_>) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    for key in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if spec[key] != old[key] {
            walk.invalid(format!("spec.{key}"), &spec[key], "field is immutable");
        }
    }
    let is_elastic = spec["completionMode"] == "Indexed" && old["completionMode"] == "Indexed";
    let is_scaled =
        is_elastic && spec["completions"] == spec["parallelism"] && !spec["completions"].is_null();
    if spec["completions"] != old["completions"] && !is_scaled {
        walk.invalid("spec.completions", &spec["completions"], "field is immutable");
    }
    if old["suspend"] != true {
        if spec["template"] != old["template"] {
            walk.invalid("spec.template", &spec["template"], "field is immutable");
        }
        return;
    }
    let template = |spec: &Value| {
        without(&spec["template"]["spec"], &["nodeSelector", "tolerations", "schedulingGates"])
    };
    if template(spec) != template(old) {
        walk.invalid("spec.template.spec", &spec["template"]["spec"], "field is immutable");
    }
}

fn claim(walk: &mut Walk, at: &At<'_>) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    let is_bound = at.get("status")["phase"] == "Bound";
    let mutable = if is_bound { &["resources", "volumeAttributesClassName"][..] } else { &[] };
    let mut before = without(old, mutable);
    if before.get("volumeName").is_none() {
        // The volume may be set once.
        before.extend(spec.get("volumeName").map(|name| ("volumeName".to_owned(), name.clone())));
    }
    if without(spec, mutable) != before || spec["resources"]["limits"] != old["resources"]["limits"] {
        walk.forbidden("spec", "spec is immutable after creation except resources.requests");
    }
    let size = |spec: &Value| {
        crate::schemas::types::quantity::nanos(
            spec["resources"]["requests"]["storage"].as_str().unwrap_or("0"),
        )
    };
    if spec["volumeMode"] != old["volumeMode"] {
        walk.invalid("volumeMode", &spec["volumeMode"], "field is immutable");
    }
    if size(spec) < size(old) {
        walk.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
}

fn volume(walk: &mut Walk, at: &At<'_>) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    if without(spec, NO_SOURCES) != without(old, NO_SOURCES) {
        walk.forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    if !old["nodeAffinity"].is_null() && spec["nodeAffinity"] != old["nodeAffinity"] {
        walk.invalid("nodeAffinity", &spec["nodeAffinity"], "field is immutable");
    }
}

fn node(walk: &mut Walk, at: &At<'_>) {
    let (spec, old) = (at.get("spec"), at.old("spec"));
    for key in ["podCIDRs", "providerID"] {
        if !old[key].is_null() && spec[key] != old[key] {
            walk.forbidden(
                format!("spec.{key}"),
                "node updates may not change this field except from \"\" to valid",
            );
        }
    }
}

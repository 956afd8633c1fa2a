//! Defaults of the kinds that run no pods: storage, network policies, role bindings and autoscalers.

use serde_json::{Map, Value, json};

use crate::schemas::kinds::defaults::{fill, items, object_mut};
use crate::schemas::kinds::kind::Kind;

type Object = Map<String, Value>;

/// Sets the defaults of an object, on every write.
pub(crate) fn spec(kind: &Kind, object: &mut Object) {
    if kind.rules.custom {
        return;
    }
    match kind.kind.as_str() {
        "StorageClass" => {
            fill(object, &[("reclaimPolicy", json!("Delete")), ("volumeBindingMode", json!("Immediate"))]);
        }
        "RoleBinding" | "ClusterRoleBinding" => binding(object),
        _ => {}
    }
    let Some(spec) = object_mut(object, "spec") else { return };
    match kind.kind.as_str() {
        "PersistentVolumeClaim" => claim(spec),
        "PersistentVolume" => {
            fill(
                spec,
                &[("persistentVolumeReclaimPolicy", json!("Retain")), ("volumeMode", json!("Filesystem"))],
            );
            if let Some(path) = object_mut(spec, "hostPath") {
                fill(path, &[("type", json!(""))]);
            }
        }
        "NetworkPolicy" => network_policy(spec),
        "HorizontalPodAutoscaler" => autoscaler(spec),
        _ => {}
    }
}

/// Sets the defaults of the spec of a claim. The two references to a data source are equal.
pub(crate) fn claim(spec: &mut Object) {
    fill(spec, &[("volumeMode", json!("Filesystem"))]);
    for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if let Some(source) = spec.get(from).filter(|source| source.get("namespace").is_none()).cloned() {
            fill(spec, &[(to, source)]);
        }
    }
}

fn binding(object: &mut Object) {
    let group = || json!("rbac.authorization.k8s.io");
    if let Some(role) =
        object_mut(object, "roleRef").filter(|role| role.get("apiGroup").is_none_or(|of| *of == ""))
    {
        role.insert("apiGroup".into(), group());
    }
    for subject in items(object, "subjects") {
        if subject.get("kind").is_some_and(|kind| *kind == "User" || *kind == "Group") {
            fill(subject, &[("apiGroup", group())]);
        }
    }
}

fn network_policy(spec: &mut Object) {
    let types = if spec.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    fill(spec, &[("policyTypes", types)]);
    for direction in ["ingress", "egress"] {
        for port in items(spec, direction).flat_map(|rule| items(rule, "ports")) {
            fill(port, &[("protocol", json!("TCP"))]);
        }
    }
}

fn autoscaler(spec: &mut Object) {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
    fill(spec, &[("minReplicas", json!(1)), ("metrics", json!([{"type": "Resource", "resource": cpu}]))]);
    let Some(behavior) = object_mut(spec, "behavior") else { return };
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = json!({"selectPolicy": "Max", "stabilizationWindowSeconds": 0,
        "policies": [policy("Pods", 4), policy("Percent", 100)]});
    let down = json!({"selectPolicy": "Max", "policies": [policy("Percent", 100)]});
    fill(behavior, &[("scaleUp", json!({})), ("scaleDown", json!({}))]);
    for (direction, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        if let Some(rules) = object_mut(behavior, direction) {
            defaults
                .as_object()
                .into_iter()
                .flatten()
                .for_each(|(key, value)| fill(rules, &[(key, value.clone())]));
        }
    }
}

//! Defaults of claims, network policies and role bindings that depend on other fields.

use serde_json::{Map, Value, json};

use crate::schemas::kinds::defaults::{fill, items, object_mut};
use crate::schemas::kinds::kind::Kind;

type Object = Map<String, Value>;

/// Sets the defaults of an object, on every write.
pub(crate) fn spec(kind: &Kind, object: &mut Object) {
    if matches!(kind.kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
        binding(object);
    }
    let Some(spec) = object_mut(object, "spec") else { return };
    match kind.kind.as_str() {
        "PersistentVolumeClaim" => claim(spec),
        "NetworkPolicy" => {
            let egress = spec.contains_key("egress").then_some("Egress");
            let types: Vec<&str> = ["Ingress"].into_iter().chain(egress).collect();
            fill(spec, &[("policyTypes", json!(types))]);
        }
        _ => {}
    }
}

/// Sets the defaults of the spec of a claim. The two references to a data source are equal.
pub(crate) fn claim(spec: &mut Object) {
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

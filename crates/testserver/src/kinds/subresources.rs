//! The parts of objects that discovery lists beside `/status`.

use serde_json::{Value, json};

use crate::kinds::kind::Kind;

/// What `kind` has besides its status, as entries of a resource list.
pub(crate) fn of(kind: &Kind) -> Vec<Value> {
    let part = |name: &str, of: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.rules.namespaced,
            "kind": of, "verbs": verbs
        })
    };
    let typed = |name: &str, group: &str, of: &str, verbs: &[&str]| {
        let mut entry = part(name, of, verbs);
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("group".into(), group.into());
            entry.insert("version".into(), "v1".into());
        }
        entry
    };
    let mut all = Vec::new();
    if kind.is_namespace() {
        all.push(part("finalize", "Namespace", &["update"]));
    }
    if kind.is_pod() {
        all.push(part("binding", "Binding", &["create"]));
        all.push(typed("eviction", "policy", "Eviction", &["create"]));
    }
    if kind.scale.is_some() {
        all.push(typed("scale", "autoscaling", "Scale", &["get", "patch", "update"]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(plural: &str) -> Vec<Value> {
        of(&crate::kinds::builtin::kinds().into_iter().find(|kind| kind.plural == plural).unwrap())
    }

    #[test]
    fn scale_is_listed_where_it_is_served() {
        let scale = json!({
            "name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]
        });
        assert_eq!(listed("deployments"), [scale]);
        assert!(listed("daemonsets").is_empty());
        assert_eq!(listed("pods").len(), 2);
        assert_eq!(listed("namespaces")[0]["verbs"], json!(["update"]));
    }
}

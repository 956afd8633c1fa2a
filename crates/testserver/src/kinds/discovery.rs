//! Discovery: which groups, versions and resources there are, and the version of the server.

use serde_json::{Value, json};

use crate::kinds::kind::{Kind, group_version};
use crate::kinds::subresources;
use crate::state::{Registry, Served};

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": "linux/amd64"
    })
}

/// `/api`
pub(crate) fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]
    })
}

/// `/apis`
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| describe(group, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let (group, versions) = registry.groups().find(|(group, _)| *group == name && !group.is_empty())?;
    let mut value = describe(group, &versions);
    if let Some(map) = value.as_object_mut() {
        map.insert("kind".into(), "APIGroup".into());
        map.insert("apiVersion".into(), "v1".into());
    }
    Some(value)
}

fn describe(group: &str, versions: &[&String]) -> Value {
    let all: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": all, "preferredVersion": all.first()})
}

/// `/api/v1` and `/apis/GROUP/VERSION`
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let all = registry.resources(group, version)?;
    let resources: Vec<Value> = all.values().flat_map(|served: &Served| entries(&served.kind)).collect();
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": group_version(group, version), "resources": resources
    }))
}

fn entries(kind: &Kind) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.rules.namespaced, "kind": kind.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    });
    if let Some(map) = main.as_object_mut() {
        for (key, list) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
            if !list.is_empty() {
                map.insert(key.into(), json!(list));
            }
        }
    }
    let part = |name: &str| {
        json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.rules.namespaced,
            "kind": kind.kind, "verbs": ["get", "patch", "update"]
        })
    };
    let mut all = vec![main];
    if kind.rules.status {
        all.push(part("status"));
    }
    all.extend(subresources::of(kind));
    all
}

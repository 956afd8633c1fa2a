//! Aggregated discovery: everything under `/api` or `/apis` in one document.

use serde_json::{Value, json};

use crate::http::discovery::catalog::{Group, catalog, parts, verbs};
use crate::http::discovery::documents::{add_names, bytes};
use crate::schemas::kinds::kind::Kind;
use crate::state::Registry;

pub(crate) const MEDIA_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Builds the document of `/api` if `is_core` is true, otherwise of `/apis`.
pub(crate) fn document(registry: &Registry, is_core: bool) -> Vec<u8> {
    let all = catalog(registry);
    let wanted = |group: &&Group<'_>| group.name.is_empty() == is_core;
    let items: Value = all.iter().filter(wanted).map(item).collect();
    bytes(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    }))
}

fn item(group: &Group<'_>) -> Value {
    let versions = group.versions.iter().map(|(version, kinds)| {
        let resources: Value = kinds.iter().map(|kind| resource(kind)).collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    });
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions.collect::<Value>()})
}

fn resource(kind: &Kind) -> Value {
    // Group and version are set for custom resources, and if they differ from the enclosing document.
    let (group, version) =
        if kind.rules.custom { (kind.group.as_str(), kind.version.as_str()) } else { ("", "") };
    let own = json!({"group": group, "version": version, "kind": kind.kind});
    let subresources = parts(kind).into_iter().map(|part| {
        let response = match part.kind {
            Some(("", _, kind)) => json!({"group": "", "version": "", "kind": kind}),
            Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
            None => own.clone(),
        };
        json!({"subresource": part.name, "responseKind": response, "verbs": part.verbs})
    });
    let subresources: Vec<Value> = subresources.collect();
    let mut resource = json!({
        "resource": kind.plural, "responseKind": own, "singularResource": kind.singular, "verbs": verbs(kind),
        "scope": if kind.rules.namespaced { "Namespaced" } else { "Cluster" },
    });
    add_names(&mut resource, kind);
    if !subresources.is_empty() {
        resource["subresources"] = subresources.into();
    }
    resource
}

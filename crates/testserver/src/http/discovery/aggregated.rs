//! Aggregated discovery: everything under `/api` or `/apis` in one document.

use serde_json::{Value, json};

use crate::http::discovery::catalog::{Group, catalog, parts, verbs};
use crate::http::discovery::documents::{add_names, bytes};
use crate::schemas::kinds::kind::Kind;
use crate::state::Registry;

/// The media type of the response.
pub(crate) const MEDIA_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The requested half of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// `/api`
    Core,
    /// `/apis`
    Named,
}

/// Builds the document.
pub(crate) fn document(registry: &Registry, half: Half) -> Vec<u8> {
    let all = catalog(registry);
    let wanted = |group: &&Group<'_>| group.name.is_empty() == (half == Half::Core);
    let items: Value = all.iter().filter(wanted).map(item).collect();
    bytes(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    }))
}

/// Returns the ETag, which changes with the document.
pub(crate) fn etag(document: &[u8]) -> String {
    let hash = hmac_sha256::Hash::hash(document);
    let hex: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("\"{hex}\"")
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
            Some(kind) => json!({"group": part.group, "version": part.version, "kind": kind}),
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

//! Discovery: the served groups, versions and resources, in the same format as the real server.

use serde_json::{Value, json};

use crate::http::discovery::catalog::{self, Group, Part, catalog, verbs};
use crate::http::discovery::order;
use crate::schemas::kinds::kind::{Kind, group_version};
use crate::state::Registry;

pub(crate) const VERSION: &str = r#"{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.3",
  "gitCommit": "",
  "gitTreeState": "clean",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "linux/amd64"
}"#;

/// Returns the document `/api`, for a client that reached the server at this address.
pub(crate) fn core_versions(address: &str) -> Vec<u8> {
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    bytes(&json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}))
}

/// Returns the document `/apis`.
pub(crate) fn groups(registry: &Registry) -> Vec<u8> {
    let all = catalog(registry);
    let groups: Value = all.iter().filter(|group| !group.name.is_empty()).map(describe).collect();
    bytes(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// Returns the document `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Vec<u8>> {
    let all = catalog(registry);
    let mut found = describe(all.iter().find(|group| group.name == name && !name.is_empty())?);
    (found["kind"], found["apiVersion"]) = ("APIGroup".into(), "v1".into());
    Some(bytes(&found))
}

fn describe(group: &Group<'_>) -> Value {
    let version = |name| json!({"groupVersion": group_version(group.name, name), "version": name});
    let versions: Vec<_> = group.versions.iter().map(|(name, _)| version(name)).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// Returns the document `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Vec<u8>> {
    let all = catalog(registry);
    let found = all.iter().find(|own| own.name == group)?;
    let (_, kinds) = found.versions.iter().find(|(name, _)| *name == version)?;
    let resources: Value = kinds.iter().flat_map(|kind| entries(kind)).collect();
    let group_version = group_version(group, version);
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The real server omits the apiVersion in the document of the core group.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(bytes(&list))
}

/// Returns the paths that the root lists.
pub(crate) fn paths(registry: &Registry) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into(), "/apis/".into()];
    for group in catalog(registry).iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|(version, _)| format!("/apis/{}/{version}", group.name)));
    }
    paths
}

fn entries(kind: &Kind) -> impl Iterator<Item = Value> {
    let mut main = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.rules.namespaced,
        "kind": kind.kind, "verbs": verbs(kind),
    });
    add_names(&mut main, kind);
    if catalog::is_stored(kind) {
        main["storageVersionHash"] = order::storage_version_hash(kind).into();
    }
    let part = |part: Part| {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, part.name), "singularName": "",
            "namespaced": kind.rules.namespaced, "kind": part.kind.map_or(&*kind.kind, |(_, _, kind)| kind), "verbs": part.verbs,
        });
        if let Some((group, version, _)) = part.kind.filter(|(group, ..)| !group.is_empty()) {
            (entry["group"], entry["version"]) = (group.into(), version.into());
        }
        entry
    };
    std::iter::once(main).chain(catalog::parts(kind).into_iter().map(part))
}

pub(super) fn add_names(resource: &mut Value, kind: &Kind) {
    for (key, names) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !names.is_empty() {
            resource[key] = json!(names);
        }
    }
}

pub(super) fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

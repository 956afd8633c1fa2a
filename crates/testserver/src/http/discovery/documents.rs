//! Discovery: the served groups, versions and resources, in the same format as the real server.

use serde::Serialize;

use crate::http::discovery::catalog::{self, Group, Part, catalog, verbs};
use crate::http::discovery::order;
use crate::schemas::kinds::kind::{Kind, group_version};
use crate::state::Registry;

/// The response to `/version`.
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersions<'a> {
    kind: &'static str,
    versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    addresses: [Address<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<ApiVersion<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_version: Option<ApiVersion<'a>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiVersion<'a> {
    group_version: String,
    version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceList<'a> {
    kind: &'static str,
    /// The apiVersion. The real server omits it in the document of the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: &'a [&'a str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

/// Returns the document `/api`, for a client that reached the server at this address.
pub(crate) fn core_versions(address: &str) -> Vec<u8> {
    let addresses = [Address { client_cidr: "0.0.0.0/0", server_address: address }];
    bytes(&ApiVersions { kind: "APIVersions", versions: ["v1"], addresses })
}

/// Returns the document `/apis`.
pub(crate) fn groups(registry: &Registry) -> Vec<u8> {
    let all = catalog(registry);
    let groups = all.iter().filter(|group| !group.name.is_empty()).map(describe).collect();
    bytes(&ApiGroupList { kind: "APIGroupList", api_version: "v1", groups })
}

/// Returns the document `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Vec<u8>> {
    let all = catalog(registry);
    let found = all.iter().find(|group| group.name == name && !name.is_empty())?;
    Some(bytes(&ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..describe(found) }))
}

fn describe<'a>(group: &Group<'a>) -> ApiGroup<'a> {
    let version = |name| ApiVersion { group_version: group_version(group.name, name), version: name };
    let versions: Vec<_> = group.versions.iter().map(|(name, _)| version(name)).collect();
    let preferred_version = versions.first().cloned();
    ApiGroup { kind: None, api_version: None, name: group.name, versions, preferred_version }
}

/// Returns the document `/api/v1` or `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Vec<u8>> {
    let all = catalog(registry);
    let found = all.iter().find(|own| own.name == group)?;
    let (_, kinds) = found.versions.iter().find(|(name, _)| *name == version)?;
    let resources = kinds.iter().flat_map(|kind| entries(kind)).collect();
    let api_version = (!group.is_empty()).then_some("v1");
    let group_version = group_version(group, version);
    Some(bytes(&ApiResourceList { kind: "APIResourceList", api_version, group_version, resources }))
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

fn entries(kind: &Kind) -> impl Iterator<Item = ApiResource<'_>> {
    let main = ApiResource {
        name: kind.plural.clone(),
        singular_name: &kind.singular,
        namespaced: kind.rules.namespaced,
        group: "",
        version: "",
        kind: &kind.kind,
        verbs: verbs(kind),
        short_names: &kind.short_names,
        categories: &kind.categories,
        storage_version_hash: catalog::is_stored(kind).then(|| order::storage_version_hash(kind)),
    };
    let part = |part: Part| ApiResource {
        name: format!("{}/{}", kind.plural, part.name),
        singular_name: "",
        namespaced: kind.rules.namespaced,
        group: part.group,
        version: part.version,
        kind: part.kind.unwrap_or(&kind.kind),
        verbs: part.verbs,
        short_names: &[],
        categories: &[],
        storage_version_hash: None,
    };
    std::iter::once(main).chain(catalog::parts(kind).into_iter().map(part))
}

/// Serialises a document. Documents contain only texts and always serialise, so the fallback value only
/// avoids a panic.
pub(super) fn bytes(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_else(|_| b"{}".to_vec())
}

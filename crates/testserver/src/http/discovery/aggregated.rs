//! Aggregated discovery: everything under `/api` or `/apis` in one document.

use serde::Serialize;

use crate::http::discovery::catalog::{Group, catalog, parts, verbs};
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    items: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct Item<'a> {
    metadata: Metadata<'a>,
    versions: Vec<Version<'a>>,
}

#[derive(Serialize)]
struct Version<'a> {
    version: &'a str,
    resources: Vec<Resource<'a>>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'a [&'a str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource<'a>>,
}

/// Group and version are set for custom resources, and if they differ from the enclosing document.
#[derive(Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subresource<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: &'a [&'a str],
}

/// Builds the document.
pub(crate) fn document(registry: &Registry, half: Half) -> Vec<u8> {
    let all = catalog(registry);
    let wanted = |group: &&Group<'_>| group.name.is_empty() == (half == Half::Core);
    super::documents::bytes(&List {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Metadata { name: "" },
        items: all.iter().filter(wanted).map(item).collect(),
    })
}

/// Returns the ETag, which changes with the document.
pub(crate) fn etag(document: &[u8]) -> String {
    let hash = hmac_sha256::Hash::hash(document);
    let hex: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("\"{hex}\"")
}

fn item<'a>(group: &Group<'a>) -> Item<'a> {
    let version = |(version, kinds): &(&'a str, Vec<&'a Kind>)| Version {
        version,
        resources: kinds.iter().map(|kind| resource(kind)).collect(),
        freshness: "Current",
    };
    Item { metadata: Metadata { name: group.name }, versions: group.versions.iter().map(version).collect() }
}

fn resource(kind: &Kind) -> Resource<'_> {
    let (group, version) =
        if kind.rules.custom { (kind.group.as_str(), kind.version.as_str()) } else { ("", "") };
    let own = || ResponseKind { group, version, kind: &kind.kind };
    let subresources = parts(kind).into_iter().map(|part| Subresource {
        subresource: part.name,
        response_kind: match part.kind {
            Some(kind) => ResponseKind { group: part.group, version: part.version, kind },
            None => own(),
        },
        verbs: part.verbs,
    });
    Resource {
        resource: &kind.plural,
        response_kind: own(),
        scope: if kind.rules.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &kind.singular,
        verbs: verbs(kind),
        short_names: &kind.short_names,
        categories: &kind.categories,
        subresources: subresources.collect(),
    }
}

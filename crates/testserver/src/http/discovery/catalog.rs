//! All served resources, in the order in which clients see them.

use std::collections::BTreeMap;

use crate::http::discovery::order;
use crate::http::review;
use crate::schemas::kinds::kind::Kind;
use crate::state::Registry;

/// A group with its versions. The preferred version is the first. Each version contains its kinds by
/// plural name.
pub(crate) struct Group<'a> {
    pub name: &'a str,
    pub versions: Vec<(&'a str, Vec<&'a Kind>)>,
}

pub(crate) struct Part {
    pub name: &'static str,
    /// The group, version and kind of the subresource, if they differ from those of the object.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    pub verbs: &'static [&'static str],
}

/// Returns all groups, the core group (`""`) first.
pub(crate) fn catalog(registry: &Registry) -> Vec<Group<'_>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, &Kind>>> = BTreeMap::new();
    let reviews = review::all().map(|review| &review.kind);
    for kind in registry.kinds().chain(reviews) {
        let versions = found.entry(&kind.group).or_default();
        versions.entry(&kind.version).or_default().insert(&kind.plural, kind);
    }
    let mut groups: Vec<Group<'_>> =
        found.into_iter().map(|(name, versions)| group(name, versions)).collect();
    groups.sort_by_key(|group| order::group_rank(group.name));
    groups
}

fn group<'a>(name: &'a str, versions: BTreeMap<&'a str, BTreeMap<&'a str, &'a Kind>>) -> Group<'a> {
    let mut versions: Vec<_> =
        versions.into_iter().map(|(version, kinds)| (version, kinds.into_values().collect())).collect();
    versions.sort_by(|(a, _), (b, _)| order::compare_versions(a, b));
    Group { name, versions }
}

/// Returns whether the server stores objects of this kind. It does not store reviews.
pub(crate) fn is_stored(kind: &Kind) -> bool {
    !matches!(kind.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
}

pub(crate) fn verbs(kind: &Kind) -> &'static [&'static str] {
    if !is_stored(kind) {
        &["create"]
    } else if kind.is_namespace() {
        &["create", "delete", "get", "list", "patch", "update", "watch"]
    } else if kind.rules.custom {
        &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    } else {
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

/// Returns the subresources of this kind, ordered by name except for custom resources.
pub(crate) fn parts(kind: &Kind) -> Vec<Part> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    let part = |name, kind, verbs| Part { name, kind, verbs };
    let mut parts = Vec::new();
    if kind.is_pod() {
        parts.push(part("binding", Some(("", "v1", "Binding")), &["create"]));
        parts.push(part("eviction", Some(("policy", "v1", "Eviction")), &["create"]));
    }
    if kind.is_namespace() {
        parts.push(part("finalize", None, &["update"]));
    }
    if kind.scale.is_some() {
        parts.push(part("scale", Some(("autoscaling", "v1", "Scale")), CHANGE));
    }
    if kind.rules.status {
        parts.push(part("status", None, CHANGE));
    }
    if kind.rules.custom {
        parts.reverse();
    }
    parts
}

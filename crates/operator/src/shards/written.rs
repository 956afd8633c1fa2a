//! `Written`: which versions the next owner of a slot must have in its caches.

use std::collections::BTreeMap;

use kube_informer::ResourceVersion;
use serde::{Deserialize, Serialize};

/// The writes of the owners of a slot. It is a part of the table, so the next owner can read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// The highest resourceVersion of each resource that was written, for example of `deployments.apps`.
    /// `None` if a later version is possible.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    versions: BTreeMap<String, Option<String>>,
    /// Other resources may have been written.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    others: bool,
}

/// What a cache needs before the first reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Required {
    /// The resource was not written.
    Nothing,
    Version(ResourceVersion),
    /// Each write that the server has accepted before the claim.
    Latest,
}

impl Written {
    /// Nothing is known, for example after the owner has crashed.
    pub(crate) fn unknown() -> Self {
        Self { versions: BTreeMap::new(), others: true }
    }

    pub(crate) fn nothing() -> Self {
        Self { versions: BTreeMap::new(), others: false }
    }

    /// Returns what a cache of this resource needs.
    pub(crate) fn required(&self, resource: &str) -> Required {
        match self.versions.get(resource) {
            Some(Some(version)) => Required::Version(ResourceVersion::new(version)),
            None if !self.others => Required::Nothing,
            Some(None) | None => Required::Latest,
        }
    }

    /// Adds a write. `version` is `None` if the server may have applied the write, or may still apply it. In
    /// this case, later versions do not change the result. The resource is `None` if it is not known.
    pub(crate) fn add(&mut self, resource: Option<&str>, version: Option<ResourceVersion>) {
        let Some(resource) = resource else { return *self = Self::unknown() };
        // Versions that are not numbers have no order.
        let version = version.filter(|version| version.is_resumable() && !version.is_opaque());
        let highest = match (self.versions.get(resource), version) {
            (None, Some(new)) => Some(new),
            (Some(Some(old)), Some(new)) => Some(max(ResourceVersion::new(old), new)),
            (_, None) | (Some(None), _) => None,
        };
        self.versions.insert(resource.to_owned(), highest.map(|version| version.as_str().into_owned()));
    }

    /// Replaces the version of a resource by the version of a cache that contains all writes of earlier owners.
    fn set_reached(&mut self, resource: &str, version: &ResourceVersion) {
        self.versions.insert(resource.to_owned(), Some(version.as_str().into_owned()));
    }

    /// Returns the writes of earlier owners together with the writes of this owner.
    #[must_use]
    pub(crate) fn followed_by(&self, own: &Self) -> Self {
        let mut all = Self { versions: self.versions.clone(), others: self.others || own.others };
        for (resource, version) in &own.versions {
            all.add(Some(resource), version.as_deref().map(ResourceVersion::new));
        }
        all
    }
}

/// The writes for a slot in one term of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    own: Written,
    /// The versions of caches that contained all writes of earlier owners, by resource.
    reached: BTreeMap<String, ResourceVersion>,
}

impl Default for Term {
    fn default() -> Self {
        Self { own: Written::nothing(), reached: BTreeMap::new() }
    }
}

impl Term {
    /// See [`Written::add`].
    pub(crate) fn add(&mut self, resource: Option<&str>, version: Option<ResourceVersion>) {
        self.own.add(resource, version);
    }

    /// Records that a cache with this version contains all writes of earlier owners.
    pub(crate) fn reached(&mut self, resource: String, version: ResourceVersion) {
        self.reached.insert(resource, version);
    }

    /// Returns the writes of this owner and of earlier owners.
    pub(crate) fn after(&self, earlier: &Written) -> Written {
        let mut earlier = earlier.clone();
        self.reached.iter().for_each(|(resource, version)| earlier.set_reached(resource, version));
        earlier.followed_by(&self.own)
    }
}

fn max(one: ResourceVersion, other: ResourceVersion) -> ResourceVersion {
    if one.at_least(&other) { one } else { other }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

/// Returns the resource of the path of a request, for example `deployments.apps`.
pub(crate) fn resource_of(path: &str) -> Option<String> {
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next()? {
        "api" => None,
        "apis" => Some(parts.next()?),
        _ => return None,
    };
    let _version = parts.next()?;
    let rest: Vec<&str> = parts.collect();
    let resource = match rest[..] {
        // `status` and `finalize` are subresources of a Namespace.
        ["namespaces", _, resource, ..] if group.is_some() || !matches!(resource, "status" | "finalize") => {
            resource
        }
        [resource, ..] => resource,
        [] => return None,
    };
    Some(group.map_or_else(|| resource.to_owned(), |group| format!("{resource}.{group}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> ResourceVersion {
        number.into()
    }

    #[test]
    fn next_owner_needs_the_highest_version_of_each_resource() {
        let mut first = Written::nothing();
        assert_eq!(first.required("pods"), Required::Nothing);
        first.add(Some("pods"), Some(version(9)));
        first.add(Some("pods"), Some(version(7)));
        assert_eq!(first.required("pods"), Required::Version(version(9)));
        assert_eq!(first.required("jobs.batch"), Required::Nothing);
        let mut second = Written::nothing();
        second.add(Some("jobs.batch"), Some(version(12)));
        let both = first.followed_by(&second);
        assert_eq!(both.required("pods"), Required::Version(version(9)));
        assert_eq!(both.required("jobs.batch"), Required::Version(version(12)));
    }

    #[test]
    fn write_without_a_result_requires_the_latest_state() {
        let mut own = Written::nothing();
        own.add(Some("pods"), None);
        own.add(Some("pods"), Some(version(9)));
        assert_eq!(own.required("pods"), Required::Latest, "the first write may still be applied");
        assert_eq!(Written::nothing().followed_by(&own).required("pods"), Required::Latest);
        let mut own = Written::nothing();
        own.add(Some("pods"), Some(ResourceVersion::new("opaque")));
        assert_eq!(own.required("pods"), Required::Latest);
        own.add(None, None);
        assert_eq!(own.required("jobs.batch"), Required::Latest);
    }

    #[test]
    fn unknown_writes_are_replaced_by_the_version_of_a_cache() {
        let mut earlier = Written::unknown();
        earlier.add(Some("secrets"), None);
        let mut term = Term::default();
        term.reached("pods".to_owned(), version(20));
        term.reached("secrets".to_owned(), version(22));
        term.add(Some("secrets"), Some(version(24)));
        let written = term.after(&earlier);
        assert_eq!(written.required("pods"), Required::Version(version(20)));
        assert_eq!(written.required("secrets"), Required::Version(version(24)));
        assert_eq!(written.required("jobs.batch"), Required::Latest);
    }

    #[test]
    fn text_without_the_field_means_unknown() {
        let parsed: Written = serde_json::from_str("{}").unwrap();
        assert_eq!(parsed, Written::unknown());
        for written in [Written::nothing(), Written::nothing().followed_by(&Written::unknown())] {
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<Written>(&text).unwrap(), written, "{text}");
        }
    }

    #[test]
    fn resource_is_read_from_the_path() {
        for (path, resource) in [
            ("/api/v1/pods", "pods"),
            ("/api/v1/namespaces/shop/pods", "pods"),
            ("/api/v1/namespaces/shop/pods/web/status", "pods"),
            ("/apis/apps/v1/namespaces/shop/deployments/web", "deployments.apps"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/namespaces/shop", "namespaces"),
            ("/api/v1/namespaces/shop/status", "namespaces"),
            ("/api/v1/nodes/a/status", "nodes"),
        ] {
            assert_eq!(resource_of(path).as_deref(), Some(resource), "{path}");
        }
        for path in ["/healthz", "/apis", "/apis/apps", "/api/v1", ""] {
            assert_eq!(resource_of(path), None, "{path}");
        }
    }
}

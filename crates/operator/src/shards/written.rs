//! `Written`: which versions the next owner of a slot must have in its caches.

use std::collections::{BTreeMap, BTreeSet};

use kube_informer::ResourceVersion;
use serde::{Deserialize, Serialize};

/// The highest resourceVersion of each resource, for example of `deployments.apps`, that the owners of a slot
/// have written, or that was in their caches. It is a part of the table, so the next owner can read it.
///
/// A resource without a version may have been written. The version of such a write is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Written {
    versions: BTreeMap<String, String>,
}

impl Written {
    /// Returns the version that a cache of this resource needs before the first reconcile. If it returns
    /// `None`, the cache needs each write that the server has accepted before the claim.
    pub(crate) fn version(&self, resource: &str) -> Option<ResourceVersion> {
        self.versions.get(resource).map(|version| ResourceVersion::new(version))
    }

    /// Returns the number of bytes in the table, approximately.
    pub(crate) fn size(&self) -> usize {
        self.versions.iter().map(|(resource, version)| resource.len() + version.len() + 6).sum()
    }

    fn add(&mut self, resource: &str, version: &ResourceVersion) {
        let before = self.version(resource).filter(|before| before.at_least(version));
        let version = before.as_ref().unwrap_or(version);
        self.versions.insert(resource.to_owned(), version.as_str().into_owned());
    }
}

/// The writes for a slot in one term of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term {
    /// The versions of writes, and of caches that contained all writes of earlier owners.
    known: Written,
    /// The resources with a write whose version is not known. The server may still apply such a write, so
    /// later versions do not matter.
    uncertain: BTreeSet<String>,
    /// A write to any resource is possible.
    is_unknown: bool,
}

impl Term {
    /// Adds a write. `version` is `None` if the server may have applied the write, or may still apply it. The
    /// resource is `None` if it is not known.
    pub(crate) fn add(&mut self, resource: Option<&str>, version: Option<ResourceVersion>) {
        // Versions that are not numbers have no order.
        let version = version.filter(|version| version.is_resumable() && !version.is_opaque());
        match (resource, version) {
            (Some(resource), Some(version)) => self.known.add(resource, &version),
            (Some(resource), None) => _ = self.uncertain.insert(resource.to_owned()),
            (None, _) => self.is_unknown = true,
        }
    }

    /// Records that work was permitted whose writes are not recorded.
    pub(crate) fn add_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// Records that a cache contains all writes of earlier owners, and that the server had this version
    /// before.
    pub(crate) fn reached(&mut self, resource: &str, version: &ResourceVersion) {
        self.known.add(resource, version);
    }

    /// Returns the writes of this owner and of earlier owners.
    pub(crate) fn after(&self, earlier: &Written) -> Written {
        if self.is_unknown {
            return Written::default();
        }
        let mut all = earlier.clone();
        for resource in self.known.versions.keys() {
            self.known.version(resource).iter().for_each(|version| all.add(resource, version));
        }
        all.versions.retain(|resource, _| !self.uncertain.contains(resource));
        all
    }
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
        let mut first = Term::default();
        first.add(Some("pods"), Some(version(9)));
        first.add(Some("pods"), Some(version(7)));
        let written = first.after(&Written::default());
        assert_eq!(written.version("pods"), Some(version(9)));
        assert_eq!(written.version("jobs.batch"), None, "an earlier owner may have written it");
        let mut second = Term::default();
        second.add(Some("jobs.batch"), Some(version(12)));
        second.reached("pods", &version(8));
        let written = second.after(&written);
        assert_eq!(
            written.version("pods"),
            Some(version(9)),
            "a cache with a selector can have a lower version"
        );
        assert_eq!(written.version("jobs.batch"), Some(version(12)));
    }

    #[test]
    fn write_without_a_result_requires_the_latest_state() {
        let earlier = Written { versions: BTreeMap::from([("pods".to_owned(), "4".to_owned())]) };
        let mut term = Term::default();
        term.add(Some("pods"), None);
        term.add(Some("pods"), Some(version(9)));
        assert_eq!(term.after(&earlier).version("pods"), None, "the first write may still be applied");
        let mut term = Term::default();
        term.add(Some("pods"), Some(ResourceVersion::new("opaque")));
        assert_eq!(term.after(&earlier).version("pods"), None);
        let mut term = Term::default();
        term.reached("jobs.batch", &version(8));
        assert_eq!(term.after(&earlier).version("pods"), Some(version(4)));
        term.add(None, None);
        assert_eq!(term.after(&earlier), Written::default());
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

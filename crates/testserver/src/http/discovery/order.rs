//! The order of groups and versions by which clients choose the preferred one, as on the real server.

use std::cmp::{Ordering, Reverse};

use crate::schemas::kinds::kind::Kind;

/// The groups of the real server by priority. The first is the core group, which has no name. All other
/// groups belong to CRDs and follow, ordered by name.
const RANKED: &str = " apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io \
                      autoscaling batch certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io \
                      storage.k8s.io admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io \
                      coordination.k8s.io node.k8s.io discovery.k8s.io resource.k8s.io \
                      flowcontrol.apiserver.k8s.io";

/// Returns whether the real server has this group without any CRD.
pub(crate) fn is_builtin(group: &str) -> bool {
    RANKED.split(' ').any(|ranked| ranked == group)
}

/// Returns the rank of a group. Groups of equal rank are ordered by name.
pub(crate) fn group_rank(name: &str) -> usize {
    RANKED.split(' ').position(|ranked| ranked == name).unwrap_or(usize::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

/// Orders `v2` before `v1` before `v2beta1` before `v1beta2` before `v1alpha1`. Other versions follow,
/// ordered by name.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    let key = |version: &str| Reverse(parse(version));
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

/// Returns the maturity and the numbers of a version. Returns `None` for a version of another form.
/// `None` is less than all other values.
fn parse(version: &str) -> Option<(Stage, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let stages = [("alpha", Stage::Alpha), ("beta", Stage::Beta)];
    let staged = stages.into_iter().find_map(|(name, stage)| Some((stage, rest.split_once(name)?)));
    match staged {
        Some((stage, (major, minor))) => Some((stage, number(major)?, number(minor)?)),
        None => Some((Stage::Stable, number(rest)?, 0)),
    }
}

fn number(text: &str) -> Option<u64> {
    let positive = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| positive)
}

/// Returns a hash that changes when objects are stored in another version.
pub(crate) fn storage_version_hash(kind: &Kind) -> String {
    // Events of both groups are stored as events of the core group.
    let group = if kind.kind == "Event" { "" } else { kind.group.as_str() };
    let stored = format!("{group}/{}/{}", kind.storage_version, kind.kind);
    let hash = hmac_sha256::Hash::hash(stored.as_bytes());
    base64::Engine::encode(&base64::prelude::BASE64_STANDARD, hash.get(..8).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_in_kubernetes() {
        let mut versions = [
            "v1beta1",
            "foo1",
            "v10",
            "v2alpha1",
            "v1",
            "v11beta2",
            "v2",
            "foo10",
            "v3beta1",
            "v01",
            "v12alpha1",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        let ranked = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v1beta1",
            "v12alpha1",
            "v2alpha1",
            "foo1",
            "foo10",
            "v01",
        ];
        assert_eq!(versions, ranked);
    }

    #[test]
    fn crd_groups_follow_all_other_groups() {
        assert!(group_rank("") < group_rank("apps") && group_rank("apps") < group_rank("batch"));
        assert_eq!(group_rank("example.com"), group_rank("other.dev"));
        assert!(group_rank("flowcontrol.apiserver.k8s.io") < group_rank("a.io"));
    }
}

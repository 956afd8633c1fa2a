//! Checks RBAC permissions: sends a SelfSubjectAccessReview for each verb that caches, the election and
//! the program need.

pub(crate) mod diff;
pub(crate) mod roles;
mod yaml;

use std::{collections::BTreeSet, fmt};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube_client::{Api, Client, api::PostParams};
use kube_informer::{Escaped, InformerStatus};

use crate::redact::redact;

/// Limit for concurrent reviews.
const MAX_CONCURRENT_REVIEWS: usize = 8;

/// Represents an RBAC permission: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct RbacPermission {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in the plural, or a subresource such as `pods/status`.
    pub resource: String,
    /// The verb, for example `list`.
    pub verb: String,
    /// The namespace of the rule; `None` for the entire cluster.
    pub namespace: Option<String>,
    /// The name of the only object that the rule covers; `None` for all objects.
    pub name: Option<String>,
}

impl RbacPermission {
    /// Returns the permission as text, for example `list pods of API group "" in namespace shop`.
    fn permission(&self) -> String {
        let Self { group, resource, verb, namespace, name } = self;
        let name = name.as_ref().map_or(String::new(), |name| format!("named {} ", Escaped(name)));
        let place = match namespace {
            Some(namespace) => format!("in namespace {}", Escaped(namespace)),
            None => "in all namespaces".to_owned(),
        };
        format!("{} {} of API group {group:?} {name}{place}", Escaped(verb), Escaped(resource))
    }
}

impl fmt::Display for RbacPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.namespace.is_some() { "Role" } else { "ClusterRole" };
        write!(f, "is not allowed to {}; add this rule to a {role}", self.permission())
    }
}

/// Returns the rules that these informers need, without adopted informers, which can belong to another
/// cluster.
pub(crate) fn rules_of_informers<'a>(
    informers: impl IntoIterator<Item = &'a InformerStatus>,
) -> BTreeSet<RbacPermission> {
    let own = informers.into_iter().filter(|informer| !informer.adopted);
    own.flat_map(|informer| rules_of_path(&informer.path, selected_name(&informer.name), &["list", "watch"]))
        .collect()
}

/// Returns one rule per verb for the objects of a path, or for one of them.
pub(crate) fn rules_of_path(
    path: &str,
    name: Option<&str>,
    verbs: &'static [&'static str],
) -> impl Iterator<Item = RbacPermission> {
    let rule = parse_path(path).map(|rule| RbacPermission { name: name.map(str::to_owned), ..rule });
    rule.into_iter().flat_map(|rule| {
        verbs.iter().map(move |verb| RbacPermission { verb: (*verb).to_owned(), ..rule.clone() })
    })
}

/// Returns the name that an informer selects with a field selector. The name of the informer contains the
/// selector.
fn selected_name(informer: &str) -> Option<&str> {
    let (_, selector) = informer.rsplit_once(" fields ")?;
    let selector = selector.split_once(" of some slots").map_or(selector, |(selector, _)| selector);
    selector.split(',').find_map(|part| Some(part.strip_prefix("metadata.name=")?.trim_start_matches('=')))
}

/// Returns a rule for each namespace in which informers have the resource of `rule`. Without such informers,
/// uses all informers.
pub(crate) fn in_namespaces_of(
    informers: &BTreeSet<RbacPermission>,
    rule: &RbacPermission,
) -> BTreeSet<RbacPermission> {
    let parent = rule.resource.split('/').next();
    let is_same = |other: &&RbacPermission| other.group == rule.group && Some(&*other.resource) == parent;
    let mut informers: Vec<_> = informers.iter().collect();
    if informers.iter().any(is_same) {
        informers.retain(is_same);
    }
    let everywhere = informers.is_empty().then_some(&None);
    let namespaces = informers.iter().map(|informer| &informer.namespace).chain(everywhere);
    namespaces.map(|namespace| RbacPermission { namespace: namespace.clone(), ..rule.clone() }).collect()
}

/// Returns the rules that an election needs. The rule for `create` has no name, because RBAC does not
/// know the name of a new object.
pub(crate) fn rules_of_election(namespace: &str, name: &str) -> BTreeSet<RbacPermission> {
    let rule = |(verb, name): (&str, Option<&str>)| RbacPermission {
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        verb: verb.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
    };
    [("get", Some(name)), ("create", None), ("update", Some(name))].map(rule).into()
}

/// Returns the rules with which an election watches the Lease. Without them, it reads the Lease.
pub(crate) fn rules_of_lease_watch(namespace: &str, name: &str) -> impl Iterator<Item = RbacPermission> {
    let name = Some(name.to_owned());
    rules_of_verbs(&["list", "watch"], "coordination.k8s.io", "leases", Some(namespace))
        .map(move |rule| RbacPermission { name: name.clone(), ..rule })
}

/// Returns the rules that a shard group needs. The names of the Leases are random.
pub(crate) fn rules_of_shards(namespace: &str) -> impl Iterator<Item = RbacPermission> {
    let verbs = &["get", "list", "watch", "create", "patch", "delete"];
    rules_of_verbs(verbs, "coordination.k8s.io", "leases", Some(namespace))
}

/// Returns the rules that the authorization of requests for the pages needs.
#[cfg(feature = "tls")]
pub(crate) fn rules_of_authorization() -> impl Iterator<Item = RbacPermission> {
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")]
        .into_iter()
        .flat_map(|(group, resource)| rules_of_verbs(&["create"], group, resource, None))
}

/// Returns one rule per verb.
pub(crate) fn rules_of_verbs<'a>(
    verbs: &'a [&'a str],
    group: &'a str,
    resource: &'a str,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = RbacPermission> + 'a {
    verbs.iter().map(move |verb| RbacPermission {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: (*verb).to_owned(),
        namespace: namespace.map(str::to_owned),
        name: None,
    })
}

/// Parses a path such as `/apis/apps/v1/namespaces/shop/deployments`. Returns a rule without a verb, or
/// `None` for a path that is not of the Kubernetes API.
fn parse_path(path: &str) -> Option<RbacPermission> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, resource) = match rest {
        ["namespaces", namespace, resource] => (Some((*namespace).to_owned()), resource),
        [resource] => (None, resource),
        _ => return None,
    };
    Some(RbacPermission {
        group: group.to_owned(),
        resource: (*resource).to_owned(),
        verb: String::new(),
        namespace,
        name: None,
    })
}

/// Returns the rules that the server denies. If a review fails, the rule counts as allowed. A missing
/// rule then causes an error of the actual request.
pub(crate) async fn missing_rules(
    client: &Client,
    required: BTreeSet<RbacPermission>,
) -> Vec<RbacPermission> {
    let reviews = stream::iter(required).map(|rule| async {
        let is_missing = is_missing(client, &rule).await.unwrap_or_else(|error| {
            let error = redact(&error);
            tracing::debug!(%rule, error, "cannot check a permission; assuming that the permission exists");
            false
        });
        is_missing.then_some(rule)
    });
    let mut missing: Vec<RbacPermission> =
        reviews.buffer_unordered(MAX_CONCURRENT_REVIEWS).filter_map(|rule| async { rule }).collect().await;
    missing.sort_unstable();
    missing
}

fn attributes(rule: &RbacPermission) -> ResourceAttributes {
    let (resource, subresource) = match rule.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (rule.resource.as_str(), None),
    };
    ResourceAttributes {
        group: Some(rule.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        verb: Some(rule.verb.clone()),
        namespace: rule.namespace.clone(),
        name: rule.name.clone(),
        ..ResourceAttributes::default()
    }
}

async fn is_missing(client: &Client, rule: &RbacPermission) -> kube_client::Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes(rule)),
            ..Default::default()
        },
        ..Default::default()
    };
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| !status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str) -> Vec<String> {
        rules_of_path(path, None, &["list", "watch"]).map(|rule| rule.to_string()).collect()
    }

    #[test]
    fn informer_path_requires_list_and_watch() {
        let all = "of API group \"apps\" in all namespaces; add this rule to a ClusterRole";
        let verbs = ["list", "watch"].map(|verb| format!("is not allowed to {verb} deployments {all}"));
        assert_eq!(rules("/apis/apps/v1/deployments"), verbs);
        let some = "of API group \"\" in namespace shop; add this rule to a Role";
        let verbs = ["list", "watch"].map(|verb| format!("is not allowed to {verb} pods {some}"));
        assert_eq!(rules("/api/v1/namespaces/shop/pods"), verbs);
        assert_eq!(rules("/api/v1/namespaces").len(), 2, "the resource namespaces");
    }

    #[test]
    fn subresource_is_split_from_its_resource() {
        let parts = ["pods", "pods/status"].map(|resource| {
            let rule = rules_of_verbs(&["patch"], "", resource, None).next().unwrap();
            let ResourceAttributes { resource, subresource, .. } = attributes(&rule);
            (resource.unwrap(), subresource)
        });
        assert_eq!(parts, [("pods".to_owned(), None), ("pods".to_owned(), Some("status".to_owned()))]);
    }

    #[test]
    fn other_paths_require_no_rule() {
        for path in ["", "/", "my_program::Source", "/apis/apps", "/api/v1/a/b/c/d", "/healthz"] {
            assert!(rules(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn informer_of_one_object_selects_its_name() {
        for (informer, name) in [
            ("ConfigMap /api/v1/configmaps fields metadata.name=a", Some("a")),
            (
                "ConfigMap /api/v1/configmaps labels x=y fields spec.b=c,metadata.name==a of some slots",
                Some("a"),
            ),
            ("ConfigMap /api/v1/configmaps fields metadata.name!=a", None),
            ("ConfigMap /api/v1/configmaps labels metadata.name=a", None),
        ] {
            assert_eq!(selected_name(informer), name, "{informer}");
        }
    }

    #[test]
    fn writes_have_the_namespaces_of_the_informers() {
        let informers = |paths: &[&str]| -> BTreeSet<_> {
            paths.iter().flat_map(|path| rules_of_path(path, None, &["list", "watch"])).collect()
        };
        let namespaces = |informers: &BTreeSet<RbacPermission>, resource| {
            let rule = rules_of_verbs(&["patch"], "", resource, None).next().unwrap();
            let rules = in_namespaces_of(informers, &rule).into_iter();
            rules.map(|rule| rule.namespace.unwrap_or_default()).collect::<Vec<_>>()
        };
        let two = informers(&["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", "/api/v1/nodes"]);
        assert_eq!(namespaces(&two, "pods/status"), ["a", "b"]);
        assert_eq!(namespaces(&two, "nodes"), [""]);
        assert_eq!(namespaces(&two, "events"), ["", "a", "b"], "Events of Nodes are in another namespace");
        assert_eq!(namespaces(&BTreeSet::new(), "pods"), [""]);
    }
}

//! Which rules of RBAC are missing, asked of the server before a program has to find out: a SelfSubjectAccessReview for each
//! verb on each resource that its caches list and watch, on the Lease, and whatever else it says that it needs.

use std::{collections::BTreeSet, fmt};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube_client::{Api, Client, api::PostParams};

use crate::redact::redact;

/// So many reviews are under way at once.
const AT_ONCE: usize = 8;

/// What a program's account may not do, and has to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MissingRule {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, in the plural; a part of it as `pods/status`.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The namespace in which it is needed; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// The one object for which it is needed; `None` for all.
    pub name: Option<String>,
}

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb, namespace, name } = self;
        write!(f, "may not {verb} {resource} of API group {group:?} ")?;
        if let Some(name) = name {
            write!(f, "named {name} ")?;
        }
        match namespace {
            Some(namespace) => write!(f, "in namespace {namespace} (a Role needs this rule)"),
            None => f.write_str("in the whole cluster (a ClusterRole needs this rule)"),
        }
    }
}

/// What informers of these paths need.
pub(crate) fn needed<'a>(paths: impl IntoIterator<Item = &'a str>) -> BTreeSet<MissingRule> {
    let resources = paths.into_iter().filter_map(resource);
    resources
        .flat_map(|rule| ["list", "watch"].map(|verb| MissingRule { verb: verb.to_owned(), ..rule.clone() }))
        .collect()
}

/// What an election by this Lease needs. What is created has no name yet, as far as rules are concerned.
pub(crate) fn needed_for_leases(namespace: &str, name: &str) -> BTreeSet<MissingRule> {
    let rule = |(verb, name): (&str, Option<&str>)| MissingRule {
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        verb: verb.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
    };
    [("get", Some(name)), ("create", None), ("update", Some(name))].map(rule).into()
}

/// What a program says that it needs.
pub(crate) fn needed_for<'a>(
    verbs: &'a [&'a str],
    group: &'a str,
    resource: &'a str,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = MissingRule> + 'a {
    verbs.iter().map(move |verb| MissingRule {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: (*verb).to_owned(),
        namespace: namespace.map(str::to_owned),
        name: None,
    })
}

/// The resource of a path such as `/apis/apps/v1/namespaces/shop/deployments`; nothing where a path is none of the API's.
fn resource(path: &str) -> Option<MissingRule> {
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
    Some(MissingRule {
        group: group.to_owned(),
        resource: (*resource).to_owned(),
        verb: String::new(),
        namespace,
        name: None,
    })
}

/// Those of the needed rules that the server says are missing. What it can't say is taken for allowed: a request will tell.
pub(crate) async fn missing(client: &Client, needed: BTreeSet<MissingRule>) -> Vec<MissingRule> {
    let reviews = stream::iter(needed).map(|rule| async { is_missing(client, &rule).await.then_some(rule) });
    let mut missing: Vec<MissingRule> =
        reviews.buffer_unordered(AT_ONCE).filter_map(|rule| async { rule }).collect().await;
    missing.sort_unstable();
    missing
}

fn attributes(rule: &MissingRule) -> ResourceAttributes {
    let (resource, part) = match rule.resource.split_once('/') {
        Some((resource, part)) => (resource, Some(part)),
        None => (rule.resource.as_str(), None),
    };
    ResourceAttributes {
        group: Some(rule.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: part.map(str::to_owned),
        verb: Some(rule.verb.clone()),
        namespace: rule.namespace.clone(),
        name: rule.name.clone(),
        ..ResourceAttributes::default()
    }
}

async fn is_missing(client: &Client, rule: &MissingRule) -> bool {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes(rule)),
            ..Default::default()
        },
        ..Default::default()
    };
    match Api::all(client.clone()).create(&PostParams::default(), &review).await {
        Ok(review) => review.status.is_some_and(|status| !status.allowed),
        Err(error) => {
            tracing::debug!(%rule, error = redact(&error), "can't ask whether this is allowed");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Vec<String> {
        needed([path]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_informer_lists_and_watches_the_resource_of_its_path() {
        let all = "of API group \"apps\" in the whole cluster (a ClusterRole needs this rule)";
        let verbs = ["list", "watch"].map(|verb| format!("may not {verb} deployments {all}"));
        assert_eq!(of("/apis/apps/v1/deployments"), verbs);
        let some = "of API group \"\" in namespace shop (a Role needs this rule)";
        let verbs = ["list", "watch"].map(|verb| format!("may not {verb} pods {some}"));
        assert_eq!(of("/api/v1/namespaces/shop/pods"), verbs);
        assert_eq!(of("/api/v1/namespaces").len(), 2, "the namespaces themselves");
    }

    #[test]
    fn a_part_of_a_resource_is_asked_for_as_one() {
        let parts = ["pods", "pods/status"].map(|resource| {
            let rule = needed_for(&["patch"], "", resource, None).next().unwrap();
            let ResourceAttributes { resource, subresource, .. } = attributes(&rule);
            (resource.unwrap(), subresource)
        });
        assert_eq!(parts, [("pods".to_owned(), None), ("pods".to_owned(), Some("status".to_owned()))]);
    }

    #[test]
    fn what_is_no_path_of_the_api_needs_no_rule() {
        for path in ["", "/", "my_program::Source", "/apis/apps", "/api/v1/a/b/c/d", "/healthz"] {
            assert!(of(path).is_empty(), "{path}");
        }
    }
}

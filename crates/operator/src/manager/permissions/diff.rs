//! `PermissionDiff`: compares the permissions that a program needs with the permissions of its account.

use std::{collections::BTreeSet, fmt};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use kube_client::{Api, Client, api::PostParams};

use super::{MAX_CONCURRENT_REVIEWS, RbacPermission, is_missing};
use crate::redact::redact;

/// Contains the differences between the permissions that a program needs and the permissions of its account.
/// The text contains one line for each difference.
/// [`Manager::check_permissions`](crate::Manager::check_permissions) returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionDiff {
    /// The permissions that the program needs and the account lacks.
    pub missing: Vec<RbacPermission>,
    /// The permissions of the account that the program does not need, by namespace. A verb, group or resource
    /// can be `*`.
    pub superfluous: Vec<RbacPermission>,
    /// Whether the server cannot list all permissions of the account, so `superfluous` may be incomplete. The
    /// reason is often another authorizer than RBAC.
    pub incomplete: bool,
}

impl PermissionDiff {
    /// Returns true if no difference is known.
    pub fn is_exact(&self) -> bool {
        self.missing.is_empty() && self.superfluous.is_empty()
    }
}

impl fmt::Display for PermissionDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.missing {
            writeln!(f, "missing: {}", rule.permission())?;
        }
        for rule in &self.superfluous {
            writeln!(f, "superfluous: {}", rule.permission())?;
        }
        if self.is_exact() {
            writeln!(f, "the account has exactly the permissions that the program needs")?;
        }
        if self.incomplete {
            writeln!(f, "the server did not list all permissions of the account; more can be superfluous")?;
        }
        Ok(())
    }
}

/// Reports why permissions could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PermissionCheckError {
    /// The server did not review a permission.
    #[error("failed to check whether the account may {permission}: {}", redact(source))]
    Access {
        /// The permission.
        permission: String,
        /// The error of the request.
        source: kube_client::Error,
    },
    /// The server did not list the permissions.
    #[error("failed to list the permissions of the account in namespace {namespace}: {}", redact(source))]
    Rules {
        /// The namespace.
        namespace: String,
        /// The error of the request.
        source: kube_client::Error,
    },
}

/// Compares these rules with the rules of the client's account.
pub(crate) async fn compare(
    client: &Client,
    required: &BTreeSet<RbacPermission>,
) -> Result<PermissionDiff, PermissionCheckError> {
    let reviews = stream::iter(required).map(|rule| async move {
        let missing = is_missing(client, rule).await.map_err(|source| PermissionCheckError::Access {
            permission: rule.permission().to_string(),
            source,
        })?;
        Ok(missing.then(|| rule.clone()))
    });
    let missing: Vec<_> = reviews.buffered(MAX_CONCURRENT_REVIEWS).try_collect().await?;
    let mut namespaces: BTreeSet<&str> =
        required.iter().filter_map(|rule| rule.namespace.as_deref()).collect();
    if namespaces.is_empty() {
        namespaces.insert(client.default_namespace());
    }
    let mut diff = PermissionDiff { missing: missing.into_iter().flatten().collect(), ..Default::default() };
    let mut superfluous = BTreeSet::new();
    for namespace in namespaces {
        let SubjectRulesReviewStatus { incomplete, resource_rules, .. } = granted(client, namespace).await?;
        diff.incomplete |= incomplete;
        let granted = resource_rules.iter().flat_map(|rule| single_rules(rule, namespace));
        superfluous.extend(granted.filter(|granted| !is_needed(granted, required)));
    }
    diff.superfluous = superfluous.into_iter().collect();
    Ok(diff)
}

/// Returns the permissions of the account in a namespace, with the cluster-wide ones.
async fn granted(client: &Client, namespace: &str) -> Result<SubjectRulesReviewStatus, PermissionCheckError> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let created = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    let created =
        created.map_err(|source| PermissionCheckError::Rules { namespace: namespace.to_owned(), source })?;
    Ok(created.status.unwrap_or_default())
}

/// Splits a rule into rules with one verb, group, resource and name.
fn single_rules(rule: &ResourceRule, namespace: &str) -> Vec<RbacPermission> {
    let names: Vec<Option<&String>> = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().map(Some).collect(),
    };
    let mut rules = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rules.extend(names.iter().map(|name| RbacPermission {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    namespace: Some(namespace.to_owned()),
                    name: name.cloned(),
                }));
            }
        }
    }
    rules
}

/// Returns whether a program needs a granted permission. Each account may review its own permissions.
fn is_needed(granted: &RbacPermission, required: &BTreeSet<RbacPermission>) -> bool {
    if granted.verb == "create" && granted.resource.starts_with("selfsubject") {
        return true;
    }
    let namespaces = [None, granted.namespace.clone()];
    let names = [None, granted.name.clone()];
    namespaces.iter().any(|namespace| {
        names.iter().any(|name| {
            let (namespace, name) = (namespace.clone(), name.clone());
            required.contains(&RbacPermission { namespace, name, ..granted.clone() })
        })
    })
}

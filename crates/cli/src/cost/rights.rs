//! Reads from RBAC which resources the service account of a workload may list and watch.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::LabelSelector as Selector,
};
use kube_client::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use kube_informer::LabelSelector;
use serde::de::DeserializeOwned;

use crate::{error::CliError, resources::ServerResource};

/// A workload in the command line: `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    kind: WorkloadKind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl std::str::FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let kind = match kind.to_ascii_lowercase().as_str() {
            "deploy" | "deployment" | "deployments" | "deployment.apps" | "deployments.apps" => {
                WorkloadKind::Deployment
            }
            "sts" | "statefulset" | "statefulsets" | "statefulset.apps" | "statefulsets.apps" => {
                WorkloadKind::StatefulSet
            }
            "ds" | "daemonset" | "daemonsets" | "daemonset.apps" | "daemonsets.apps" => {
                WorkloadKind::DaemonSet
            }
            _ => return Err("use deploy/NAME, statefulset/NAME or daemonset/NAME".to_owned()),
        };
        if name.is_empty() {
            return Err("the name of the workload is missing, for example deploy/operator".to_owned());
        }
        // A second slash would select a subresource, which has no service account.
        if name.contains('/') {
            return Err(
                "the name of the workload contains a slash; use for example deploy/operator".to_owned()
            );
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// A service account and its rights.
#[derive(Debug)]
pub(super) struct Rights {
    /// The service account, for messages.
    pub(super) account: String,
    /// The number of Pods of the workload.
    pub(super) replicas: Option<u64>,
    /// The rules for all namespaces.
    everywhere: Vec<PolicyRule>,
    /// The rules for single namespaces.
    namespaces: BTreeMap<String, Vec<PolicyRule>>,
}

/// The namespaces in which a service account may list and watch a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The account may watch all namespaces.
    Everywhere,
    /// The account may watch these namespaces. Empty if the account may not watch the resource.
    Namespaces(BTreeSet<String>),
}

impl Rights {
    /// Reads the rights of the service account of a workload.
    ///
    /// # Errors
    ///
    /// Fails if the workload does not exist, or if its bindings or roles cannot be read.
    pub(super) async fn read(
        client: &Client,
        workload: &Workload,
        namespace: &str,
    ) -> Result<Self, CliError> {
        let (account, replicas) = account(client, workload, namespace).await?;
        let cluster_roles = list::<ClusterRole>(client, "ClusterRoles").await?;
        let roles = list::<Role>(client, "Roles").await?;
        let cluster_bindings = list::<ClusterRoleBinding>(client, "ClusterRoleBindings").await?;
        let bindings = list::<RoleBinding>(client, "RoleBindings").await?;
        let subject = Account { namespace, name: &account };
        let mut rights = Self {
            account: format!("{namespace}/{account}"),
            replicas,
            everywhere: Vec::new(),
            namespaces: BTreeMap::new(),
        };
        for binding in &cluster_bindings {
            if subject.is_in(binding.subjects.as_deref(), None) {
                rights.everywhere.extend(cluster_rules(&cluster_roles, &binding.role_ref.name));
            }
        }
        for binding in &bindings {
            let namespace = binding.metadata.namespace.as_deref().unwrap_or_default();
            if !subject.is_in(binding.subjects.as_deref(), Some(namespace)) {
                continue;
            }
            let rules = rules_of(&binding.role_ref, namespace, &cluster_roles, &roles);
            rights.namespaces.entry(namespace.to_owned()).or_default().extend(rules);
        }
        Ok(rights)
    }

    /// Returns where the service account may list and watch a resource.
    pub(super) fn reach(&self, resource: &ServerResource) -> Reach {
        let is_allowed = |rules: &[PolicyRule]| {
            ["list", "watch"]
                .iter()
                .all(|verb| rules.iter().any(|rule| allows(rule, verb, &resource.resource)))
        };
        if is_allowed(&self.everywhere) {
            return Reach::Everywhere;
        }
        let is_namespaced = resource.scope == kube_informer::Scope::Namespaced;
        let namespaces = self.namespaces.iter().filter(|_| is_namespaced);
        let allowed = namespaces.filter(|(_, rules)| {
            // A rule of a cluster role binding and a rule of a role binding can complement each other.
            is_allowed(&[&self.everywhere[..], rules].concat())
        });
        Reach::Namespaces(allowed.map(|(namespace, _)| namespace.clone()).collect())
    }
}

/// Reads the name of the service account and the number of Pods of a workload.
async fn account(
    client: &Client,
    workload: &Workload,
    namespace: &str,
) -> Result<(String, Option<u64>), CliError> {
    let (kind, plural) = match workload.kind {
        WorkloadKind::Deployment => ("Deployment", "deployments"),
        WorkloadKind::StatefulSet => ("StatefulSet", "statefulsets"),
        WorkloadKind::DaemonSet => ("DaemonSet", "daemonsets"),
    };
    let resource = ApiResource {
        group: "apps".into(),
        version: "v1".into(),
        api_version: "apps/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let object = api.get(&workload.name).await.map_err(|error| {
        CliError::request(format!("read the {kind} {} in the namespace {namespace}", workload.name), error)
    })?;
    let text = |pointer| object.data.pointer(pointer).and_then(|value| value.as_str());
    let account = text("/spec/template/spec/serviceAccountName").filter(|name| !name.is_empty());
    let replicas = ["/spec/replicas", "/status/desiredNumberScheduled"]
        .iter()
        .find_map(|pointer| object.data.pointer(pointer)?.as_u64());
    Ok((account.unwrap_or("default").to_owned(), replicas))
}

async fn list<K>(client: &Client, what: &str) -> Result<Vec<K>, CliError>
where
    K: kube_client::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    list.map(|list| list.items).map_err(|error| CliError::request(format!("list {what}"), error))
}

/// A service account as a subject of bindings.
struct Account<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Account<'_> {
    /// Returns whether the account is one of the subjects. `namespace` is the namespace of a role binding.
    /// It is the default namespace of the subjects.
    fn is_in(&self, subjects: Option<&[Subject]>, namespace: Option<&str>) -> bool {
        let user = format!("system:serviceaccount:{}:{}", self.namespace, self.name);
        let group = format!("system:serviceaccounts:{}", self.namespace);
        subjects.into_iter().flatten().any(|subject| match subject.kind.as_str() {
            "ServiceAccount" => {
                let own = subject.namespace.as_deref().filter(|own| !own.is_empty());
                subject.name == self.name && own.or(namespace) == Some(self.namespace)
            }
            "User" => subject.name == user,
            "Group" => [group.as_str(), "system:serviceaccounts", "system:authenticated"]
                .contains(&subject.name.as_str()),
            _ => false,
        })
    }
}

fn rules_of(
    role: &RoleRef,
    namespace: &str,
    cluster_roles: &[ClusterRole],
    roles: &[Role],
) -> Vec<PolicyRule> {
    if role.kind == "ClusterRole" {
        return cluster_rules(cluster_roles, &role.name);
    }
    let is_role = |candidate: &&Role| {
        candidate.metadata.name.as_deref() == Some(&role.name)
            && candidate.metadata.namespace.as_deref() == Some(namespace)
    };
    roles.iter().find(is_role).and_then(|role| role.rules.clone()).unwrap_or_default()
}

/// Returns the rules of a cluster role, with the rules of its aggregated cluster roles. A controller copies
/// the aggregated rules, but possibly later.
fn cluster_rules(roles: &[ClusterRole], name: &str) -> Vec<PolicyRule> {
    let Some(role) = roles.iter().find(|role| role.metadata.name.as_deref() == Some(name)) else {
        return Vec::new();
    };
    let mut rules = role.rules.clone().unwrap_or_default();
    let selectors = role.aggregation_rule.as_ref().and_then(|rule| rule.cluster_role_selectors.as_deref());
    for selector in selectors.into_iter().flatten() {
        let aggregated = roles.iter().filter(|other| !std::ptr::eq(*other, role) && selects(selector, other));
        rules.extend(aggregated.filter_map(|other| other.rules.clone()).flatten());
    }
    rules
}

fn selects(selector: &Selector, role: &ClusterRole) -> bool {
    LabelSelector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(role))
}

/// Returns whether a rule allows a verb for all objects of a resource.
fn allows(rule: &PolicyRule, verb: &str, resource: &ApiResource) -> bool {
    let contains = |values: Option<&[String]>, wanted: &str| {
        values.into_iter().flatten().any(|value| value == "*" || value == wanted)
    };
    contains(Some(&rule.verbs), verb)
        && contains(rule.api_groups.as_deref(), &resource.group)
        && contains(rule.resources.as_deref(), &resource.plural)
        && rule.resource_names.as_deref().unwrap_or_default().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(texts(groups)),
            resources: Some(texts(resources)),
            verbs: texts(verbs),
            resource_names: Some(texts(names)),
            ..PolicyRule::default()
        }
    }

    fn deployments() -> ApiResource {
        ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            plural: "deployments".into(),
        }
    }

    #[test]
    fn rule_needs_group_resource_and_verb() {
        for (rule, is_allowed) in [
            (rule(&["apps"], &["deployments"], &["list"], &[]), true),
            (rule(&["*"], &["*"], &["*"], &[]), true),
            (rule(&[""], &["deployments"], &["list"], &[]), false),
            (rule(&["apps"], &["deployments/status"], &["list"], &[]), false),
            (rule(&["apps"], &["deployments"], &["get", "watch"], &[]), false),
            // An informer of all objects needs a rule for all objects.
            (rule(&["apps"], &["deployments"], &["list"], &["web"]), false),
        ] {
            assert_eq!(allows(&rule, "list", &deployments()), is_allowed, "{rule:?}");
        }
    }

    #[test]
    fn workload_has_kind_and_name() {
        for text in ["deploy/a", "Deployment/a", "deployment.apps/a", "sts/a", "daemonset/a"] {
            assert_eq!(text.parse::<Workload>().map(|workload| workload.name), Ok("a".to_owned()), "{text}");
        }
        for text in ["a", "deploy", "deploy/", "deploy/a/scale", "job/a", ""] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }

    #[test]
    fn subjects_are_accounts_users_and_groups() {
        let account = Account { namespace: "ops", name: "runner" };
        let subject = |kind: &str, name: &str, namespace: Option<&str>| Subject {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(str::to_owned),
            ..Subject::default()
        };
        for (subject, is_subject) in [
            (subject("ServiceAccount", "runner", Some("ops")), true),
            (subject("ServiceAccount", "runner", Some("other")), false),
            (subject("ServiceAccount", "runner", None), false),
            (subject("User", "system:serviceaccount:ops:runner", None), true),
            (subject("Group", "system:serviceaccounts:other", None), false),
            (subject("Group", "system:authenticated", None), true),
        ] {
            assert_eq!(account.is_in(Some(std::slice::from_ref(&subject)), None), is_subject, "{subject:?}");
        }
        assert!(!account.is_in(None, None));
    }

    #[test]
    fn account_without_namespace_is_in_namespace_of_role_binding() {
        let account = Account { namespace: "ops", name: "runner" };
        let subjects = |namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            [Subject {
                kind: "ServiceAccount".into(),
                name: "runner".into(),
                namespace,
                ..Subject::default()
            }]
        };
        for own in [None, Some("")] {
            assert!(account.is_in(Some(&subjects(own)), Some("ops")));
            assert!(!account.is_in(Some(&subjects(own)), Some("other")));
        }
        assert!(account.is_in(Some(&subjects(Some("ops"))), Some("other")));
        assert!(!account.is_in(Some(&subjects(Some("other"))), Some("ops")));
    }
}

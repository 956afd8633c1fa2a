//! `RbacRoles`: the objects that grant the permissions of a program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use serde_json::Value;

use super::{RbacPermission, rules_of_verbs, yaml::write_map};

/// Contains the roles that grant a program its permissions, and optionally their bindings.
/// [`Manager::rbac_roles`](crate::Manager::rbac_roles) creates the roles.
///
/// The roles contain no wildcards. Rules with equal verbs are combined, and all lists are sorted, so equal
/// permissions have equal texts. The text is YAML for `kubectl apply`, with one document per object.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RbacRoles {
    /// The permissions in all namespaces. `None` if there are none.
    pub cluster_role: Option<ClusterRole>,
    /// The permissions in single namespaces, with one role for each namespace.
    pub roles: Vec<Role>,
    /// The binding of the ClusterRole.
    pub cluster_role_binding: Option<ClusterRoleBinding>,
    /// The bindings of the roles.
    pub role_bindings: Vec<RoleBinding>,
    name: String,
    rules: BTreeSet<RbacPermission>,
}

impl RbacRoles {
    /// Creates roles with the same name.
    pub(crate) fn new(name: &str, rules: &BTreeSet<RbacPermission>) -> Self {
        let rules: BTreeSet<_> = rules.iter().filter(|rule| !is_implied(rule, rules)).cloned().collect();
        let mut by_namespace: BTreeMap<Option<&str>, Vec<&RbacPermission>> = BTreeMap::new();
        for rule in &rules {
            by_namespace.entry(rule.namespace.as_deref()).or_default().push(rule);
        }
        let mut roles = Self { name: name.to_owned(), rules: rules.clone(), ..Self::default() };
        for (namespace, rules) in by_namespace {
            let (metadata, rules) = (metadata(name, namespace), Some(policy_rules(&rules)));
            match namespace {
                Some(_) => roles.roles.push(Role { metadata, rules }),
                None => {
                    roles.cluster_role = Some(ClusterRole { metadata, rules, ..ClusterRole::default() });
                }
            }
        }
        roles
    }

    /// Returns an object without roles. [`with_permissions`](Self::with_permissions) adds roles, which all have
    /// this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns roles that also contain these permissions, for example of requests that a test has recorded.
    /// [`Manager::require_permissions`](crate::Manager::require_permissions) describes the arguments. The
    /// result contains no bindings.
    #[must_use]
    pub fn with_permissions(
        mut self,
        verbs: &[&str],
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) -> Self {
        self.rules.extend(rules_of_verbs(verbs, group, resource, namespace));
        Self::new(&self.name, &self.rules)
    }

    /// Adds a binding for each role. The bindings have the names of the roles. `namespace` and `account`
    /// identify the ServiceAccount.
    #[must_use]
    pub fn bind_to_service_account(self, namespace: &str, account: &str) -> Self {
        self.bind_to(Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        })
    }

    /// Adds a binding for each role. The bindings have the names of the roles. `user` is the name that the
    /// server returns in a SelfSubjectReview.
    #[must_use]
    pub fn bind_to_user(self, user: &str) -> Self {
        self.bind_to(Subject {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "User".to_owned(),
            name: user.to_owned(),
            ..Subject::default()
        })
    }

    fn bind_to(mut self, subject: Subject) -> Self {
        let subjects = Some(vec![subject]);
        let role_ref = |kind: &str, role: &ObjectMeta| RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: kind.to_owned(),
            name: role.name.clone().unwrap_or_default(),
        };
        self.cluster_role_binding = self.cluster_role.as_ref().map(|role| ClusterRoleBinding {
            metadata: role.metadata.clone(),
            role_ref: role_ref("ClusterRole", &role.metadata),
            subjects: subjects.clone(),
        });
        let bind = |role: &Role| RoleBinding {
            metadata: role.metadata.clone(),
            role_ref: role_ref("Role", &role.metadata),
            subjects: subjects.clone(),
        };
        self.role_bindings = self.roles.iter().map(bind).collect();
        self
    }

    /// Returns all objects as JSON, with apiVersion and kind, for example to create them on a server in a
    /// test.
    pub fn objects(&self) -> Vec<Value> {
        // These types contain only texts, so the conversion cannot fail.
        fn json<T: Serialize>(objects: impl IntoIterator<Item = T>) -> impl Iterator<Item = Value> {
            objects.into_iter().filter_map(|object| serde_json::to_value(object).ok())
        }
        json(&self.cluster_role)
            .chain(json(&self.roles))
            .chain(json(&self.cluster_role_binding))
            .chain(json(&self.role_bindings))
            .collect()
    }
}

impl fmt::Display for RbacRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, object) in self.objects().iter().enumerate() {
            if number > 0 {
                f.write_str("---\n")?;
            }
            if let Value::Object(fields) = object {
                write_map(f, fields, 0)?;
            }
        }
        Ok(())
    }
}

fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    let namespace = namespace.map(str::to_owned);
    ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() }
}

/// Returns whether another rule grants the same for more namespaces or names.
fn is_implied(rule: &RbacPermission, rules: &BTreeSet<RbacPermission>) -> bool {
    let RbacPermission { namespace, name, .. } = rule;
    let wider = [(&None, &None), (&None, name), (namespace, &None)];
    wider.into_iter().filter(|wider| *wider != (namespace, name)).any(|(namespace, name)| {
        rules.contains(&RbacPermission { namespace: namespace.clone(), name: name.clone(), ..rule.clone() })
    })
}

/// Combines rules of one namespace.
fn policy_rules(rules: &[&RbacPermission]) -> Vec<PolicyRule> {
    // First, all verbs of a resource and a name. Then all names, and all resources with the same verbs.
    let mut verbs: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for rule in rules {
        let object = (&*rule.group, &*rule.resource, rule.name.as_deref());
        verbs.entry(object).or_default().insert(&rule.verb);
    }
    let mut names: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        names.entry((group, resource, name.is_some(), verbs)).or_default().extend(name);
    }
    let mut resources: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for ((group, resource, _, verbs), names) in names {
        resources.entry((group, verbs, names)).or_default().push(resource);
    }
    let texts = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut combined: Vec<PolicyRule> = resources
        .into_iter()
        .map(|((group, verbs, names), resources)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(texts(resources)),
            resource_names: Some(texts(names.into_iter().collect())).filter(|names| !names.is_empty()),
            verbs: texts(verbs.into_iter().collect()),
            ..PolicyRule::default()
        })
        .collect();
    combined
        .sort_by(|one, other| (&one.api_groups, &one.resources).cmp(&(&other.api_groups, &other.resources)));
    combined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> RbacPermission {
        let [verb, group, resource, namespace, name] = text.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        let optional = |text: &str| Some(text.to_owned()).filter(|text| text != "-");
        RbacPermission {
            group: group.trim_start_matches('-').to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            namespace: optional(namespace),
            name: optional(name),
        }
    }

    fn roles(rules: &[&str]) -> RbacRoles {
        RbacRoles::new("web", &rules.iter().map(|text| rule(text)).collect())
    }

    #[test]
    fn rules_with_equal_verbs_are_combined_and_sorted() {
        let roles = roles(&[
            "watch - pods - -",
            "list - pods - -",
            "list - configmaps - -",
            "watch - configmaps - -",
            "patch apps deployments - -",
            "get coord leases shop web",
            "update coord leases shop web",
            "update coord leases shop db",
            "get coord leases shop db",
            "create coord leases shop -",
        ]);
        let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: web
rules:
- apiGroups: [\"\"]
  resources: [configmaps, pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: web
  namespace: shop
rules:
- apiGroups: [coord]
  resources: [leases]
  verbs: [create]
- apiGroups: [coord]
  resourceNames: [db, web]
  resources: [leases]
  verbs: [get, update]
";
        assert_eq!(roles.to_string(), expected);
        assert_eq!(RbacRoles::default().to_string(), "");
    }

    #[test]
    fn implied_rules_are_omitted() {
        let named_and_namespaced = ["get - pods shop a", "get - pods shop -", "get - pods - a"];
        assert_eq!(
            roles(&["get - pods - -"]),
            roles(&[&["get - pods - -"], &named_and_namespaced[..]].concat())
        );
        assert_eq!(roles(&["get - pods shop -"]), roles(&named_and_namespaced[..2]));
        assert_eq!(roles(&named_and_namespaced[1..]).roles.len(), 1);
    }

    #[test]
    fn each_role_has_a_binding() {
        let roles = roles(&["get - pods - -", "get - secrets one -", "get - secrets two -"])
            .bind_to_service_account("ns", "me");
        let objects = roles.objects();
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let bindings = ["ClusterRoleBinding", "RoleBinding", "RoleBinding"];
        assert_eq!(kinds, [&["ClusterRole", "Role", "Role"], &bindings[..]].concat());
        assert_eq!(objects[4]["metadata"], objects[1]["metadata"]);
        assert_eq!(objects[4]["roleRef"]["name"], "web");
        assert_eq!(objects[4]["subjects"][0]["namespace"], "ns");
    }

    #[test]
    fn named_roles_have_added_permissions_and_user() {
        let roles = RbacRoles::named("web").with_permissions(&["list"], "", "pods", Some("shop"));
        let objects = roles.bind_to_user("ann").objects();
        assert_eq!(objects[0]["metadata"], serde_json::json!({"name": "web", "namespace": "shop"}));
        let user =
            serde_json::json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"});
        assert_eq!(objects[1]["subjects"][0], user);
    }
}

//! RBAC: derives rules from Roles, ClusterRoles and their bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use crate::access::rule::Rule;
use crate::storage::entry::read_labels;
use crate::wire::object::{Object, meta};
use crate::wire::selector::{LabelSelector, Labels};
use crate::wire::selector_text::selector_text;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the roles and bindings with which every cluster starts, as far as programs use them.
pub(crate) fn bootstrap() -> Vec<Object> {
    serde_json::from_str(include_str!("bootstrap.json")).expect("bootstrap.json contains objects")
}

/// The policy of the bootstrap roles, which all servers of a process share.
pub(crate) static BOOTSTRAP: LazyLock<Policy> = LazyLock::new(|| Policy::new(bootstrap()));

/// The namespace of a role, or `""` for a ClusterRole, and its name.
type RoleKey = (String, String);

#[derive(Debug)]
struct Role {
    labels: Box<Labels>,
    /// The selectors of an aggregated ClusterRole. The rules of the selected ClusterRoles replace the rules
    /// of the object.
    aggregates: Option<Vec<LabelSelector>>,
    rules: Vec<Rule>,
}

/// The roles of a server, and the rules that their bindings grant.
#[derive(Debug)]
pub(crate) struct Policy {
    roles: BTreeMap<RoleKey, Role>,
    pub granted: Vec<Rule>,
}

impl Policy {
    pub(crate) fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let is_role = |object: &Object| !kind(object).ends_with("Binding");
        let (roles, bindings): (Vec<Object>, Vec<Object>) = objects.into_iter().partition(is_role);
        let roles = roles.iter().map(|role| (key(role), Role::new(role))).collect();
        let mut policy = Self { roles, granted: Vec::new() };
        policy.granted = bindings.iter().flat_map(|binding| policy.grants(binding)).collect();
        policy
    }

    /// Returns the rules that a `roleRef` in this namespace refers to. Returns `None` if the role does not
    /// exist.
    pub(crate) fn referenced(&self, reference: &Value, namespace: &str) -> Option<Vec<Rule>> {
        let namespace = if reference["kind"] == "ClusterRole" { "" } else { namespace };
        let key = (namespace.to_owned(), reference["name"].as_str()?.to_owned());
        self.roles.contains_key(&key).then(|| self.rules(&key, &mut BTreeSet::new()))
    }

    /// Returns the rules of a role. `seen` contains the ClusterRoles that are already aggregated.
    fn rules<'a>(&'a self, key: &'a RoleKey, seen: &mut BTreeSet<&'a RoleKey>) -> Vec<Rule> {
        let Some(role) = self.roles.get(key).filter(|_| seen.insert(key)) else { return Vec::new() };
        let Some(selectors) = &role.aggregates else { return role.rules.clone() };
        let is_selected = |role: &Role| selectors.iter().any(|selector| selector.matches(&role.labels));
        let selected =
            self.roles.iter().filter(|((namespace, _), role)| namespace.is_empty() && is_selected(role));
        selected.flat_map(|(key, _)| self.rules(key, seen)).collect()
    }

    /// Returns the rules that a binding grants, for each of its subjects.
    fn grants(&self, binding: &Object) -> Vec<Rule> {
        let (namespace, name) = key(binding);
        let Some(reference) = binding.get("roleRef") else { return Vec::new() };
        let rules = self.referenced(reference, &namespace).unwrap_or_default();
        let binding_text = match namespace.as_str() {
            "" => format!("ClusterRoleBinding {name:?}"),
            _ => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
        };
        let role = format!("{} {}", reference["kind"].as_str().unwrap_or(""), reference["name"]);
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        let grant = |subject: &Value| {
            let text = |field: &str| subject[field].as_str().unwrap_or("");
            let (kind, name) = (text("kind"), text("name"));
            let home = if text("namespace").is_empty() { &namespace } else { text("namespace") };
            let account = format!("system:serviceaccount:{home}:{name}");
            let (users, groups, shown) = match kind {
                "User" => (vec![name], vec![], name.to_owned()),
                "Group" => (vec![], vec![name], name.to_owned()),
                "ServiceAccount" if !home.is_empty() => (vec![&*account], vec![], format!("{name}/{home}")),
                _ => return Vec::new(),
            };
            let reason = format!("RBAC: allowed by {binding_text} of {role} to {kind} {shown:?}");
            let namespaces: &[&str] = if namespace.is_empty() { &[] } else { &[&namespace] };
            let granted = rules.iter().cloned().map(|rule| rule.users(&users).groups(&groups));
            granted.map(|rule| rule.namespaces(namespaces).with_reason(&reason)).collect::<Vec<_>>()
        };
        subjects.flat_map(grant).collect()
    }
}

impl Role {
    fn new(object: &Object) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let labels = metadata.map(read_labels).unwrap_or_default();
        Self { labels, aggregates: aggregates(object), rules: rules(object) }
    }
}

pub(crate) fn aggregates(role: &Object) -> Option<Vec<LabelSelector>> {
    let selectors = role.get("aggregationRule")?.get("clusterRoleSelectors")?.as_array()?;
    let selectors = selectors.iter().map(selector_text);
    Some(selectors.filter_map(|text| LabelSelector::parse(&text).ok()).collect())
}

/// Returns the rules in a role, for all users and namespaces. Skips rules without a
/// required list, which do not allow any request.
pub(crate) fn rules(role: &Object) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
    let (namespace, name) = key(role);
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    let role = format!("{} {name:?}", kind(role));
    let rule = |(index, rule): (usize, &Value)| {
        let list = |field: &str| -> Vec<&str> {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let (groups, resources, paths) = (list("apiGroups"), list("resources"), list("nonResourceURLs"));
        let is_for_resources = !groups.is_empty() && !resources.is_empty() && paths.is_empty();
        let is_for_paths = groups.is_empty() && resources.is_empty() && !paths.is_empty();
        let is_valid = !list("verbs").is_empty() && (is_for_resources || is_for_paths);
        let allow = Rule::allow().verbs(&list("verbs")).api_groups(&groups).resources(&resources);
        let allow = allow.names(&list("resourceNames")).paths(&paths);
        is_valid.then(|| allow.with_role(&role, index))
    };
    rules.enumerate().filter_map(rule).collect()
}

fn kind(object: &Object) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("")
}

fn key(object: &Object) -> RoleKey {
    (meta(object, "namespace").to_owned(), meta(object, "name").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::attributes::{Attributes, ResourceAttributes};
    use crate::access::users::User;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn role(name: &str, labels: &Value, more: Value) -> Object {
        let mut role = object(more);
        role.insert("kind".into(), "ClusterRole".into());
        role.insert("metadata".into(), json!({"name": name, "labels": labels}));
        role
    }

    fn binding(namespace: &str, role: &str, subject: &Value) -> Object {
        let reference = json!({"kind": "ClusterRole", "name": role});
        let metadata = json!({"name": "b", "namespace": namespace});
        object(
            json!({"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}),
        )
    }

    fn may(policy: &Policy, user: &User, verb: &str, resource: &str, namespace: &str) -> bool {
        let request = Attributes::Resource(ResourceAttributes {
            verb: verb.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            ..ResourceAttributes::default()
        });
        policy.granted.iter().any(|rule| rule.applies_to(user) && rule.matches(&request))
    }

    #[test]
    fn bootstrap_roles_are_aggregated() {
        let user = User::new("ann", &["devs"]);
        for (name, reads, writes, binds) in
            [("view", true, false, false), ("edit", true, true, false), ("admin", true, true, true)]
        {
            let granted = binding("shop", name, &json!({"kind": "Group", "name": "devs"}));
            let policy = Policy::new(bootstrap().into_iter().chain([granted]));
            assert_eq!(may(&policy, &user, "get", "pods", "shop"), reads, "{name}");
            assert_eq!(may(&policy, &user, "create", "pods", "shop"), writes, "{name}");
            assert!(!may(&policy, &user, "get", "pods", "other"), "{name}");
            let rules = policy.referenced(&json!({"kind": "ClusterRole", "name": name}), "shop").unwrap();
            assert_eq!(
                rules.iter().any(|rule| rule.resources.contains(&"roles".to_owned())),
                binds,
                "{name}"
            );
        }
    }

    #[test]
    fn aggregation_ignores_own_rules_and_cycles() {
        let pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
        let selects = |key: &str| json!({"clusterRoleSelectors": [{"matchLabels": {key: "1"}}]});
        let policy = Policy::new([
            role("a", &json!({"to-b": "1"}), json!({"aggregationRule": selects("to-a"), "rules": secrets})),
            role("b", &json!({"to-a": "1"}), json!({"aggregationRule": selects("to-b"), "rules": null})),
            role("c", &json!({"to-b": "1"}), json!({"rules": pods})),
            binding("", "a", &json!({"kind": "User", "name": "ann"})),
        ]);
        let ann = User::new("ann", &[]);
        assert!(may(&policy, &ann, "get", "pods", "") && !may(&policy, &ann, "get", "secrets", ""));
    }

    #[test]
    fn incomplete_rules_and_bindings_do_not_grant_rights() {
        let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let ann = json!({"kind": "User", "name": "ann"});
        for rule in [
            json!({"apiGroups": [""], "resources": ["pods"]}),
            json!({"verbs": ["get"], "resources": ["pods"]}),
            json!({"verbs": ["get"], "apiGroups": [""]}),
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["*"]}),
        ] {
            let broken = role("r", &json!({}), json!({"rules": [rule]}));
            let policy = Policy::new([broken, binding("", "r", &ann)]);
            assert!(policy.granted.is_empty(), "{rule}");
        }
        for subject in [json!({"kind": "ServiceAccount", "name": "ann"}), json!({"kind": "X", "name": "ann"})]
        {
            let role = role("r", &json!({}), json!({"rules": everything}));
            assert!(Policy::new([role, binding("", "r", &subject)]).granted.is_empty());
        }
        assert!(Policy::new([binding("", "no-role", &ann)]).granted.is_empty());
    }
}

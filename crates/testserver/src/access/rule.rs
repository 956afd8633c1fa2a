//! A rule that allows or denies requests.

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::usage::RoleRight;
use crate::access::users::User;

/// Represents a rule that allows or denies requests. [`Access::add_rule`](crate::Access::add_rule) adds
/// the rule to a server.
///
/// A condition that is not set matches every request. For example, `Rule::deny().verbs(&["watch"])`
/// denies all watches to all users. A condition with an empty list counts as not set.
///
/// ```
/// use kube_testserver::{Rule, Server};
///
/// let server = Server::new();
/// server.access().add_user("token-of-operator", "operator", &[]);
/// let pods = Rule::allow().users(&["operator"]).verbs(&["get", "list", "watch"]).resources(&["pods", "pods/status"]);
/// let rule = server.access().add_rule(pods.namespaces(&["shop"]));
/// // The operator can no longer read pods. Its open watches continue.
/// server.access().remove_rule(rule);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a rule has no effect until it is added"]
pub struct Rule {
    pub(crate) effect: Effect,
    users: Vec<String>,
    groups: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    namespaces: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<String>,
    /// The reason that an access review returns. May be empty.
    pub(crate) reason: String,
    /// The role that contains the rule, and the index of the rule. Empty for a rule of a test.
    role: (String, usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Effect {
    #[default]
    Allow,
    Deny,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Rule {
    /// Creates a rule that allows requests.
    pub fn allow() -> Self {
        Self::default()
    }

    /// Creates a rule that denies requests. It takes precedence over each rule that allows the same
    /// request.
    pub fn deny() -> Self {
        Self { effect: Effect::Deny, ..Self::default() }
    }

    /// Restricts the rule to these users. If [`groups`](Self::groups) is also set, the rule applies to
    /// these users and to the members of the groups. Default: all users.
    pub fn users(mut self, names: &[&str]) -> Self {
        self.users = owned(names);
        self
    }

    /// Restricts the rule to the members of these groups. If [`users`](Self::users) is also set, the
    /// rule applies to the members of the groups and to these users. Default: all users.
    pub fn groups(mut self, groups: &[&str]) -> Self {
        self.groups = owned(groups);
        self
    }

    /// Restricts the rule to these verbs. `*` matches every verb. Default: all verbs.
    ///
    /// The verbs of requests for resources are `get`, `list`, `watch`, `create`, `update`, `patch`,
    /// `delete` and `deletecollection`. The verbs of requests for other paths are the HTTP methods in
    /// lower case.
    pub fn verbs(mut self, verbs: &[&str]) -> Self {
        self.verbs = owned(verbs);
        self
    }

    /// Restricts the rule to resources of these API groups. `""` is the core group, and `*` matches all
    /// groups. Default: all groups.
    pub fn api_groups(mut self, groups: &[&str]) -> Self {
        self.api_groups = owned(groups);
        self
    }

    /// Restricts the rule to these resources, by plural name. Default: all resources and subresources.
    ///
    /// `pods` does not include the subresources of pods. `pods/status` matches only this subresource,
    /// and `*/scale` matches the subresource `scale` of all resources. `*` matches all resources and
    /// subresources.
    pub fn resources(mut self, resources: &[&str]) -> Self {
        self.resources = owned(resources);
        self
    }

    /// Restricts the rule to objects in these namespaces, and to the `Namespace` objects with these
    /// names. Default: all namespaces and cluster-scoped objects.
    pub fn namespaces(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = owned(namespaces);
        self
    }

    /// Restricts the rule to objects with these names. Default: all names, and requests without a name.
    ///
    /// A list or watch matches if its field selector requires one of these names as `metadata.name`.
    pub fn names(mut self, names: &[&str]) -> Self {
        self.names = owned(names);
        self
    }

    /// Restricts the rule to these paths outside of resources, such as `/metrics`. `/logs/*` matches all
    /// paths that start with `/logs/`.
    ///
    /// A rule with paths does not match requests for resources. A rule with resources, API groups,
    /// namespaces or names matches only requests for resources. A rule without these conditions matches
    /// both.
    pub fn paths(mut self, paths: &[&str]) -> Self {
        self.paths = owned(paths);
        self
    }

    pub(crate) fn with_reason(mut self, reason: &str) -> Self {
        self.reason = reason.into();
        self
    }

    pub(crate) fn applies_to(&self, user: &User) -> bool {
        (self.users.is_empty() && self.groups.is_empty())
            || self.users.contains(&user.name)
            || self.groups.iter().any(|group| user.is_in(group))
    }

    pub(crate) fn matches(&self, request: &Attributes) -> bool {
        match request {
            Attributes::Resource(request) => self.matches_resource(request),
            Attributes::Path { verb, path } => self.matches_path(verb, path),
        }
    }

    fn matches_resource(&self, request: &ResourceAttributes) -> bool {
        self.is_for_resources()
            && includes(&self.verbs, &request.verb)
            && includes(&self.api_groups, &request.group)
            && (self.resources.is_empty()
                || self.resources.iter().any(|pattern| matches_resource_pattern(pattern, request)))
            && self.is_in(&request.namespace)
            && (self.names.is_empty() || self.names.contains(&request.name))
    }

    fn matches_path(&self, verb: &str, path: &str) -> bool {
        self.is_for_paths()
            && includes(&self.verbs, verb)
            && (self.paths.is_empty() || self.paths.iter().any(|pattern| matches_path_pattern(pattern, path)))
    }

    /// Returns whether the rule applies to a namespace. `""` means cluster-scoped objects.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == namespace)
    }

    pub(crate) fn with_role(mut self, role: &str, index: usize) -> Self {
        self.role = (role.into(), index);
        self
    }

    /// Returns whether the rule applies to the user by name.
    pub(crate) fn names_user(&self, user: &str) -> bool {
        self.users.iter().any(|own| own == user)
    }

    /// Splits a rule of a role into rights with one verb and one resource or path each.
    pub(crate) fn rights(&self) -> Vec<RoleRight> {
        let mut rights = Vec::new();
        let any_name = vec![String::new()];
        let names = if self.names.is_empty() { &any_name } else { &self.names };
        for verb in &self.verbs {
            let path = |path: &String| Attributes::Path { verb: verb.clone(), path: path.clone() };
            rights.extend(self.paths.iter().map(path));
            for (group, resource) in product(&self.api_groups, &self.resources) {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let right = ResourceAttributes {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.into(),
                    subresource: subresource.into(),
                    ..ResourceAttributes::default()
                };
                let named = |name: &String| ResourceAttributes { name: name.clone(), ..right.clone() };
                rights.extend(names.iter().map(named).map(Attributes::Resource));
            }
        }
        let (role, rule) = &self.role;
        rights.into_iter().map(|right| RoleRight { role: role.clone(), rule: *rule, right }).collect()
    }

    /// Returns the rights of this rule that a request uses, which the rule must match.
    pub(crate) fn used_by(&self, request: &Attributes) -> Vec<RoleRight> {
        let keep = |list: &[String], used: &dyn Fn(&str) -> bool| {
            list.iter().filter(|own| used(own)).cloned().collect::<Vec<_>>()
        };
        let is = |own: &str, used: &str| own == "*" || own == used;
        let mut part = self.clone();
        match request {
            Attributes::Resource(request) => {
                part.verbs = keep(&self.verbs, &|own| is(own, &request.verb));
                part.api_groups = keep(&self.api_groups, &|own| is(own, &request.group));
                part.resources = keep(&self.resources, &|own| matches_resource_pattern(own, request));
                part.names = keep(&self.names, &|own| own == request.name);
            }
            Attributes::Path { verb, path } => {
                part.verbs = keep(&self.verbs, &|own| is(own, verb));
                part.paths = keep(&self.paths, &|own| matches_path_pattern(own, path));
            }
        }
        part.rights()
    }

    pub(crate) fn is_for_resources(&self) -> bool {
        self.paths.is_empty()
    }

    pub(crate) fn is_for_paths(&self) -> bool {
        [&self.api_groups, &self.resources, &self.namespaces, &self.names].iter().all(|list| list.is_empty())
    }
}

fn product<'a>(one: &'a [String], other: &'a [String]) -> impl Iterator<Item = (&'a String, &'a String)> {
    one.iter().flat_map(move |a| other.iter().map(move |b| (a, b)))
}

/// Returns whether the list is empty, or contains `*` or this text.
fn includes(list: &[String], text: &str) -> bool {
    list.is_empty() || list.iter().any(|own| own == "*" || own == text)
}

fn matches_path_pattern(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
    }
}

fn matches_resource_pattern(pattern: &str, request: &ResourceAttributes) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || (pattern == request.resource && request.subresource.is_empty()),
        Some((resource, subresource)) => {
            subresource == request.subresource
                && !subresource.is_empty()
                && (resource == "*" || resource == request.resource)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(subresource: &str, namespace: &str, name: &str) -> Attributes {
        Attributes::Resource(ResourceAttributes {
            verb: "get".into(),
            group: String::new(),
            resource: "pods".into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    #[test]
    fn unset_parts_match_all_requests() {
        let path = Attributes::Path { verb: "get".into(), path: "/metrics".into() };
        assert!(Rule::deny().matches(&pods("", "shop", "a")) && Rule::deny().matches(&path));
        assert!(!Rule::deny().resources(&["*"]).matches(&path));
        assert!(!Rule::deny().paths(&["*"]).matches(&pods("", "", "")));
        assert!(Rule::deny().paths(&["/met*"]).matches(&path));
        assert!(!Rule::deny().paths(&["/met"]).matches(&path));
        assert!(!Rule::deny().verbs(&["list"]).matches(&path));
    }

    #[test]
    fn resource_patterns_match_resources_and_subresources() {
        let (object, status) = (pods("", "shop", "a"), pods("status", "shop", "a"));
        for (pattern, matches_object, matches_status) in [
            ("pods", true, false),
            ("pods/status", false, true),
            ("*/status", false, true),
            ("pods/*", false, false),
            ("*", true, true),
            ("services", false, false),
        ] {
            let rule = Rule::allow().resources(&[pattern]);
            let matches = (rule.matches(&object), rule.matches(&status));
            assert_eq!(matches, (matches_object, matches_status), "{pattern}");
        }
        assert!(
            Rule::allow().names(&["a"]).matches(&object) && !Rule::allow().names(&["b"]).matches(&object)
        );
        assert!(!Rule::allow().namespaces(&["shop"]).matches(&pods("", "", "a")));
        assert!(!Rule::allow().api_groups(&["apps"]).matches(&object));
    }

    #[test]
    fn rule_applies_to_its_users_and_group_members() {
        let ann = User::new("ann", &["devs"]);
        assert!(Rule::allow().applies_to(&ann) && Rule::allow().users(&["ann"]).applies_to(&ann));
        assert!(Rule::allow().users(&["bob"]).groups(&["devs"]).applies_to(&ann));
        assert!(!Rule::allow().groups(&["ops"]).applies_to(&ann));
    }
}

//! One rule: who may, or may not, do what.

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::users::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

/// A rule about what users may do, given to [`Access::add_rule`](crate::Access::add_rule). What is not set does not
/// matter: `Rule::deny().verbs(&["watch"])` takes all watches from everybody.
///
/// ```
/// use kube_testserver::{Rule, Server};
///
/// let server = Server::new();
/// server.access().add_user("token-of-operator", "operator", &[]);
/// let pods = Rule::allow().users(&["operator"]).verbs(&["get", "list", "watch"]).resources(&["pods", "pods/status"]);
/// let rule = server.access().add_rule(pods.namespaces(&["shop"]));
/// // From now on the operator is forbidden to read pods again; watches that are open go on.
/// server.access().remove_rule(rule);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a rule does nothing until it is added"]
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
    /// What a review says about it, if anything.
    pub(crate) reason: String,
}

/// What a rule does to what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Rule {
    /// A rule that allows.
    pub fn allow() -> Self {
        Self::new(Effect::Allow)
    }

    /// A rule that forbids, whatever other rules allow, and whoever asks.
    pub fn deny() -> Self {
        Self::new(Effect::Deny)
    }

    fn new(effect: Effect) -> Self {
        Self {
            effect,
            users: Vec::new(),
            groups: Vec::new(),
            verbs: Vec::new(),
            api_groups: Vec::new(),
            resources: Vec::new(),
            namespaces: Vec::new(),
            names: Vec::new(),
            paths: Vec::new(),
            reason: String::new(),
        }
    }

    /// Only for these users, besides the members of [`groups`](Self::groups). Default: everybody.
    pub fn users(mut self, names: &[&str]) -> Self {
        self.users = owned(names);
        self
    }

    /// Only for members of these groups, besides the [`users`](Self::users) named. Default: everybody.
    pub fn groups(mut self, groups: &[&str]) -> Self {
        self.groups = owned(groups);
        self
    }

    /// Only these verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; of paths the
    /// HTTP methods in lower case. `*` is every verb. Default: every verb.
    pub fn verbs(mut self, verbs: &[&str]) -> Self {
        self.verbs = owned(verbs);
        self
    }

    /// Only resources of these API groups: `""` is the core group, `*` all. Default: all groups.
    pub fn api_groups(mut self, groups: &[&str]) -> Self {
        self.api_groups = owned(groups);
        self
    }

    /// Only these resources, in the plural. `pods` are pods without their subresources, `pods/status` is one of these,
    /// `*/scale` that of all resources, `*` everything. Default: everything.
    pub fn resources(mut self, resources: &[&str]) -> Self {
        self.resources = owned(resources);
        self
    }

    /// Only in these namespaces, a namespace itself included. Default: everywhere, and what is in no namespace.
    pub fn namespaces(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = owned(namespaces);
        self
    }

    /// Only objects of these names. A list or watch is about one object if it selects by `metadata.name`. Default: all,
    /// and what names no object.
    pub fn names(mut self, names: &[&str]) -> Self {
        self.names = owned(names);
        self
    }

    /// Only these paths, such as `/metrics`, or `/logs/*` for all that begins so. A rule about resources does not touch
    /// paths, one about paths no resources, one about neither touches both.
    pub fn paths(mut self, paths: &[&str]) -> Self {
        self.paths = owned(paths);
        self
    }

    fn because(mut self, reason: &str) -> Self {
        self.reason = reason.into();
        self
    }

    pub(crate) fn is_about(&self, user: &User) -> bool {
        (self.users.is_empty() && self.groups.is_empty())
            || self.users.contains(&user.name)
            || self.groups.iter().any(|group| user.is_in(group))
    }

    pub(crate) fn matches(&self, asked: &Attributes) -> bool {
        match asked {
            Attributes::Resource(asked) => self.matches_resource(asked),
            Attributes::Path { verb, path } => self.matches_path(verb, path),
        }
    }

    fn matches_resource(&self, asked: &ResourceAttributes) -> bool {
        self.is_for_resources()
            && holds(&self.verbs, &asked.verb)
            && holds(&self.api_groups, &asked.group)
            && (self.resources.is_empty() || self.resources.iter().any(|named| is_named(named, asked)))
            && self.is_in(&asked.namespace)
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }

    fn matches_path(&self, verb: &str, path: &str) -> bool {
        let begins = |named: &String| match named.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == named,
        };
        self.is_for_paths()
            && holds(&self.verbs, verb)
            && (self.paths.is_empty() || self.paths.iter().any(begins))
    }

    /// Whether it says anything about what is in this namespace; `""` is what is in none.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == namespace)
    }

    pub(crate) fn is_for_resources(&self) -> bool {
        self.paths.is_empty()
    }

    pub(crate) fn is_for_paths(&self) -> bool {
        [&self.api_groups, &self.resources, &self.namespaces, &self.names].iter().all(|list| list.is_empty())
    }
}

/// Whether a list that is empty, or has a `*`, or this text, holds it.
fn holds(list: &[String], text: &str) -> bool {
    list.is_empty() || list.iter().any(|own| own == "*" || own == text)
}

fn is_named(named: &str, asked: &ResourceAttributes) -> bool {
    match named.split_once('/') {
        None => named == "*" || (named == asked.resource && asked.subresource.is_empty()),
        Some((resource, part)) => {
            part == asked.subresource && !part.is_empty() && (resource == "*" || resource == asked.resource)
        }
    }
}

/// What holds on every server: members of `system:masters` may do everything, everybody may ask for health and
/// version, and whoever is known for what is served and for its own rights.
pub(crate) fn basic() -> Vec<Rule> {
    let bound = |role: &str, group: &str| {
        format!(
            "RBAC: allowed by ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" to Group \"{group}\""
        )
    };
    let health = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let mut discovery = vec!["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi"];
    discovery.extend(["/openapi/*", "/readyz", "/version", "/version/"]);
    let own = |api_group: &str, resources: &[&str]| {
        let rule = Rule::allow().groups(&[AUTHENTICATED]).verbs(&["create"]);
        let rule = rule.api_groups(&[api_group]).resources(resources);
        rule.because(&bound("system:basic-user", AUTHENTICATED))
    };
    let seen = |group: &str| {
        let rule = Rule::allow().groups(&[group]).verbs(&["get"]).paths(&health);
        rule.because(&bound("system:public-info-viewer", group))
    };
    vec![
        own("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        own("authentication.k8s.io", &["selfsubjectreviews"]),
        Rule::allow()
            .groups(&[AUTHENTICATED])
            .verbs(&["get"])
            .paths(&discovery)
            .because(&bound("system:discovery", AUTHENTICATED)),
        Rule::allow().groups(&[MASTERS]),
        seen(AUTHENTICATED),
        seen(UNAUTHENTICATED),
    ]
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
    fn what_is_not_set_does_not_matter() {
        let path = Attributes::Path { verb: "get".into(), path: "/metrics".into() };
        assert!(Rule::deny().matches(&pods("", "shop", "a")) && Rule::deny().matches(&path));
        assert!(!Rule::deny().resources(&["*"]).matches(&path));
        assert!(!Rule::deny().paths(&["*"]).matches(&pods("", "", "")));
        assert!(Rule::deny().paths(&["/met*"]).matches(&path));
        assert!(!Rule::deny().paths(&["/met"]).matches(&path));
        assert!(!Rule::deny().verbs(&["list"]).matches(&path));
    }

    #[test]
    fn resources_are_named_with_their_parts() {
        let (whole, status) = (pods("", "shop", "a"), pods("status", "shop", "a"));
        for (named, of_whole, of_status) in [
            ("pods", true, false),
            ("pods/status", false, true),
            ("*/status", false, true),
            ("pods/*", false, false),
            ("*", true, true),
            ("services", false, false),
        ] {
            let rule = Rule::allow().resources(&[named]);
            assert_eq!((rule.matches(&whole), rule.matches(&status)), (of_whole, of_status), "{named}");
        }
        assert!(Rule::allow().names(&["a"]).matches(&whole) && !Rule::allow().names(&["b"]).matches(&whole));
        assert!(!Rule::allow().namespaces(&["shop"]).matches(&pods("", "", "a")));
        assert!(!Rule::allow().api_groups(&["apps"]).matches(&whole));
    }

    #[test]
    fn a_rule_is_about_its_users_and_the_members_of_its_groups() {
        let ann = User::new("ann", &["devs"]);
        assert!(Rule::allow().is_about(&ann) && Rule::allow().users(&["ann"]).is_about(&ann));
        assert!(Rule::allow().users(&["bob"]).groups(&["devs"]).is_about(&ann));
        assert!(!Rule::allow().groups(&["ops"]).is_about(&ann));
    }
}

//! `Access`: the users and rules of a server. They can change at run time.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;

use crate::access::attributes::Attributes;
use crate::access::impersonation;
use crate::access::rule::{Effect, Rule, basic};
use crate::access::users::{AUTHENTICATED, MASTERS, User, Users};
use crate::status::Status;

/// Controls the users and rules of a server. Changes apply to later requests, but not to open watches.
///
/// - Without users, the server permits every request that no rule denies.
/// - After the first user is added, the server rejects an unknown bearer token with 401. A request
///   without a token belongs to the user `system:anonymous`.
/// - The server permits a request if a rule allows it and no rule denies it. Otherwise, the server
///   rejects the request with 403.
/// - Some rights need no rule, but rules can deny them. Members of `system:masters` have all rights. All
///   users, including `system:anonymous`, may read health and version. All users with a token may also
///   read discovery and review their own rights.
///
/// A clone is another handle to the same users and rules.
#[derive(Clone, Debug)]
pub struct Access(Arc<RwLock<AccessLists>>);

#[derive(Debug)]
struct AccessLists {
    users: Users,
    /// True until the first user is added. All requests are then permitted.
    open: bool,
    anonymous: bool,
    last: u64,
    basic: Vec<Rule>,
    rules: Vec<(RuleId, Rule)>,
}

/// Identifies a rule. [`Access::add_rule`] returns the identifier, and [`Access::remove_rule`] requires
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The decision of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Allowed, with a reason that may be empty.
    Allowed(String),
    Denied,
    /// No rule matches. The request is rejected.
    NoOpinion,
}

/// The rights of a user in a namespace, as a list of rules.
pub(crate) struct PermittedRules {
    pub rules: Vec<Rule>,
    /// True if other rules deny some of these rights.
    pub restricted: bool,
}

impl Access {
    pub(crate) fn new(users: Users) -> Self {
        let open = users.is_empty();
        let lists = AccessLists { users, open, anonymous: true, last: 0, basic: basic(), rules: Vec::new() };
        Self(Arc::new(RwLock::new(lists)))
    }

    /// Adds a user with a bearer token and groups. The user also becomes a member of
    /// `system:authenticated`.
    ///
    /// A user may have several tokens. If a token is added for two users, it belongs to the second user.
    pub fn add_user(&self, token: &str, name: &str, groups: &[&str]) {
        let mut lists = self.0.write();
        lists.open = false;
        lists.users.add(token, name, groups);
    }

    /// Removes a user with all its tokens. The server rejects later requests with these tokens with 401.
    /// Returns false if the user does not exist.
    pub fn remove_user(&self, name: &str) -> bool {
        self.0.write().users.remove(name)
    }

    /// Sets whether the server accepts requests without a token, as the user `system:anonymous`.
    /// Otherwise, the server rejects them with 401. Default: `true`.
    pub fn allow_anonymous(&self, on: bool) {
        self.0.write().anonymous = on;
    }

    /// Adds a rule. The rule applies to later requests.
    pub fn add_rule(&self, rule: Rule) -> RuleId {
        let mut lists = self.0.write();
        lists.last += 1;
        let id = RuleId(lists.last);
        lists.rules.push((id, rule));
        id
    }

    /// Removes a rule. Returns false if the rule was already removed.
    pub fn remove_rule(&self, id: RuleId) -> bool {
        let mut lists = self.0.write();
        let before = lists.rules.len();
        lists.rules.retain(|(own, _)| *own != id);
        lists.rules.len() < before
    }

    /// Removes all rules that were added.
    pub fn clear_rules(&self) {
        self.0.write().rules.clear();
    }

    /// Returns the token of a user with all rights, if any.
    pub(crate) fn admin_token(&self) -> Option<String> {
        self.0.read().users.admin_token().map(str::to_owned)
    }

    /// Returns the user of these headers. On a server without users, this is an administrator.
    ///
    /// # Errors
    /// Returns 401 for an unknown token.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<User, Status> {
        let lists = self.0.read();
        if lists.open {
            return Ok(User::new("admin", &[MASTERS, AUTHENTICATED]));
        }
        lists.users.authenticate(headers, lists.anonymous)
    }

    /// Returns the user as which the request of `requestor` runs. The headers can contain another user.
    ///
    /// # Errors
    /// Returns 400 for incomplete headers, and 403 if the requestor may not impersonate the user.
    pub(crate) fn impersonate(
        &self,
        requestor: User,
        headers: &HeaderMap,
        request: &Attributes,
    ) -> Result<User, Status> {
        let Some(wanted) = impersonation::wanted(headers)? else { return Ok(requestor) };
        let may = |right: &Attributes| matches!(self.decide(&requestor, right), Decision::Allowed(_));
        let checked = impersonation::check(&wanted, request, may);
        checked.map(|checked| checked.user).map_err(|missing| missing.forbidden(&requestor.name))
    }

    /// Returns 403 if the user does not have the right.
    pub(crate) fn authorize(&self, user: &User, request: &Attributes) -> Result<(), Status> {
        match self.decide(user, request) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied | Decision::NoOpinion => Err(request.forbidden(&user.name)),
        }
    }

    pub(crate) fn decide(&self, user: &User, request: &Attributes) -> Decision {
        let lists = self.0.read();
        let matches =
            |effect, rule: &&Rule| rule.effect == effect && rule.applies_to(user) && rule.matches(request);
        if lists.added().any(|rule| matches(Effect::Deny, &rule)) {
            return Decision::Denied;
        }
        if lists.open || user.is_in(MASTERS) {
            return Decision::Allowed(String::new());
        }
        match lists.basic.iter().chain(lists.added()).find(|rule| matches(Effect::Allow, rule)) {
            Some(rule) => Decision::Allowed(rule.reason.clone()),
            None => Decision::NoOpinion,
        }
    }

    /// Returns the rights of a user in a namespace.
    pub(crate) fn permitted(&self, user: &User, namespace: &str) -> PermittedRules {
        let lists = self.0.read();
        let applies = |rule: &&Rule| rule.applies_to(user) && rule.is_in(namespace);
        let all = lists.basic.iter().chain(lists.added()).filter(applies);
        let (rules, denying): (Vec<Rule>, Vec<Rule>) =
            all.cloned().partition(|rule| rule.effect == Effect::Allow);
        PermittedRules { rules, restricted: !denying.is_empty() }
    }
}

impl AccessLists {
    fn added(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|(_, rule)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(access: &Access, user: &str, path: &str) -> bool {
        let request = Attributes::Path { verb: "get".into(), path: path.into() };
        access.authorize(&User::new(user, &[]), &request).is_ok()
    }

    #[test]
    fn only_deny_rules_restrict_requests_without_users() {
        let access = Access::new(Users::default());
        assert!(may(&access, "admin", "/a"));
        let rule = access.add_rule(Rule::deny().paths(&["/a"]));
        assert!(!may(&access, "admin", "/a") && may(&access, "admin", "/b"));
        assert!(access.remove_rule(rule) && !access.remove_rule(rule));
        assert!(may(&access, "admin", "/a"));
    }

    #[test]
    fn deny_rules_take_precedence_in_any_order() {
        let access = Access::new(Users::default());
        access.add_user("t", "ann", &[]);
        assert!(!may(&access, "ann", "/a"));
        access.add_rule(Rule::deny().users(&["ann"]).paths(&["/a"]));
        access.add_rule(Rule::allow().users(&["ann"]));
        assert!(!may(&access, "ann", "/a") && may(&access, "ann", "/b") && !may(&access, "bob", "/b"));
        access.clear_rules();
        assert!(!may(&access, "ann", "/b"));
    }

    #[test]
    fn removed_user_is_unauthorized() {
        let access = Access::new(Users::default());
        access.add_user("t", "ann", &["devs"]);
        access.add_user("u", "bob", &[]);
        let mut headers = HeaderMap::new();
        headers.insert(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer t"));
        let groups = access.authenticate(&headers).unwrap().groups;
        assert_eq!(groups, ["devs", "system:authenticated"]);
        assert!(access.remove_user("ann"));
        assert_eq!(access.authenticate(&headers).unwrap_err().code(), 401);
        assert_eq!(access.authenticate(&HeaderMap::new()).unwrap().name, "system:anonymous");
        access.allow_anonymous(false);
        assert_eq!(access.authenticate(&HeaderMap::new()).unwrap_err().code(), 401);
    }
}

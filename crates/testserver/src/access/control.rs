//! `Access`: the users and rules of a server. They can change at run time.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::access::attributes::Attributes;
use crate::access::impersonation;
use crate::access::rbac::{BOOTSTRAP, Policy};
use crate::access::rule::{Effect, Rule};
use crate::access::usage::{Record, Usage, UsageLog};
use crate::access::users::{AUTHENTICATED, MASTERS, User, Users, random_token};
use crate::status::Status;
use crate::storage::entry::Entry;

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
pub struct Access {
    lists: Arc<RwLock<AccessLists>>,
    /// The stored roles and bindings of the current rules. `None` without RBAC.
    derived_from: Option<Arc<Mutex<Vec<Arc<Entry>>>>>,
    log: Arc<Mutex<UsageLog>>,
    /// True if requests on TCP need a token even if the server has no users.
    requires_token: bool,
}

#[derive(Debug)]
struct AccessLists {
    users: Users,
    /// True until the first user is added. All requests are then permitted.
    open: bool,
    anonymous: bool,
    /// True if requests that no rule allows are only recorded.
    is_enforced: bool,
    last: u64,
    /// Derived from the stored roles and bindings. `None` means the bootstrap policy.
    stored_policy: Option<Policy>,
    rules: Vec<(RuleId, Rule)>,
}

/// Identifies a rule. [`Access::add_rule`] returns the identifier, and [`Access::remove_rule`] requires
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The message for a request on TCP without the token of the server.
const TOKEN_REQUIRED: &str = "a client on TCP must send the token of Listening::kubeconfig; \
                              ServerBuilder::require_token(false) accepts all clients";

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
    pub(crate) fn new(users: Users, rbac: bool, requires_token: bool) -> Self {
        let open = users.is_empty();
        let (stored_policy, rules) = (None, Vec::new());
        let lists =
            AccessLists { users, open, anonymous: true, is_enforced: true, last: 0, stored_policy, rules };
        Self {
            lists: Arc::new(RwLock::new(lists)),
            derived_from: rbac.then(Arc::default),
            log: Arc::default(),
            requires_token,
        }
    }

    /// Derives the rules of RBAC again if these stored roles and bindings are not the known ones.
    pub(crate) fn follow(&self, stored: impl FnOnce() -> Vec<Arc<Entry>>) {
        let Some(derived_from) = &self.derived_from else { return };
        let mut known = derived_from.lock();
        let now = stored();
        if known.len() != now.len() || known.iter().zip(&now).any(|(known, now)| !Arc::ptr_eq(known, now)) {
            let policy = Policy::new(now.iter().map(|entry| entry.object()));
            self.lists.write().stored_policy = Some(policy);
            *known = now;
        }
    }

    pub(crate) fn uses_rbac(&self) -> bool {
        self.derived_from.is_some()
    }

    /// Adds a user with a bearer token and groups. The user also becomes a member of
    /// `system:authenticated`.
    ///
    /// A user may have several tokens. If a token is added for two users, it belongs to the second user.
    ///
    /// # Panics
    /// Panics if the token is empty.
    pub fn add_user(&self, token: &str, name: &str, groups: &[&str]) {
        let mut lists = self.lists.write();
        lists.open = false;
        lists.users.add(token, name, groups);
    }

    /// Adds a random token for a service account, and returns the token. Its user is
    /// `system:serviceaccount:NAMESPACE:NAME`, with the groups of service accounts. The ServiceAccount
    /// object need not exist.
    ///
    /// [`ApiService::with_token`](crate::ApiService::with_token) sends the token.
    pub fn service_account(&self, namespace: &str, name: &str) -> String {
        let token = random_token();
        let groups = User::service_account_groups(namespace);
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        self.add_user(&token, &format!("system:serviceaccount:{namespace}:{name}"), &groups);
        token
    }

    /// Removes a user with all its tokens. The server rejects later requests with these tokens with 401.
    /// Returns false if the user does not exist.
    pub fn remove_user(&self, name: &str) -> bool {
        self.lists.write().users.remove(name)
    }

    /// Sets whether the server accepts requests without a token, as the user `system:anonymous`.
    /// Otherwise, the server rejects them with 401. Default: `true`.
    pub fn allow_anonymous(&self, on: bool) {
        self.lists.write().anonymous = on;
    }

    /// Sets whether the server rejects requests that no rule allows. Otherwise, it permits them, and records
    /// them as [`Usage::denied`]. A test can thus find all missing rights of a program. Access reviews still
    /// return the rights of the rules. Default: `true`.
    pub fn enforce(&self, on: bool) {
        self.lists.write().is_enforced = on;
    }

    /// Adds a rule. The rule applies to later requests.
    pub fn add_rule(&self, rule: Rule) -> RuleId {
        let mut lists = self.lists.write();
        lists.last += 1;
        let id = RuleId(lists.last);
        lists.rules.push((id, rule));
        id
    }

    /// Removes a rule. Returns false if the rule was already removed.
    pub fn remove_rule(&self, id: RuleId) -> bool {
        let mut lists = self.lists.write();
        let before = lists.rules.len();
        lists.rules.retain(|(own, _)| *own != id);
        lists.rules.len() < before
    }

    /// Removes all rules that were added.
    pub fn clear_rules(&self) {
        self.lists.write().rules.clear();
    }

    /// Returns the token of a user with all rights, for clients on TCP. Creates a random token if the
    /// server has no users.
    pub(crate) fn admin_token(&self) -> Option<String> {
        let mut lists = self.lists.write();
        let known = lists.users.admin_token().map(str::to_owned);
        known.or_else(|| {
            (lists.open && self.requires_token).then(|| {
                let token = random_token();
                lists.users.add(&token, "admin", &[MASTERS]);
                token
            })
        })
    }

    /// Returns the user of a token. Requests in the same process to a server without users belong to an
    /// administrator.
    ///
    /// # Errors
    /// Returns 401 for an unknown token, and for a missing token that the server requires.
    pub(crate) fn authenticate(&self, token: Option<&str>, on_tcp: bool) -> Result<User, Status> {
        let lists = self.lists.read();
        if !lists.open {
            return lists.users.authenticate(token, lists.anonymous);
        }
        if on_tcp && self.requires_token {
            return lists
                .users
                .authenticate(token, false)
                .map_err(|_| Status::new(401, "Unauthorized", TOKEN_REQUIRED));
        }
        Ok(User::new("admin", &[MASTERS, AUTHENTICATED]))
    }

    /// Returns the user as which the request of `requestor` runs. The headers can contain another user.
    ///
    /// # Errors
    /// Returns 400 for incomplete headers, and 403 if the requestor may not impersonate the user.
    pub(crate) fn impersonate(&self, requestor: User, headers: &HeaderMap) -> Result<User, Status> {
        let Some(wanted) = impersonation::wanted(headers)? else { return Ok(requestor) };
        impersonation::rights(&wanted).iter().try_for_each(|right| self.authorize(&requestor, right))?;
        Ok(impersonation::acting(wanted))
    }

    /// Returns 403 if the user does not have the right. Records the used or the missing right.
    pub(crate) fn authorize(&self, user: &User, request: &Attributes) -> Result<(), Status> {
        if self.uses(user, request) {
            return Ok(());
        }
        if self.decide(user, request) == Decision::NoOpinion {
            self.log.lock().add(&user.name, Record::Denied(request.clone()));
            if !self.lists.read().is_enforced {
                return Ok(());
            }
        }
        Err(request.forbidden(&user.name))
    }

    /// Returns whether the user has the right. If so, records the parts of roles that grant it.
    pub(crate) fn uses(&self, user: &User, right: &Attributes) -> bool {
        if !matches!(self.decide(user, right), Decision::Allowed(_)) {
            return false;
        }
        let lists = self.lists.read();
        let granting = lists.policy().granted.iter().filter(|rule| rule.names_user(&user.name));
        for part in granting.filter(|rule| rule.matches(right)).flat_map(|rule| rule.used_by(right)) {
            self.log.lock().add(&user.name, Record::Used(part));
        }
        true
    }

    /// Compares the roles of a user with its requests since the start of the server.
    ///
    /// The user name of a service account is `system:serviceaccount:NAMESPACE:NAME`. The result contains
    /// the roles that are bound to the user itself, not the roles of its groups. It contains no requests
    /// that a deny rule rejected, and no requests of users in `system:masters`. Access reviews do not use
    /// the reviewed rights.
    ///
    /// This requires [`ServerBuilder::rbac`](crate::ServerBuilder::rbac). The result contains the roles
    /// at the most recent request or call of [`Server::access`](crate::Server::access).
    pub fn usage(&self, user: &str) -> Usage {
        let lists = self.lists.read();
        let granted = lists.policy().granted.iter().filter(|rule| rule.names_user(user));
        self.log.lock().usage(user, granted.flat_map(Rule::rights).collect())
    }

    pub(crate) fn decide(&self, user: &User, request: &Attributes) -> Decision {
        let lists = self.lists.read();
        let matches =
            |effect, rule: &&Rule| rule.effect == effect && rule.applies_to(user) && rule.matches(request);
        if lists.added().any(|rule| matches(Effect::Deny, &rule)) {
            return Decision::Denied;
        }
        if user.is_in(MASTERS) || lists.open && !self.uses_rbac() {
            return Decision::Allowed(String::new());
        }
        match lists.all().find(|rule| matches(Effect::Allow, rule)) {
            Some(rule) => Decision::Allowed(rule.reason.clone()),
            None => Decision::NoOpinion,
        }
    }

    /// Returns the rules of a role that a binding in this namespace refers to.
    pub(crate) fn referenced_rules(&self, reference: &Value, namespace: &str) -> Option<Vec<Rule>> {
        self.lists.read().policy().referenced(reference, namespace)
    }

    pub(crate) fn permitted(&self, user: &User, namespace: &str) -> PermittedRules {
        let lists = self.lists.read();
        let applies = |rule: &&Rule| rule.applies_to(user) && rule.is_in(namespace);
        let (rules, denying): (Vec<Rule>, Vec<Rule>) =
            lists.all().filter(applies).cloned().partition(|rule| rule.effect == Effect::Allow);
        PermittedRules { rules, restricted: !denying.is_empty() }
    }
}

impl AccessLists {
    fn policy(&self) -> &Policy {
        self.stored_policy.as_ref().unwrap_or(&BOOTSTRAP)
    }

    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.policy().granted.iter().chain(self.added())
    }

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
        let access = Access::new(Users::default(), false, false);
        assert!(may(&access, "admin", "/a"));
        let rule = access.add_rule(Rule::deny().paths(&["/a"]));
        assert!(!may(&access, "admin", "/a") && may(&access, "admin", "/b"));
        assert!(access.remove_rule(rule) && !access.remove_rule(rule));
        assert!(may(&access, "admin", "/a"));
    }

    #[test]
    fn deny_rules_take_precedence_in_any_order() {
        let access = Access::new(Users::default(), false, false);
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
        let access = Access::new(Users::default(), false, false);
        access.add_user("t", "ann", &["devs"]);
        access.add_user("u", "bob", &[]);
        let groups = access.authenticate(Some("t"), true).unwrap().groups;
        assert_eq!(groups, ["devs", "system:authenticated"]);
        assert!(access.remove_user("ann"));
        assert_eq!(access.authenticate(Some("t"), true).unwrap_err().code(), 401);
        assert_eq!(access.authenticate(None, true).unwrap().name, "system:anonymous");
        access.allow_anonymous(false);
        assert_eq!(access.authenticate(None, true).unwrap_err().code(), 401);
    }
}

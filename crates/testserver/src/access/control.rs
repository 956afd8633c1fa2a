//! `Access`: the users and rules of a server, which may change while it runs.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;

use crate::access::attributes::Attributes;
use crate::access::rule::{Effect, Rule, basic};
use crate::access::users::{AUTHENTICATED, MASTERS, User, Users};
use crate::status::Status;

/// Who may do what, now. What changes holds for the next request; requests and watches that were let in go on.
///
/// As long as no user was added, everybody may do everything that no rule denies. As soon as there is one, a request
/// needs the bearer token of a user: an unknown one is refused with 401. Without a token it is made by
/// `system:anonymous`. A user may do what a rule allows and none denies; anything else is refused with 403. What
/// members of `system:masters` may do (everything), and everybody (ask for health, version, what is served, its own
/// rights), needs no rule, but can be denied.
///
/// Cloning gives another handle to the same users and rules.
#[derive(Clone, Debug)]
pub struct Access(Arc<RwLock<Lists>>);

#[derive(Debug)]
struct Lists {
    users: Users,
    /// No user was ever added: everybody may do everything.
    open: bool,
    anonymous: bool,
    last: u64,
    basic: Vec<Rule>,
    rules: Vec<(RuleId, Rule)>,
}

/// A rule that was added, to remove it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// What the rules say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// With the reason, which may be empty.
    Allowed(String),
    Denied,
    /// No rule is about it, which is not enough.
    NoOpinion,
}

/// What a user may do in a namespace, as far as rules can say it one by one.
pub(crate) struct Permitted {
    pub rules: Vec<Rule>,
    /// Whether rules deny some of it.
    pub restricted: bool,
}

impl Access {
    pub(crate) fn new(users: Users) -> Self {
        let open = users.is_empty();
        let lists = Lists { users, open, anonymous: true, last: 0, basic: basic(), rules: Vec::new() };
        Self(Arc::new(RwLock::new(lists)))
    }

    /// Adds a user, known by a bearer token, with its groups besides `system:authenticated`. A user may have several
    /// tokens; a token is that of the user it was last given to.
    pub fn add_user(&self, token: &str, name: &str, groups: &[&str]) {
        let mut lists = self.0.write();
        lists.open = false;
        lists.users.add(token, name, groups);
    }

    /// Forgets a user's tokens: its next request is refused with 401. False if there was no such user.
    pub fn remove_user(&self, name: &str) -> bool {
        self.0.write().users.remove(name)
    }

    /// Whether requests without a token are made by `system:anonymous`, or refused with 401. Default: `true`.
    pub fn allow_anonymous(&self, on: bool) {
        self.0.write().anonymous = on;
    }

    /// Adds a rule, which holds from the next request on.
    pub fn add_rule(&self, rule: Rule) -> RuleId {
        let mut lists = self.0.write();
        lists.last += 1;
        let id = RuleId(lists.last);
        lists.rules.push((id, rule));
        id
    }

    /// Takes a rule away. False if it was gone already.
    pub fn remove_rule(&self, id: RuleId) -> bool {
        let mut lists = self.0.write();
        let before = lists.rules.len();
        lists.rules.retain(|(own, _)| *own != id);
        lists.rules.len() < before
    }

    /// Takes all rules away that were added.
    pub fn clear_rules(&self) {
        self.0.write().rules.clear();
    }

    /// The token of a user who may do everything, if there are users.
    pub(crate) fn admin_token(&self) -> Option<String> {
        self.0.read().users.admin_token().map(str::to_owned)
    }

    /// Who sends these headers: where there are no users, an administrator.
    ///
    /// # Errors
    /// 401 for a token that nobody has.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<User, Status> {
        let lists = self.0.read();
        if lists.open {
            return Ok(User::new("admin", &[MASTERS, AUTHENTICATED]));
        }
        lists.users.authenticate(headers, lists.anonymous)
    }

    /// 403 for what the user may not do.
    pub(crate) fn authorize(&self, user: &User, asked: &Attributes) -> Result<(), Status> {
        match self.decide(user, asked) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied | Decision::NoOpinion => Err(asked.forbidden(&user.name)),
        }
    }

    pub(crate) fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        let lists = self.0.read();
        let matches =
            |effect, rule: &&Rule| rule.effect == effect && rule.is_about(user) && rule.matches(asked);
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

    /// What the user may do in a namespace.
    pub(crate) fn permitted(&self, user: &User, namespace: &str) -> Permitted {
        let lists = self.0.read();
        let about = |rule: &&Rule| rule.is_about(user) && rule.is_in(namespace);
        let all = lists.basic.iter().chain(lists.added()).filter(about);
        let (rules, denying): (Vec<Rule>, Vec<Rule>) =
            all.cloned().partition(|rule| rule.effect == Effect::Allow);
        Permitted { rules, restricted: !denying.is_empty() }
    }
}

impl Lists {
    fn added(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|(_, rule)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(access: &Access, user: &str, path: &str) -> bool {
        let asked = Attributes::Path { verb: "get".into(), path: path.into() };
        access.authorize(&User::new(user, &[]), &asked).is_ok()
    }

    #[test]
    fn without_users_everybody_may_do_what_no_rule_denies() {
        let access = Access::new(Users::default());
        assert!(may(&access, "admin", "/a"));
        let rule = access.add_rule(Rule::deny().paths(&["/a"]));
        assert!(!may(&access, "admin", "/a") && may(&access, "admin", "/b"));
        assert!(access.remove_rule(rule) && !access.remove_rule(rule));
        assert!(may(&access, "admin", "/a"));
    }

    #[test]
    fn a_rule_that_denies_wins_whatever_the_order() {
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
    fn a_removed_user_is_unknown_from_the_next_request_on() {
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

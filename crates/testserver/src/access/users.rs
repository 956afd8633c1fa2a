//! Users and their bearer tokens.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, header};

use crate::status::Status;

/// Selects the initial rights of a user. Rules can add and deny rights (see [`Access`](crate::Access)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// All rights, as a member of the group `system:masters`.
    All,
    /// Only the rights that every user has: to read version, health and discovery, and to review its own
    /// rights.
    None,
}

pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
        vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Returns the namespace and name of a service account from its user name.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[derive(Clone, Default)]
pub(crate) struct Users(BTreeMap<String, User>);

/// Does not print tokens, because they are secrets.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values()).finish()
    }
}

impl Users {
    /// Adds a user with these groups and the group `system:authenticated`. Panics if the token is empty.
    pub(crate) fn add(&mut self, token: &str, name: &str, groups: &[&str]) {
        assert!(!token.is_empty(), "the token of the user {name} must not be empty");
        let mut groups = groups.to_vec();
        groups.push(AUTHENTICATED);
        self.0.insert(token.into(), User::new(name, &groups));
    }

    /// Removes all tokens of a user. Returns whether the user had any.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|_, user| user.name != name);
        self.0.len() < before
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the token of a user with all rights, if such a user exists.
    pub(crate) fn admin_token(&self) -> Option<&str> {
        self.0.iter().find(|(_, user)| user.is_in(MASTERS)).map(|(token, _)| token.as_str())
    }

    /// Returns the user of a token. A request without a token belongs to the anonymous user, if
    /// `anonymous` is true.
    pub(crate) fn authenticate(&self, token: Option<&str>, anonymous: bool) -> Result<User, Status> {
        match token {
            Some(token) => self.0.get(token).cloned().ok_or_else(Status::unauthorized),
            None if anonymous => Ok(User::new(ANONYMOUS, &[UNAUTHENTICATED])),
            None => Err(Status::unauthorized()),
        }
    }
}

/// Creates a token from the random numbers of the operating system.
pub(crate) fn random_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let credentials = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = credentials.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_name(users: &Users, credentials: Option<&str>, anonymous: bool) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if let Some(credentials) = credentials {
            headers.insert(header::AUTHORIZATION, credentials.parse().unwrap());
        }
        let user = users.authenticate(token(&headers), anonymous);
        user.map(|user| user.name).map_err(|status| status.code())
    }

    #[test]
    fn token_identifies_the_user() {
        let mut users = Users::default();
        users.add("n", "guest", &[]);
        users.add("a", "admin", &[MASTERS]);
        assert_eq!(user_name(&users, Some("Bearer a"), true), Ok("admin".into()));
        assert_eq!(user_name(&users, Some("bearer  n "), true), Ok("guest".into()));
        assert_eq!(user_name(&users, Some("Bearer x"), true), Err(401));
        for without_token in [None, Some("Bearer "), Some("Basic YTpi")] {
            assert_eq!(user_name(&users, without_token, true), Ok("system:anonymous".into()));
            assert_eq!(user_name(&users, without_token, false), Err(401));
        }
        assert_eq!(users.admin_token(), Some("a"));
        assert!(!format!("{users:?}").contains("\"a\""));
        assert!(users.remove("admin") && !users.remove("admin"));
        assert_eq!(user_name(&users, Some("Bearer a"), true), Err(401));
    }
}

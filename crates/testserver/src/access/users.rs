//! Who asks: users, known by their bearer tokens.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, header};

use crate::access::attributes::ResourceAttributes;
use crate::journal::RequestInfo;
use crate::status::Status;

/// What a user may do from the start; rules can give and take more (see [`Access`](crate::Access)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything, as a member of the group `system:masters`.
    All,
    /// Only what every user may: ask for the version, for health, for what is served and for its own rights.
    None,
}

/// The group of those who may do everything.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Someone who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    pub(crate) fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self { name: name.into(), groups }
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// Users by their tokens.
#[derive(Clone, Default)]
pub(crate) struct Users(BTreeMap<String, User>);

/// Names only: a token is a secret, even one of a test.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values()).finish()
    }
}

impl Users {
    /// Adds a user with its own groups, and that of all who are known.
    pub(crate) fn add(&mut self, token: &str, name: &str, groups: &[&str]) {
        let mut groups = groups.to_vec();
        groups.push(AUTHENTICATED);
        self.0.insert(token.into(), User::new(name, &groups));
    }

    /// Forgets all tokens of a user; whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|_, user| user.name != name);
        self.0.len() < before
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token of a user who may do everything.
    pub(crate) fn admin_token(&self) -> Option<&str> {
        self.0.iter().find(|(_, user)| user.is_in(MASTERS)).map(|(token, _)| token.as_str())
    }

    /// Who sends these headers. Without a token that is nobody in particular, if `anonymous` users are let in.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, anonymous: bool) -> Result<User, Status> {
        match token(headers) {
            Some(token) => self.0.get(token).cloned().ok_or_else(Status::unauthorized),
            None if anonymous => Ok(User::new("system:anonymous", &[UNAUTHENTICATED])),
            None => Err(Status::unauthorized()),
        }
    }
}

/// The bearer token, if there is one.
fn token(headers: &HeaderMap) -> Option<&str> {
    let credentials = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = credentials.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// What a user without the right to a resource is told.
pub(crate) fn forbidden(info: &RequestInfo, user: &str) -> Status {
    ResourceAttributes::from(info).forbidden(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(users: &Users, credentials: Option<&str>, anonymous: bool) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if let Some(credentials) = credentials {
            headers.insert(header::AUTHORIZATION, credentials.parse().unwrap());
        }
        let user = users.authenticate(&headers, anonymous);
        user.map(|user| user.name).map_err(|status| status.code())
    }

    #[test]
    fn a_token_says_who_asks() {
        let mut users = Users::default();
        users.add("n", "nobody", &[]);
        users.add("a", "admin", &[MASTERS]);
        assert_eq!(who(&users, Some("Bearer a"), true), Ok("admin".into()));
        assert_eq!(who(&users, Some("bearer  n "), true), Ok("nobody".into()));
        assert_eq!(who(&users, Some("Bearer x"), true), Err(401));
        for nothing in [None, Some("Bearer "), Some("Basic YTpi")] {
            assert_eq!(who(&users, nothing, true), Ok("system:anonymous".into()));
            assert_eq!(who(&users, nothing, false), Err(401));
        }
        assert_eq!(users.admin_token(), Some("a"));
        assert!(!format!("{users:?}").contains("\"a\""));
        assert!(users.remove("admin") && !users.remove("admin"));
        assert_eq!(who(&users, Some("Bearer a"), true), Err(401));
    }
}

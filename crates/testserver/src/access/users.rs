//! Who asks: users known by their bearer tokens. Where none is set up, everyone may do everything.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, Method, header};

use crate::http::route::Route;
use crate::journal::About;
use crate::status::{Named, Status};

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    All,
    /// Only what every user may: ask for the version, for health and for what is served.
    None,
}

#[derive(Clone, Debug)]
struct User {
    name: String,
    rights: Rights,
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
    pub(crate) fn add(&mut self, token: &str, name: &str, rights: Rights) {
        self.0.insert(token.into(), User { name: name.into(), rights });
    }

    /// The token of a user who may do everything.
    pub(crate) fn admin_token(&self) -> Option<&str> {
        self.0.iter().find(|(_, user)| user.rights == Rights::All).map(|(token, _)| token.as_str())
    }

    /// 401 for a token that nobody has, 403 for what its user may not do.
    pub(crate) fn check(&self, headers: &HeaderMap, asked: Asked<'_>) -> Result<(), Status> {
        if self.0.is_empty() {
            return Ok(());
        }
        let credentials = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = credentials.and_then(|text| text.strip_prefix("Bearer ")).map(str::trim);
        let user = token.and_then(|token| self.0.get(token)).ok_or_else(Status::unauthorized)?;
        match (user.rights, asked.route) {
            (Rights::None, Route::Resource(_) | Route::Unknown) => Err(asked.forbidden(&user.name)),
            _ => Ok(()),
        }
    }
}

/// What a request asks for, as far as rights depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub about: &'a About,
    pub route: &'a Route,
    pub method: &'a Method,
    pub path: &'a str,
}

impl Asked<'_> {
    fn forbidden(self, user: &str) -> Status {
        match self.route {
            Route::Unknown => Status::forbidden_path(user, &self.method.as_str().to_lowercase(), self.path),
            _ => forbidden(self.about, user),
        }
    }
}

/// What a user without the right to a resource is told.
pub(crate) fn forbidden(about: &About, user: &str) -> Status {
    let (resource, group, verb) = (&about.resource, &about.group, about.verb.name());
    let part = about.subresource.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
    let place = match &about.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".into(),
    };
    let why = format!(
        "User \"{user}\" cannot {verb} resource \"{resource}{part}\" in API group \"{group}\" {place}"
    );
    Status::forbidden(Named { group, resource }, about.name.as_deref().unwrap_or(""), &why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Verb;

    fn check(users: &Users, token: Option<&str>, path: &str) -> Result<(), Status> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        let route = crate::http::route::route(path);
        let about = About {
            verb: Verb::Get,
            resource: "deployments".into(),
            group: "apps".into(),
            namespace: Some("shop".into()),
            name: Some("web".into()),
            subresource: Some("status".into()),
        };
        users.check(&headers, Asked { about: &about, route: &route, method: &Method::GET, path })
    }

    const OBJECT: &str = "/apis/apps/v1/namespaces/shop/deployments/web/status";

    #[test]
    fn without_users_everyone_may_do_everything() {
        let users = Users::default();
        assert!(check(&users, None, OBJECT).is_ok());
        assert!(check(&users, Some("any"), OBJECT).is_ok());
    }

    #[test]
    fn with_users_a_token_decides() {
        let mut users = Users::default();
        users.add("a", "admin", Rights::All);
        users.add("n", "nobody", Rights::None);
        assert!(check(&users, Some("a"), OBJECT).is_ok());
        for token in [None, Some("x")] {
            assert_eq!(check(&users, token, "/version").map_err(|status| status.code()), Err(401));
        }
        assert!(check(&users, Some("n"), "/version").is_ok());
        let status = check(&users, Some("n"), OBJECT).unwrap_err();
        assert_eq!(
            status.message(),
            "deployments.apps \"web\" is forbidden: User \"nobody\" cannot get resource \"deployments/status\" in API \
             group \"apps\" in the namespace \"shop\""
        );
        let status = check(&users, Some("n"), "/nothing").unwrap_err();
        assert_eq!(status.message(), "forbidden: User \"nobody\" cannot get path \"/nothing\"");
        assert_eq!(users.admin_token(), Some("a"));
        assert!(!format!("{users:?}").contains("\"a\""));
    }
}

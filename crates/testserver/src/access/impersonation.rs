//! Impersonation: a request with `Impersonate-*` headers runs as another user.
//!
//! kube-apiserver 1.36 first tries the constrained mode of the wanted user, for example `user-info`. It
//! requires `impersonate-on:user-info:VERB` for the request, and `impersonate:user-info` for each part of the
//! user. The second mode requires only the verb `impersonate` for each part.

use http::HeaderMap;

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::users::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User, service_account};
use crate::status::Status;
use crate::wire::escape;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The result of permitted impersonation.
pub(crate) struct Impersonated {
    pub user: User,
    /// The rights that the requestor used.
    pub used: Vec<Attributes>,
}

/// Returns the user that the headers contain, without any default groups. Returns `None` if the headers
/// contain no user.
///
/// # Errors
/// Returns 400 if the headers contain a group, a uid or an extra value, but no user.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let mut user = User::default();
    for (name, value) in headers {
        let Some(part) = name.as_str().strip_prefix("impersonate-") else { continue };
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        match part {
            "user" if user.name.is_empty() => user.name = value,
            "uid" if user.uid.is_empty() => user.uid = value,
            "group" => user.groups.push(value),
            _ => {
                let Some(key) = part.strip_prefix("extra-") else { continue };
                let key = escape::decode(key).unwrap_or_else(|| key.to_owned());
                user.extra.entry(key).or_default().push(value);
            }
        }
    }
    match user.name.as_str() {
        "" if user == User::default() => Ok(None),
        "" => Err(Status::bad_request("requested impersonation without a user name")),
        _ => Ok(Some(user)),
    }
}

/// Checks whether the requestor may run `request` as `wanted`. `may` decides about its rights.
///
/// # Errors
/// Returns the first right that is missing.
pub(crate) fn check(
    wanted: &User,
    request: &Attributes,
    may: impl Fn(&Attributes) -> bool,
) -> Result<Impersonated, Box<Attributes>> {
    let mut missing = None;
    let constrained = Mode::constrained(wanted);
    for mode in constrained.into_iter().chain([Mode::Unconstrained]) {
        let used = mode.rights(wanted, request);
        match used.iter().find(|right| !may(right) || mode.forbids(right)) {
            None => return Ok(Impersonated { user: mode.acting(wanted), used }),
            Some(right) => missing = missing.or_else(|| Some(right.clone())),
        }
    }
    Err(Box::new(missing.unwrap_or_else(|| request.clone())))
}

/// The modes of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Node,
    ServiceAccount,
    UserInfo,
    Unconstrained,
}

impl Mode {
    /// Returns the constrained mode for this user. Returns `None` for a node or service account with
    /// more parts than a name.
    fn constrained(wanted: &User) -> Option<Self> {
        let only_name = *wanted == User { name: wanted.name.clone(), ..User::default() };
        match (node(&wanted.name), service_account(&wanted.name)) {
            (Some(_), _) => only_name.then_some(Self::Node),
            (_, Some(_)) => only_name.then_some(Self::ServiceAccount),
            _ => Some(Self::UserInfo),
        }
    }

    /// Returns the rights that the requestor needs.
    fn rights(self, wanted: &User, request: &Attributes) -> Vec<Attributes> {
        let mode = match self {
            Self::Node => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Unconstrained => None,
        };
        let verb = mode.map_or_else(|| "impersonate".to_owned(), |mode| format!("impersonate:{mode}"));
        let names = if mode.is_some() { AUTHENTICATION } else { "" };
        let right = |group: &str, resource: &str, name: &str| ResourceAttributes {
            verb: verb.clone(),
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            ..ResourceAttributes::default()
        };
        let on = mode.map(|mode| request.with_verb(|verb| format!("impersonate-on:{mode}:{verb}")));
        let user = match (node(&wanted.name), service_account(&wanted.name)) {
            (Some(node), _) if self == Self::Node => right(names, "nodes", node),
            (_, Some((namespace, name))) => {
                let account = right(names, "serviceaccounts", name);
                ResourceAttributes { namespace: namespace.into(), ..account }
            }
            _ => right(names, "users", &wanted.name),
        };
        let uid = (!wanted.uid.is_empty()).then(|| right(AUTHENTICATION, "uids", &wanted.uid));
        let groups = wanted.groups.iter().map(|group| right(names, "groups", group));
        let extra =
            wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let extra = extra.map(|(key, value)| {
            let subresource = key.clone();
            ResourceAttributes { subresource, ..right(AUTHENTICATION, "userextras", value) }
        });
        let parts = [user].into_iter().chain(uid).chain(groups).chain(extra).map(Attributes::Resource);
        on.into_iter().chain(parts).collect()
    }

    /// Returns whether this mode forbids a part for every requestor.
    fn forbids(self, right: &Attributes) -> bool {
        let Attributes::Resource(right) = right else { return false };
        let is_reserved = right.resource == "groups" && ["", MASTERS].contains(&right.name.as_str());
        self != Self::Unconstrained && is_reserved && right.verb.starts_with("impersonate:")
    }

    /// Returns the user with the default groups.
    fn acting(self, wanted: &User) -> User {
        let mut user = wanted.clone();
        if self == Self::Node {
            user.groups = vec!["system:nodes".into()];
        } else if let Some((namespace, _)) = service_account(&user.name).filter(|_| user.groups.is_empty()) {
            user.groups = User::service_account_groups(namespace);
        }
        let default = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !user.is_in(default) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(default.into());
        }
        user
    }
}

/// Returns the name of the node that has this user name.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| !name.is_empty())
}

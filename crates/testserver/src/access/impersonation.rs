//! Impersonation: a request with `Impersonate-*` headers runs as another user.

use http::HeaderMap;

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::users::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account};
use crate::status::Status;
use crate::wire::escape;

const AUTHENTICATION: &str = "authentication.k8s.io";

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

/// Returns the rights that the requestor needs: the verb `impersonate` for each part of the user.
pub(crate) fn rights(wanted: &User) -> Vec<Attributes> {
    let right = |group: &str, resource: &str, name: &str| ResourceAttributes {
        verb: "impersonate".into(),
        group: group.into(),
        resource: resource.into(),
        name: name.into(),
        ..ResourceAttributes::default()
    };
    let user = match service_account(&wanted.name) {
        Some((namespace, name)) => {
            ResourceAttributes { namespace: namespace.into(), ..right("", "serviceaccounts", name) }
        }
        None => right("", "users", &wanted.name),
    };
    let uid = (!wanted.uid.is_empty()).then(|| right(AUTHENTICATION, "uids", &wanted.uid));
    let groups = wanted.groups.iter().map(|group| right("", "groups", group));
    let extra = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extra = extra.map(|(key, value)| {
        let subresource = key.clone();
        ResourceAttributes { subresource, ..right(AUTHENTICATION, "userextras", value) }
    });
    [user].into_iter().chain(uid).chain(groups).chain(extra).map(Attributes::Resource).collect()
}

/// Returns the user with the default groups.
pub(crate) fn acting(mut user: User) -> User {
    if let Some((namespace, _)) = service_account(&user.name).filter(|_| user.groups.is_empty()) {
        user.groups = User::service_account_groups(namespace);
    }
    let default = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !user.is_in(default) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(default.into());
    }
    user
}

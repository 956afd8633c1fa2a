//! The attributes of a request for authorization. They depend only on method, path and query, because
//! the real server authorizes a request before it looks up the resource.

use std::fmt;

use http::request::Parts;

use crate::status::{Named, Status};
use crate::wire::escape;
use crate::wire::query::Query;
use crate::wire::selector::FieldSelector;

/// Describes a request for authorization, or a right to such requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attributes {
    /// A request for a resource.
    Resource(ResourceAttributes),
    /// A request for a path outside `/api/VERSION` and `/apis/GROUP/VERSION`.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

/// Describes a request for a resource. An empty text means that the part is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceAttributes {
    /// The verb of RBAC rules, for example `list`.
    pub verb: String,
    /// The API group. Empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, for example `status`.
    pub subresource: String,
    /// The namespace of the request.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Attributes {
    pub(crate) fn of(parts: &Parts, query: &Query) -> Self {
        let path = parts.uri.path();
        let method = parts.method.as_str();
        let decoded = escape::decode(path).unwrap_or_default();
        let segments: Vec<&str> = decoded.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return Self::Path { verb: method.to_lowercase(), path: path.into() },
        };
        let (verb, rest) = match (rest, method) {
            (["watch", rest @ ..], _) if !rest.is_empty() => ("watch", rest),
            (_, "GET" | "HEAD") => ("get", rest),
            (_, "POST") => ("create", rest),
            (_, "PUT") => ("update", rest),
            (_, "PATCH") => ("patch", rest),
            (_, "DELETE") => ("delete", rest),
            _ => ("", rest),
        };
        // A namespace object belongs to its own namespace.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner @ ..] => match inner.first() {
                None | Some(&("status" | "finalize")) => (*namespace, rest),
                Some(_) => (*namespace, inner),
            },
            _ => ("", rest),
        };
        let segment = |index: usize| rest.get(index).copied().unwrap_or("").to_owned();
        let mut attributes = ResourceAttributes {
            verb: verb.into(),
            group: group.into(),
            resource: segment(0),
            name: segment(1),
            subresource: segment(2),
            namespace: namespace.into(),
        };
        if attributes.name.is_empty() {
            attributes.verb = match verb {
                "get" if query.flag("watch") => "watch".into(),
                "get" => "list".into(),
                "delete" => "deletecollection".into(),
                verb => verb.into(),
            };
            // A list or watch that selects a single name gets this name.
            if matches!(attributes.verb.as_str(), "list" | "watch") {
                let selector = query.get("fieldSelector").unwrap_or("");
                attributes.name = selected_name(selector).unwrap_or_default();
            }
        }
        Self::Resource(attributes)
    }

    /// Returns the right to create the object of this request.
    pub(crate) fn creation(&self) -> Self {
        match self.clone() {
            Self::Resource(attributes) => {
                Self::Resource(ResourceAttributes { verb: "create".into(), ..attributes })
            }
            path @ Self::Path { .. } => path,
        }
    }

    pub(crate) fn forbidden(&self, user: &str) -> Status {
        match self {
            Self::Resource(attributes) => attributes.forbidden(user),
            Self::Path { verb, path } => Status::forbidden_path(user, verb, path),
        }
    }
}

impl ResourceAttributes {
    /// Creates the 403 response for `user`, which lacks the right to the resource.
    pub(crate) fn forbidden(&self, user: &str) -> Status {
        let Self { verb, group, resource, subresource, namespace, name } = self;
        let subresource = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let scope = match namespace.as_str() {
            "" => "at the cluster scope".into(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let cause = format!(
            "User \"{user}\" cannot {verb} resource \"{resource}{subresource}\" in API group \"{group}\" {scope}"
        );
        Status::forbidden(Named { group, resource }, name, &cause)
    }
}

/// Prints attributes like `get deployments.apps/scale "web" in namespace "shop"`.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = match self {
            Self::Path { verb, path } => return write!(f, "{verb} {path}"),
            Self::Resource(request) => request,
        };
        let ResourceAttributes { verb, group, resource, subresource, namespace, name } = request;
        write!(f, "{verb} {}", Named { group, resource })?;
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        let parts =
            [(" ", name), (" in namespace ", namespace)].into_iter().filter(|(_, part)| !part.is_empty());
        parts.into_iter().try_for_each(|(before, part)| write!(f, "{before}{part:?}"))
    }
}

/// Returns the name that a field selector selects, if it is a valid path segment.
fn selected_name(selector: &str) -> Option<String> {
    let place = |field: &str| Ok(usize::from(field != "metadata.name"));
    let name = FieldSelector::parse(selector, place).ok()?.exactly(0)?.to_owned();
    let segment = !name.is_empty() && !matches!(name.as_str(), "." | "..") && !name.contains(['/', '%']);
    segment.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(method: &str, uri: &str) -> String {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        Attributes::of(&parts, &query).forbidden("u").message().to_owned()
    }

    #[test]
    fn rejections_of_paths_equal_the_real_server() {
        for (method, uri, message) in [
            (
                "GET",
                "/api/v1/namespaces/a/pods",
                "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                "pods \"x\" is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                "GET",
                "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Da,spec.nodeName%3Db",
                "pods \"a\" is forbidden: User \"u\" cannot watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                "GET",
                "/apis/apps/v1/namespaces/a/deployments/x/scale",
                "deployments.apps \"x\" is forbidden: User \"u\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/namespaces/a",
                "namespaces \"a\" is forbidden: User \"u\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "namespaces \"a\" is forbidden: User \"u\" cannot update resource \"namespaces/finalize\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/x/a/b",
                "pods \"x\" is forbidden: User \"u\" cannot get resource \"pods/a\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods//",
                "pods is forbidden: User \"u\" cannot list resource \"pods\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/watch/pods",
                "pods is forbidden: User \"u\" cannot watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                "OPTIONS",
                "/api/v1/namespaces/a/pods",
                "pods is forbidden: User \"u\" cannot  resource \"pods\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                "pods is forbidden: User \"u\" cannot deletecollection resource \"pods\" in API group \"\" in the namespace \"a\"",
            ),
            ("POST", "/nothing", "forbidden: User \"u\" cannot post path \"/nothing\""),
            ("GET", "/readyz/ping", "forbidden: User \"u\" cannot get path \"/readyz/ping\""),
            ("GET", "/apis/apps/v1", "forbidden: User \"u\" cannot get path \"/apis/apps/v1\""),
        ] {
            assert_eq!(rejection(method, uri), message);
        }
    }

    #[test]
    fn only_a_selector_for_one_name_sets_the_name() {
        for (selector, name) in [
            ("metadata.name=x", Some("x")),
            ("spec.nodeName=n,metadata.name==x", Some("x")),
            ("metadata.name!=x", None),
            ("metadata.name=", None),
            ("metadata.name=a/b", None),
            ("spec.nodeName=x", None),
            ("no selector", None),
        ] {
            assert_eq!(selected_name(selector).as_deref(), name, "{selector}");
        }
    }
}

//! Parses the path of a request. This module does not check whether the resource exists.

use crate::wire::escape;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`
    Root,
    /// `/healthz`, `/readyz`, `/livez` and all paths below them.
    Health,
    Version,
    /// `/openapi` and all paths below it.
    OpenApi,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
    Unknown,
    /// A path with invalid escapes. The HTTP library of the real server rejects it.
    Malformed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: Option<String>,
    /// True for a path with `namespaces//`, in which the name of the namespace is empty.
    pub unnamed_namespace: bool,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// True for the deprecated form of a watch, with `/watch/` in the path.
    pub watch: bool,
}

/// Parses a path. The path is decoded before it is split, so `%2F` is a slash.
pub(crate) fn route(path: &str) -> Route {
    let Some(path) = escape::decode(path) else { return Route::Malformed };
    let segments: Vec<&str> =
        path.strip_prefix('/').unwrap_or(&path).trim_end_matches('/').split('/').collect();
    match segments.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Route::Health,
        [""] if path != "//" => Route::Root,
        ["index.html"] => Route::Root,
        ["version"] => Route::Version,
        ["openapi", ..] => Route::OpenApi,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["api", "", ..] | ["apis", "", ..] => Route::Unknown,
        ["apis", group] => Route::Group((*group).into()),
        ["api", version] => Route::Resources { group: String::new(), version: (*version).into() },
        ["apis", group, version] => Route::Resources { group: (*group).into(), version: (*version).into() },
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Route::Unknown,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    // `namespaces/NS/finalize` and `namespaces/NS/status` are subresources. Other paths are inside the
    // namespace.
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
        _ => (None, rest),
    };
    let unnamed_namespace = namespace == Some("");
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
        _ => return Route::Unknown,
    };
    if [resource, name.unwrap_or("x")].contains(&"") {
        return Route::Unknown;
    }
    Route::Resource(ResourcePath {
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        namespace: namespace.filter(|namespace| !namespace.is_empty()).map(Into::into),
        unnamed_namespace,
        name: name.map(Into::into),
        subresource: subresource.map(Into::into),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ResourcePath {
        match route(text) {
            Route::Resource(path) => path,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn paths_contain_collection_object_and_subresource() {
        let pods = path("/api/v1/namespaces/shop/pods/web-0/status");
        assert_eq!((pods.group.as_str(), pods.version.as_str()), ("", "v1"));
        assert_eq!(pods.namespace.as_deref(), Some("shop"));
        assert_eq!(pods.name.as_deref(), Some("web-0"));
        assert_eq!(pods.subresource.as_deref(), Some("status"));
        assert_eq!(path("/apis/apps/v1/deployments").resource, "deployments");
        assert!(path("/api/v1/watch/namespaces/shop/pods").watch);
    }

    #[test]
    fn namespace_is_an_object_and_a_scope() {
        let itself = path("/api/v1/namespaces/shop");
        assert_eq!((itself.resource.as_str(), itself.name.as_deref()), ("namespaces", Some("shop")));
        assert_eq!(itself.namespace, None);
        let part = path("/api/v1/namespaces/shop/finalize");
        assert_eq!((part.name.as_deref(), part.subresource.as_deref()), (Some("shop"), Some("finalize")));
        assert_eq!(path("/api/v1/namespaces/shop/pods").name, None);
    }

    #[test]
    fn escaped_slash_separates_and_trailing_slashes_are_ignored() {
        let pods = path("/api/v1/namespaces/shop/pods");
        for same in ["pods/", "pods//", "pods/%2F", "%70ods"] {
            assert_eq!(path(&format!("/api/v1/namespaces/shop/{same}")), pods, "{same}");
        }
        assert_eq!(path("/api%2Fv1/namespaces/shop/pods"), pods);
        assert_eq!(path("/api/v1/pods/a%2Fb").subresource.as_deref(), Some("b"));
    }

    #[test]
    fn empty_namespace_segment_is_marked_as_unnamed() {
        let pods = path("/api/v1/namespaces//pods");
        assert!(pods.unnamed_namespace && pods.namespace.is_none() && pods.resource == "pods");
        assert!(!path("/api/v1/pods").unnamed_namespace);
    }

    #[test]
    fn other_paths_are_known_or_unknown_and_never_panic() {
        assert_eq!(route("/readyz/ping"), Route::Health);
        assert_eq!(route("/apis"), Route::Groups);
        assert_eq!(route("/apis/apps/v1/"), Route::Resources { group: "apps".into(), version: "v1".into() });
        for invalid in ["", "/", "//", "//api/v1/pods", "/api/v1//x", "/apis//v1/pods", "/apis/a/b/c/d/e/f/g"]
        {
            assert!(!matches!(route(invalid), Route::Resource(_)), "{invalid}");
        }
        assert_eq!(route("/api/v1/pods/%zz%41%e2%82"), Route::Malformed);
        assert_eq!(path("/apis/g/v1/things/system%3Anode").name.as_deref(), Some("system:node"));
    }
}

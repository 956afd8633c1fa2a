//! From a path to what it names. Pure: whether the resource exists is not decided here.

use crate::http::escape;

/// What a request's path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`
    Root,
    /// `/healthz`, `/readyz`, `/livez` and what is below them.
    Health,
    Version,
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
    /// Escapes that are none: the real server's HTTP library refuses them.
    Malformed,
}

/// The parts of a resource's path, percent-decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: Option<String>,
    /// The path says `namespaces//`: in a namespace without a name.
    pub unnamed_namespace: bool,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The deprecated `/watch/` form of a path.
    pub watch: bool,
}

/// Reads a path. Escapes are read before it is cut into steps, so that `%2F` is a slash.
pub(crate) fn route(path: &str) -> Route {
    let Some(path) = escape::decode(path) else { return Route::Malformed };
    let steps: Vec<&str> = path.strip_prefix('/').unwrap_or(&path).trim_end_matches('/').split('/').collect();
    match steps.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Route::Health,
        [""] if path != "//" => Route::Root,
        ["index.html"] => Route::Root,
        ["version"] => Route::Version,
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
    // `namespaces/NS/finalize` and `namespaces/NS/status` are parts of the namespace, anything else is inside it.
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
    fn paths_name_collections_objects_and_their_parts() {
        let pods = path("/api/v1/namespaces/shop/pods/web-0/status");
        assert_eq!((pods.group.as_str(), pods.version.as_str()), ("", "v1"));
        assert_eq!(pods.namespace.as_deref(), Some("shop"));
        assert_eq!(pods.name.as_deref(), Some("web-0"));
        assert_eq!(pods.subresource.as_deref(), Some("status"));
        assert_eq!(path("/apis/apps/v1/deployments").resource, "deployments");
        assert!(path("/api/v1/watch/namespaces/shop/pods").watch);
    }

    #[test]
    fn a_namespace_is_an_object_and_a_place() {
        let itself = path("/api/v1/namespaces/shop");
        assert_eq!((itself.resource.as_str(), itself.name.as_deref()), ("namespaces", Some("shop")));
        assert_eq!(itself.namespace, None);
        let part = path("/api/v1/namespaces/shop/finalize");
        assert_eq!((part.name.as_deref(), part.subresource.as_deref()), (Some("shop"), Some("finalize")));
        assert_eq!(path("/api/v1/namespaces/shop/pods").name, None);
    }

    #[test]
    fn an_escaped_slash_is_a_slash_and_slashes_at_the_end_say_nothing() {
        let pods = path("/api/v1/namespaces/shop/pods");
        for same in ["pods/", "pods//", "pods/%2F", "%70ods"] {
            assert_eq!(path(&format!("/api/v1/namespaces/shop/{same}")), pods, "{same}");
        }
        assert_eq!(path("/api%2Fv1/namespaces/shop/pods"), pods);
        assert_eq!(path("/api/v1/pods/a%2Fb").subresource.as_deref(), Some("b"));
    }

    #[test]
    fn a_namespace_without_a_name_is_no_namespace() {
        let pods = path("/api/v1/namespaces//pods");
        assert!(pods.unnamed_namespace && pods.namespace.is_none() && pods.resource == "pods");
        assert!(!path("/api/v1/pods").unnamed_namespace);
    }

    #[test]
    fn other_paths_are_known_or_unknown_and_never_panic() {
        assert_eq!(route("/readyz/ping"), Route::Health);
        assert_eq!(route("/apis"), Route::Groups);
        assert_eq!(route("/apis/apps/v1/"), Route::Resources { group: "apps".into(), version: "v1".into() });
        for odd in ["", "/", "//", "//api/v1/pods", "/api/v1//x", "/apis//v1/pods", "/apis/a/b/c/d/e/f/g"] {
            assert!(!matches!(route(odd), Route::Resource(_)), "{odd}");
        }
        assert_eq!(route("/api/v1/pods/%zz%41%e2%82"), Route::Malformed);
        assert_eq!(path("/apis/g/v1/things/system%3Anode").name.as_deref(), Some("system:node"));
    }
}

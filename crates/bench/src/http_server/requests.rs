//! Counts the requests to a server by verb, and their bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, StatusCode, Uri};
use serde::{Deserialize, Serialize};

/// Contains the number of requests by verb, and of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// The number of requests by verb. Requests for Leases have the verb `lease`. Reviews of permissions
    /// have the verb `review`, and requests without a resource have the verb `other`.
    pub verbs: BTreeMap<String, u64>,
    /// The number of failed requests of all verbs.
    pub failed: u64,
    /// The number of bytes in both directions: headers, bodies and watch events.
    pub bytes: u64,
}

impl RequestCounts {
    /// Returns the number of requests with a verb.
    pub fn of(&self, verb: &str) -> u64 {
        self.verbs.get(verb).copied().unwrap_or_default()
    }

    /// Returns the requests since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let verbs = self.verbs.iter().map(|(verb, count)| (verb.clone(), count - before.of(verb)));
        Self { verbs: verbs.collect(), failed: self.failed - before.failed, bytes: self.bytes - before.bytes }
    }
}

/// Counts requests.
#[derive(Clone, Default)]
pub(crate) struct RequestCounter(Arc<Mutex<RequestCounts>>);

impl RequestCounter {
    /// Counts bytes that a client sent or received.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.lock().bytes += bytes as u64;
    }

    /// Counts a request and its response.
    pub(super) fn record(&self, method: &Method, uri: &Uri, status: StatusCode) {
        let mut counts = self.lock();
        *counts.verbs.entry(verb(method, uri).to_owned()).or_default() += 1;
        counts.failed += u64::from(!status.is_success());
    }

    /// Returns the requests so far.
    pub(crate) fn total(&self) -> RequestCounts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, RequestCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the query of a URI selects a watch.
fn is_watch_query(query: &str) -> bool {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    parameters.any(|(key, value)| key == "watch" && matches!(&*value, "true" | "1"))
}

/// Returns the verb of a request, as in RBAC rules.
fn verb(method: &Method, uri: &Uri) -> &'static str {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let rest = match segments.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return "other",
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    match (method.as_str(), rest) {
        (_, []) => "other",
        (_, ["leases", ..]) => "lease",
        ("POST", [resource]) if resource.ends_with("reviews") => "review",
        ("GET", [_]) if uri.query().is_some_and(is_watch_query) => "watch",
        ("GET", [_]) => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_those_of_rbac_rules() {
        let cases = [
            (Method::GET, "/api/v1/configmaps?watch=true", "watch"),
            (Method::GET, "/apis/apps/v1/namespaces/a/deployments?watch=1", "watch"),
            (Method::GET, "/apis/example.com/v1/websites?limit=500", "list"),
            (Method::GET, "/api/v1/namespaces", "list"),
            (Method::GET, "/api/v1/namespaces/a", "get"),
            (Method::GET, "/api/v1/namespaces/a/secrets/b", "get"),
            (Method::POST, "/api/v1/namespaces/a/secrets", "create"),
            (Method::PUT, "/apis/example.com/v1/namespaces/a/websites/b", "update"),
            (Method::PATCH, "/apis/example.com/v1/namespaces/a/websites/b/status", "patch"),
            (Method::DELETE, "/api/v1/namespaces/a/secrets/b", "delete"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "lease"),
            (Method::GET, "/apis/example.com/v1", "other"),
            (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "review"),
            (Method::GET, "/version", "other"),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(verb(&method, &Uri::from_static(uri)), expected, "{method} {uri}");
        }
    }

    #[test]
    fn requests_since_a_time_are_counted() {
        let counter = RequestCounter::default();
        let get = || {
            let uri = Uri::from_static("/api/v1/namespaces/a/secrets/b");
            counter.record(&Method::GET, &uri, StatusCode::NOT_FOUND);
        };
        get();
        let before = counter.total();
        get();
        get();
        let since = counter.total().since(&before);
        assert_eq!((since.of("get"), since.of("list"), since.failed), (2, 0, 2));
    }
}

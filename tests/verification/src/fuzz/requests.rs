//! Generates requests that are almost valid.

use bytes::Bytes;
use fastrand::Rng;
use http::{HeaderValue, Request};
use http_body_util::Full;

use super::bodies::{self, pick};

/// A generated request.
#[derive(Clone, Debug)]
pub(super) struct FuzzRequest {
    pub(super) method: &'static str,
    target: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Bytes,
}

impl FuzzRequest {
    pub(super) fn new(method: &'static str, target: &str, media_type: &str, body: Bytes) -> Self {
        let headers = vec![("content-type", media_type.as_bytes().to_vec())];
        Self { method, target: target.into(), headers, body }
    }

    /// Builds the HTTP request. Returns `None` if no client can send it.
    pub(super) fn build(&self) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(self.method).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(*name, HeaderValue::from_bytes(value).ok()?);
        }
        request.body(super::full(&self.body)).ok()
    }

    /// Returns whether the request can open a watch.
    pub(super) fn is_watch(&self) -> bool {
        self.method == "GET" && self.target.contains("watch")
    }
}

pub(super) const COLLECTIONS: [&str; 13] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/api/v1/nodes",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/example.com/v1/namespaces/default/widgets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/batch/v1/namespaces/default/jobs",
];
const OTHER_PATHS: [&str; 16] = [
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/namespaces/b",
    "/api/v1/watch/namespaces/default/pods",
    "/apis/example.com/v1/widgets",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis",
    "/api",
    "/version",
    "/readyz",
    "/openapi/v2",
    "/openapi/v3/api/v1",
    "/apis/apps/v1",
    "/%2e%2e/api",
    "//api/v1/pods",
    "/api/v1/namespaces/%00/pods/%c3%28",
];
const NAMES: [&str; 8] = ["a", "a", "a", "b", "c", "widgets.example.com", "system:node", "x%20y"];
const PARTS: [&str; 8] = ["status", "status", "scale", "binding", "finalize", "eviction", "log", "token"];
const METHODS: [&str; 16] = [
    "GET", "GET", "GET", "POST", "POST", "POST", "POST", "PUT", "PUT", "PUT", "PATCH", "PATCH", "PATCH",
    "DELETE", "DELETE", "HEAD",
];
const KEYS: [&str; 20] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "shardSelector",
    "fieldManager",
    "fieldValidation",
    "dryRun",
    "force",
    "pretty",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "timeout",
];
const VALUES: [&str; 30] = [
    "",
    "true",
    "false",
    "0",
    "1",
    "5",
    "-1",
    "m",
    "9223372036854775807",
    "18446744073709551616",
    "1e9",
    "Exact",
    "NotOlderThan",
    "All",
    "Strict",
    "Warn",
    "Ignore",
    "Foreground",
    "Orphan",
    "app%3Da",
    "app%20in%20(a%2Cb)%2C!x",
    "app%20in%20(b",
    "metadata.name%3Da",
    "metadata.name!%3Da%2Cspec.nodeName%3D",
    "shardRange(object.metadata.uid%2C%270x0%27%2C%270x8000000000000000%27)",
    "((((((((((",
    "a%3D%3D%3Db",
    "%00%ff",
    "1s",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MywicyI6ImEiLCJzdGFydCI6ImFcdTAwMDAifQ",
];
const TYPES: [&str; 5] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", ";;;="];
const PATCH_TYPES: [&str; 6] = [
    "application/merge-patch+json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+yaml",
];
const ACCEPTS: [&str; 8] = [
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "image/png;;;,,,",
];

/// Returns whether an event with this probability in percent occurs.
fn happens(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(..100) < percent
}

pub(super) fn request(rng: &mut Rng) -> FuzzRequest {
    let method = pick(rng, &METHODS);
    let mut target =
        if happens(rng, 90) { pick(rng, &COLLECTIONS) } else { pick(rng, &OTHER_PATHS) }.to_owned();
    // The other verbs need a name, except for the deletion of a collection.
    let named = match method {
        "POST" => 10,
        "GET" | "HEAD" => 60,
        _ => 98,
    };
    if happens(rng, named) {
        target = format!("{target}/{}", pick(rng, &NAMES));
        if happens(rng, 25) {
            target = format!("{target}/{}", pick(rng, &PARTS));
        }
    }
    let mut media_type = if happens(rng, 90) { TYPES[0] } else { pick(rng, &TYPES) };
    if method == "PATCH" {
        media_type = pick(rng, &PATCH_TYPES);
    }
    let mut pairs: Vec<String> = Vec::new();
    if media_type.contains("apply") && happens(rng, 90) {
        pairs.push("fieldManager=m&force=true".into());
    }
    if method == "GET" && happens(rng, 15) {
        pairs.push("watch=1".into());
    }
    for _ in 0..rng.u8(..4) {
        if happens(rng, 20) {
            pairs.push(format!("{}={}", pick(rng, &KEYS), pick(rng, &VALUES)));
        }
    }
    if !pairs.is_empty() {
        target = format!("{target}?{}", pairs.join("&"));
    }
    let body =
        if matches!(method, "GET" | "HEAD") { Bytes::new() } else { bodies::body(rng, media_type, &target) };
    let mut request = FuzzRequest::new(method, &target, media_type, body);
    if happens(rng, 30) {
        request.headers.push(("accept", pick(rng, &ACCEPTS).into()));
    }
    if happens(rng, 5) {
        let names = ["user-agent", "authorization", "accept-encoding", "impersonate-user", "accept", "x"];
        let junk = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
        request.headers.push((pick(rng, &names), junk));
    }
    request
}

//! Generates requests that are almost valid: a valid path, query, headers and body with random changes.

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::bodies;

/// A generated request.
#[derive(Clone, Debug)]
pub(crate) struct FuzzRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, Bytes)>,
    pub(crate) body: Bytes,
    /// True if the body breaks after its data.
    pub(crate) breaks: bool,
}

impl FuzzRequest {
    pub(crate) fn new(method: &str, target: &str, media_type: &str, body: Bytes) -> Self {
        let headers = vec![("content-type".into(), Bytes::from(media_type.to_owned()))];
        Self { method: method.into(), target: target.into(), headers, body, breaks: false }
    }

    /// Builds the HTTP request. Returns `None` if no client can send it.
    pub(crate) fn build(&self) -> Option<http::Request<BoxBody<Bytes, std::io::Error>>> {
        let mut request = http::Request::builder().method(self.method.as_str()).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, http::HeaderValue::from_bytes(value).ok()?);
        }
        let middle = self.body.len() / 2;
        let mut frames = vec![Ok(self.body.slice(..middle)), Ok(self.body.slice(middle..))];
        if self.breaks {
            frames.push(Err(std::io::Error::other("connection closed")));
        }
        let frames = frames.into_iter().map(|data| data.map(http_body::Frame::data));
        request.body(StreamBody::new(futures_util::stream::iter(frames)).boxed()).ok()
    }

    /// Returns whether the request sets the timeout of a watch.
    pub(crate) fn has_watch_timeout(&self) -> bool {
        self.target.contains("timeoutSeconds=")
    }
}

const COLLECTIONS: [&str; 14] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/events",
    "/api/v1/watch/namespaces/default/pods",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/namespaces/default/widgets",
    "/apis/example.com/v1/widgets",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis",
];
const NAMES: [&str; 8] = ["a", "a", "a", "b", "default", "r", "widgets.example.com", "system:node"];
const PARTS: [&str; 10] = [
    "status",
    "status",
    "scale",
    "binding",
    "finalize",
    "eviction",
    "log",
    "approval",
    "token",
    "ephemeralcontainers",
];
const METHODS: [&str; 12] =
    ["GET", "GET", "GET", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "OPTIONS"];

/// Generates an unusual path segment.
fn unusual_segment() -> impl Strategy<Value = String> {
    let unusual =
        select(vec!["%00", "%zz", "%", "%2F", "%2e%2e", "..", "", "%c3%28", "%F0%9F%92%A9", "a%20b"]);
    prop_oneof![
        unusual.prop_map(str::to_owned),
        any::<String>().prop_map(|text| encode(&text)),
        "[a-z0-9.-]{0,300}",
        Just("a".repeat(4_000)),
    ]
}

/// Percent-encodes all bytes except letters, digits, `.` and `-`.
fn encode(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    text.bytes().map(one).collect()
}

fn path() -> impl Strategy<Value = String> {
    let object = (
        select(COLLECTIONS.to_vec()),
        option::weighted(0.7, select(NAMES.to_vec())),
        option::weighted(0.3, select(PARTS.to_vec())),
    );
    let good = object.prop_map(|(collection, name, part)| {
        let parts = [Some(collection), name, name.and(part)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    });
    let changed =
        (good.clone(), any::<prop::sample::Index>(), unusual_segment()).prop_map(|(path, at, segment)| {
            let mut parts: Vec<&str> = path.split('/').collect();
            let at = at.index(parts.len());
            parts[at] = &segment;
            format!("/{}", parts.join("/").trim_start_matches('/'))
        });
    prop_oneof![8 => good, 1 => changed, 1 => vec(unusual_segment(), 0..6).prop_map(|parts| format!("/{}", parts.join("/")))]
}

const KEYS: [&str; 21] = [
    "watch",
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "timeout",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "dryRun",
    "fieldManager",
    "force",
    "fieldValidation",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "shardSelector",
    "pretty",
];
const VALUES: [&str; 34] = [
    "",
    "0",
    "1",
    "2",
    "10",
    "true",
    "false",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
    "1e9",
    "abc",
    "Exact",
    "NotOlderThan",
    "All",
    "Strict",
    "Warn",
    "Foreground",
    "Orphan",
    "app%3Da",
    "app%20in%20(a%2Cb)",
    "app%20in%20(b",
    "!app",
    "metadata.name%3Da",
    "metadata.name!%3Da%2Cspec.nodeName%3D",
    "spec.x%3D%5C",
    "((((((((((",
    "a%3D%3D%3Db",
    "!!",
    "%00",
    "%ff",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MywicyI6ImEiLCJzdGFydCI6ImFcdTAwMDAifQ",
];

fn query() -> impl Strategy<Value = String> {
    let value = prop_oneof![9 => select(VALUES.to_vec()).prop_map(str::to_owned), 1 => unusual_segment()];
    let pair = (select(KEYS.to_vec()), value).prop_map(|(key, value)| format!("{key}={value}"));
    vec(pair, 0..5).prop_map(|pairs| pairs.join("&"))
}

const TYPES: [&str; 12] = [
    "application/json",
    "application/json; charset=utf-8",
    "application/yaml",
    "application/merge-patch+json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
    ";;;=",
];
const ACCEPTS: [&str; 9] = [
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "image/png;;;,,,",
];

fn headers() -> impl Strategy<Value = Vec<(String, Bytes)>> {
    let text = |value: &str| Bytes::from(value.to_owned());
    let content = select(TYPES.to_vec()).prop_map(move |value| ("content-type".to_owned(), text(value)));
    let accept = select(ACCEPTS.to_vec()).prop_map(move |value| ("accept".to_owned(), text(value)));
    let name = select(vec![
        "user-agent",
        "authorization",
        "accept-encoding",
        "content-type",
        "accept",
        "impersonate-user",
        "x",
    ]);
    let junk =
        (name, vec(any::<u8>(), 0..40)).prop_map(|(name, value)| (name.to_owned(), Bytes::from(value)));
    (option::weighted(0.9, content), option::weighted(0.4, accept), option::weighted(0.15, junk))
        .prop_map(|(content, accept, junk)| [content, accept, junk].into_iter().flatten().collect())
}

pub(crate) fn request() -> impl Strategy<Value = FuzzRequest> {
    prop_oneof![9 => any_request(), 1 => json_patch_request()]
}

/// Generates a JSON patch of an existing object.
fn json_patch_request() -> impl Strategy<Value = FuzzRequest> {
    let path = select(vec![
        "/api/v1/namespaces/default/configmaps/a",
        "/apis/apps/v1/namespaces/default/deployments/a",
        "/apis/example.com/v1/namespaces/default/widgets/a",
    ]);
    (path, bodies::json_patch()).prop_map(|(path, patch)| {
        FuzzRequest::new("PATCH", path, "application/json-patch+json", patch.to_string().into())
    })
}

fn any_request() -> impl Strategy<Value = FuzzRequest> {
    let breaks = prop::bool::weighted(0.04);
    (select(METHODS.to_vec()), path(), query(), headers(), bodies::body(), breaks).prop_map(
        |(method, path, query, headers, body, breaks)| {
            let target = if query.is_empty() { path } else { format!("{path}?{query}") };
            FuzzRequest { method: method.into(), target, headers, body, breaks }
        },
    )
}

//! The invariant of the storage: an old list plus all later events equals the current list.

use std::collections::BTreeMap;

use bytes::Bytes;
use kube_testserver::Server;
use serde_json::Value;

use crate::requests::FuzzRequest;
use crate::responses::{get, send};

const WATCHED: [&str; 8] = [
    "/api/v1/configmaps",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/apis/apps/v1/deployments",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/widgets",
];

type Objects = BTreeMap<String, Value>;

/// The objects of each collection at a version.
pub(crate) struct StorageSnapshot(Vec<(&'static str, u64, Objects)>);

fn key(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"])
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

/// Removes kind and apiVersion, because list items of built-in kinds do not contain them.
fn untyped(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// Returns the version of a list and its objects. Returns `None` for a 404.
async fn list(server: &Server, target: &str) -> Option<(u64, Objects)> {
    let response = get(server, target).await;
    if response.code == 404 {
        return None;
    }
    assert_eq!(response.code, 200, "{target}: {}", response.text());
    let list = response.json();
    let items = list["items"].as_array().expect("items").iter();
    let items: Objects = items.map(|item| (key(item), untyped(item.clone()))).collect();
    let at = version(&list);
    assert!(items.values().all(|item| version(item) <= at), "{target}: an object is newer than its list");
    Some((at, items))
}

impl StorageSnapshot {
    pub(crate) async fn take(server: &Server) -> Self {
        let mut all = Vec::new();
        for path in WATCHED {
            let (at, objects) = list(server, path).await.expect("a served kind");
            all.push((path, at, objects));
        }
        Self(all)
    }

    /// Asserts that the snapshot plus all later events equals the current state. Skips a CRD that was
    /// recreated, because its old versions are expired.
    pub(crate) async fn check_replay(self, server: &Server) {
        for (path, at, old) in self.0 {
            let Some((now_at, now)) = list(server, path).await else { continue };
            let exact = format!("{path}?resourceVersion={at}&resourceVersionMatch=Exact");
            let watch = format!("{path}?watch=1&resourceVersion={at}&timeoutSeconds=1");
            if path.contains("widgets") && get(server, &exact).await.code != 200 {
                continue;
            }
            let (_, past) = list(server, &exact).await.expect("a served kind");
            assert_eq!(past, old, "{path} at {at}");
            let mut objects = old;
            let mut last = at;
            for line in get(server, &watch).await.text().lines() {
                let event: Value = serde_json::from_str(line).expect("a frame");
                let object = untyped(event["object"].clone());
                assert!(version(&object) > last, "{path}: versions must increase: {line}");
                last = version(&object);
                match event["type"].as_str() {
                    Some("ADDED") => assert_eq!(objects.insert(key(&object), object), None, "{line}"),
                    Some("MODIFIED") => assert!(objects.insert(key(&object), object).is_some(), "{line}"),
                    Some("DELETED") => assert!(objects.remove(&key(&object)).is_some(), "{line}"),
                    _ => panic!("{path}: {line}"),
                }
            }
            assert!(last <= now_at);
            assert_eq!(objects, now, "{path}: events and list differ");
        }
    }
}

/// Asserts that an object can be created, read and deleted.
pub(crate) async fn check_writes(server: &Server) {
    let body = Bytes::from_static(b"{\"metadata\":{\"name\":\"after-all\"}}");
    let collection = "/api/v1/namespaces/kube-system/configmaps";
    let object = format!("{collection}/after-all");
    for (method, path, code) in
        [("POST", collection, 201), ("GET", &object, 200), ("DELETE", &object, 200), ("GET", &object, 404)]
    {
        let body = if method == "POST" { body.clone() } else { Bytes::new() };
        let response = send(server, &FuzzRequest::new(method, path, "application/json", body)).await;
        assert_eq!(response.code, code, "{method} {path}: {}", response.text());
    }
}

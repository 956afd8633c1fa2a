//! The invariants of what is stored, seen from outside: a list then and all events since make the list now.

use std::collections::BTreeMap;

use bytes::Bytes;
use kube_testserver::Server;
use serde_json::Value;

use crate::answers::{ask, get};
use crate::requests::Asked;

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

/// What there was at a version.
pub(crate) struct Picture(Vec<(&'static str, u64, Objects)>);

fn key(object: &Value) -> String {
    format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"])
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

/// The objects without the type, which list items of built-in kinds lack.
fn untyped(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// The objects of a list, and its version.
async fn list(server: &Server, target: &str) -> Option<(u64, Objects)> {
    let answer = get(server, target).await;
    if answer.code == 404 {
        return None;
    }
    assert_eq!(answer.code, 200, "{target}: {}", answer.text());
    let list = answer.json();
    let items = list["items"].as_array().expect("items").iter();
    let items: Objects = items.map(|item| (key(item), untyped(item.clone()))).collect();
    let at = version(&list);
    assert!(items.values().all(|item| version(item) <= at), "{target}: an object is newer than its list");
    Some((at, items))
}

impl Picture {
    pub(crate) async fn take(server: &Server) -> Self {
        let mut all = Vec::new();
        for path in WATCHED {
            let (at, objects) = list(server, path).await.expect("a known kind");
            all.push((path, at, objects));
        }
        Self(all)
    }

    /// A CRD that went and came back has other objects; its old watch says 404 or ends.
    pub(crate) async fn replayed_is_now(self, server: &Server) {
        for (path, at, then) in self.0 {
            let Some((now_at, now)) = list(server, path).await else { continue };
            let exact = format!("{path}?resourceVersion={at}&resourceVersionMatch=Exact");
            let watch = format!("{path}?watch=1&resourceVersion={at}&timeoutSeconds=1");
            if path.contains("widgets") && get(server, &exact).await.code != 200 {
                continue;
            }
            let (_, past) = list(server, &exact).await.expect("a known kind");
            assert_eq!(past, then, "{path} at {at}");
            let mut objects = then;
            let mut last = at;
            for line in get(server, &watch).await.text().lines() {
                let event: Value = serde_json::from_str(line).expect("a frame");
                let object = untyped(event["object"].clone());
                assert!(version(&object) > last, "{path}: versions go up: {line}");
                last = version(&object);
                match event["type"].as_str() {
                    Some("ADDED") => assert_eq!(objects.insert(key(&object), object), None, "{line}"),
                    Some("MODIFIED") => assert!(objects.insert(key(&object), object).is_some(), "{line}"),
                    Some("DELETED") => assert!(objects.remove(&key(&object)).is_some(), "{line}"),
                    _ => panic!("{path}: {line}"),
                }
            }
            assert!(last <= now_at);
            assert_eq!(objects, now, "{path}: its events and its list differ");
        }
    }
}

/// Creates, reads and deletes an object.
pub(crate) async fn still_works(server: &Server) {
    let body = Bytes::from_static(b"{\"metadata\":{\"name\":\"after-all\"}}");
    let collection = "/api/v1/namespaces/kube-system/configmaps";
    let object = format!("{collection}/after-all");
    for (method, path, code) in
        [("POST", collection, 201), ("GET", &object, 200), ("DELETE", &object, 200), ("GET", &object, 404)]
    {
        let body = if method == "POST" { body.clone() } else { Bytes::new() };
        let answer = ask(server, &Asked::new(method, path, "application/json", body)).await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
    }
}

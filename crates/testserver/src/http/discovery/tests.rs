//! Compares discovery with records of kube-apiserver 1.36.

use serde_json::{Value, json};

use crate::http::discovery::aggregated;
use crate::http::discovery::documents::*;
use crate::state::Registry;

fn registry<T>(look: impl FnOnce(&Registry) -> T) -> T {
    crate::Server::new().shared.read(|state| look(&state.registry))
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn resource_description_equals_real_server() {
    let apps = parsed(&registry(|registry| resources(registry, "apps", "v1")).unwrap());
    assert_eq!((&apps["kind"], &apps["groupVersion"]), (&json!("APIResourceList"), &json!("apps/v1")));
    let revisions = json!({
        "name": "controllerrevisions", "singularName": "controllerrevision", "namespaced": true,
        "kind": "ControllerRevision", "storageVersionHash": "85nkx63pcBU=",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    assert_eq!(apps["resources"][0], revisions);
    let core = parsed(&registry(|registry| resources(registry, "", "v1")).unwrap());
    let find = |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned();
    let namespaces = find("namespaces").unwrap();
    assert_eq!(namespaces["verbs"], json!(["create", "delete", "get", "list", "patch", "update", "watch"]));
    assert_eq!(namespaces["storageVersionHash"], "Q3oi5N2YM8M=");
    assert_eq!(find("namespaces/finalize").unwrap()["verbs"], json!(["update"]));
    assert_eq!(find("events").unwrap()["storageVersionHash"], "r2yiGXH7wu8=");
    assert_eq!(find("endpoints").unwrap()["singularName"], "endpoints");
    assert!(registry(|registry| resources(registry, "apps", "v2")).is_none());
}

#[test]
fn aggregated_document_equals_separate_documents() {
    let named = registry(|registry| aggregated::document(registry, false));
    let list = parsed(&named);
    let groups: Vec<_> = list["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]).collect();
    let plain = parsed(&registry(groups_of));
    let expected: Vec<_> = plain["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(groups, expected);
    assert_eq!(groups[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    let core = parsed(&registry(|registry| aggregated::document(registry, true)));
    assert_eq!(core["items"][0]["metadata"], json!({}));
    let status = json!({
        "subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Node"},
        "verbs": ["get", "patch", "update"]
    });
    let resources = core["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let nodes = resources.iter().find(|resource| resource["resource"] == "nodes").unwrap();
    assert_eq!(nodes["subresources"], json!([status]));
    assert_eq!((&nodes["scope"], &nodes["shortNames"]), (&json!("Cluster"), &json!(["no"])));
}

fn groups_of(registry: &Registry) -> Vec<u8> {
    groups(registry)
}

//! Discovery documents, version, health and unknown paths.

use crate::client::{configmaps, get, post, send, server};
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn crd(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": *name == "v1", "schema": schema,
               "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                                                         "statusReplicasPath": ".status.replicas"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "gears.acc.example.com"},
           "spec": {"group": "acc.example.com", "scope": "Namespaced",
                    "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList",
                              "shortNames": ["ge"], "categories": ["machines"]},
                    "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

#[tokio::test]
async fn discovery_lists_crd_versions_by_priority_until_deletion() {
    let server = server();
    let before = get(&server, "/apis").await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let versions = ["v1beta1", "v1", "v2alpha1", "foo", "v2"];
    assert_eq!(post(&server, crds, crd(&versions)).await.code, 201);
    let group = get(&server, "/apis/acc.example.com").await.json();
    let listed: Vec<_> = group["versions"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(listed, ["v2", "v1", "v1beta1", "v2alpha1", "foo"]);
    assert_eq!(group["preferredVersion"]["groupVersion"], "acc.example.com/v2");
    let resources = get(&server, "/apis/acc.example.com/v1").await.json();
    assert_eq!((&resources["kind"], &resources["apiVersion"]), (&json!("APIResourceList"), &json!("v1")));
    assert_eq!(
        resources["resources"],
        json!([
            {"name": "gears", "singularName": "gear", "namespaced": true, "kind": "Gear",
             "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
             "shortNames": ["ge"], "categories": ["machines"], "storageVersionHash": "A3Ddb6GjTfk="},
            {"name": "gears/status", "singularName": "", "namespaced": true, "kind": "Gear",
             "verbs": ["get", "patch", "update"]},
            {"name": "gears/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
             "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
        ])
    );
    let all = get(&server, "/apis").await.json();
    assert_eq!(all["groups"].as_array().unwrap().last().unwrap()["name"], "acc.example.com");
    let crd = format!("{crds}/gears.acc.example.com");
    assert_eq!(send(&server, "DELETE", &crd, &[], "").await.code, 200);
    assert_eq!(get(&server, "/apis/acc.example.com").await.text, "404 page not found\n");
    assert_eq!(get(&server, "/apis").await.text, before.text);
}

#[tokio::test]
async fn health_version_and_paths_are_served() {
    let server = server();
    assert_eq!(get(&server, "/version").await.json()["gitVersion"], "v1.36.3");
    assert_eq!(get(&server, "/healthz").await.text, "ok");
    assert!(get(&server, "/readyz?verbose").await.text.ends_with("[+]shutdown ok\nreadyz check passed\n"));
    let paths = get(&server, "/").await.json();
    assert!(paths["paths"].as_array().unwrap().contains(&json!("/apis/apps/v1")));
    for (method, path, code) in [
        ("POST", "/version", 405),
        ("POST", "/api", 405),
        ("PUT", "/apis/apps/v1", 405),
        ("HEAD", "/api/v1/namespaces", 405),
        ("POST", "/apis", 200),
        ("DELETE", "/apis/apps", 200),
        ("GET", "/openapi/v4", 404),
    ] {
        assert_eq!(send(&server, method, path, &[], "").await.code, code, "{method} {path}");
    }
}

#[tokio::test]
async fn unknown_paths_and_objects_return_the_errors_of_the_real_server() {
    let server = server();
    configmaps(&server, &[]);
    let unknown = get(&server, "/api/v1/namespaces/default/nosuch").await;
    assert_eq!(
        unknown.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"the server could not find the requested resource\",\"reason\":\"NotFound\",\"details\":{},\"code\":404}\n"
    );
    for path in ["/apis/nosuch.example.com/v1/things", "/nosuch"] {
        let response = get(&server, path).await;
        assert_eq!(response.text, "404 page not found\n");
        assert_eq!(response.headers["x-content-type-options"], "nosniff");
    }
    // An unknown version of a built-in group returns a Status.
    for path in ["/api/v2/pods", "/api/v2", "/apis/apps/v9", "/apis/apps/v9/x", "/api/v1/pods/a/b/c/d/e"] {
        assert_eq!(get(&server, path).await.text, unknown.text, "{path}");
    }
    let absent = get(&server, "/apis/apps/v1/namespaces/default/deployments/absent").await;
    assert_eq!(absent.message(), "deployments.apps \"absent\" not found");
    let nowhere = get(&server, "/api/v1/namespaces/nope/configmaps").await;
    assert_eq!((nowhere.code, nowhere.names().len()), (200, 0));
    assert_eq!(get(&server, "/readyz").await.text, "ok");
    assert_eq!(get(&server, "/version").await.json()["minor"], "36");
    assert_eq!(get(&server, "/api").await.json()["versions"][0], "v1");
    assert!(get(&server, "/apis").await.json()["groups"].as_array().unwrap().len() > 10);
    let large = "x".repeat(4 << 20);
    let rejected = send(&server, "POST", "/api/v1/namespaces", &[], &large).await;
    assert_eq!(rejected.code, 413);
}

#[tokio::test]
async fn aggregated_discovery_is_not_modified_without_a_change() {
    let server = server();
    for path in ["/api", "/apis"] {
        let first = send(&server, "GET", path, &[("accept", AGGREGATED)], "").await;
        assert_eq!((first.code, &first.headers["content-type"]), (200, &AGGREGATED.parse().unwrap()));
        assert_eq!(
            (&first.headers["vary"], &first.headers["cache-control"]),
            (&"Accept".parse().unwrap(), &"public".parse().unwrap())
        );
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let headers = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
        let second = send(&server, "GET", path, &headers, "").await;
        assert_eq!((second.code, second.text.as_str()), (304, ""));
        assert!(second.headers.get("content-type").is_none() && second.headers["etag"] == tag);
    }
    let tag = |response: &crate::client::Response| response.headers["etag"].clone();
    let before = tag(&send(&server, "GET", "/apis", &[("accept", AGGREGATED)], "").await);
    server.create(&crd(&["v1"])).unwrap();
    assert_ne!(before, tag(&send(&server, "GET", "/apis", &[("accept", AGGREGATED)], "").await));
}

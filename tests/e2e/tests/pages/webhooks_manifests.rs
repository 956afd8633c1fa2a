//! The manifests of docs/webhooks.md are valid, and belong to each other and to the code of the page.

use std::{collections::BTreeSet, fs};

use kube_testserver::Server;
use serde_json::{Value, json};

use super::webhooks;

const PAGE: &str = include_str!("../../../../docs/webhooks.md");

/// Returns the objects of the page, as an API server stores them.
fn objects() -> Vec<Value> {
    let blocks = PAGE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```\n").next());
    let manifests: Vec<_> = blocks.filter(|block| block.starts_with("apiVersion")).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifests.yaml");
    fs::write(&path, manifests.join("---\n")).unwrap();
    let server = Server::new();
    server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    server.load_yaml(&path).unwrap()
}

#[test]
fn manifests_of_the_page_are_valid_and_call_its_service() {
    let objects = objects();
    let kind =
        |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("{kind}"));
    let (service, deployment) = (kind("Service"), kind("Deployment"));
    let pod = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let target = &service["spec"]["ports"][0]["targetPort"];
    assert!(ports.iter().any(|port| port["name"] == *target && port["containerPort"] == 9443));
    let admission = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
        .map(|name| kind(name)["webhooks"][0].clone());
    let crd = kind("CustomResourceDefinition");
    let mut paths = BTreeSet::new();
    for webhook in [&admission[0], &admission[1], &crd["spec"]["conversion"]["webhook"]] {
        let called = &webhook["clientConfig"]["service"];
        assert_eq!(
            (&called["namespace"], &called["name"]),
            (&service["metadata"]["namespace"], &service["metadata"]["name"])
        );
        assert_eq!(called["port"], service["spec"]["ports"][0]["port"]);
        paths.insert(called["path"].as_str().unwrap().to_owned());
    }
    let handlers = webhooks();
    assert!(handlers.paths().all(|path| paths.remove(path)), "each handler is called");
    assert_eq!(paths, BTreeSet::from(["/convert-website".to_owned()]), "the page adds it in all_webhooks");
}

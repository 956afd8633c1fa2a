//! Webhooks with handlers in the process of the test.

use kube_client::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use kube_testserver::Server;
use serde_json::{Value, json};

/// Installs a CRD with the storage version `v2`, whose conversion webhook renames a field.
fn install(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let client = json!({"service": {"namespace": "default", "name": "w"}});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.test"},
        "spec": {
            "group": "ex.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", false), version("v2", true)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    });
    server.create(&crd).unwrap();
}

async fn rename_field(review: ConversionReview) -> ConversionReview {
    let request = ConversionRequest::from_review(review).unwrap();
    let rename = |mut object: Value| {
        object["apiVersion"] = json!(request.desired_api_version);
        let (from, to) = if request.desired_api_version == "ex.test/v1" { ("b", "a") } else { ("a", "b") };
        object[to] = object.as_object_mut().and_then(|object| object.remove(from)).unwrap_or_default();
        object
    };
    let converted = request.objects.iter().cloned().map(rename).collect();
    ConversionResponse::for_request(request).success(converted).into_review()
}

#[test]
fn conversion_handler_converts_for_methods_of_the_server() {
    let server = Server::new();
    install(&server);
    let widget = json!({"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "a": 1});
    assert_eq!(server.create(&widget).unwrap_err().code(), 500);
    server.webhook_handler("widgets.ex.test", rename_field);
    let created = server.create(&widget).unwrap();
    assert_eq!((&created["a"], &created["b"]), (&json!(1), &Value::Null));
    let read = |version: &str| server.get_untyped(version, "Widget", None, "w").unwrap();
    assert_eq!(read("ex.test/v2")["b"], 1);
    assert_eq!(read("ex.test/v1"), created);
    let patched = server.patch_untyped("ex.test/v2", "Widget", None, "w", &json!({"b": 2})).unwrap();
    assert_eq!(patched["b"], 2);
    assert_eq!(server.list_untyped("ex.test/v1", "Widget", None).unwrap()[0]["a"], 2);
}

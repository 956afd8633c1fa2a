//! Compares the OpenAPI documents of the testserver with the documents of the real server.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube_client::{Client, Error};
use kube_informer_e2e::real::{Options, RealServer};
use kube_testserver::Server;
use serde_json::{Map, Value, json};

/// The parts of schemas that the testserver omits, see docs/testserver-reference.md.
const OMITTED: [&str; 3] = ["description", "x-kubernetes-selectable-fields", "x-kubernetes-unions"];

/// The deadline of the real server to publish the schemas of a new CRD.
const PUBLICATION: Duration = Duration::from_secs(30);

#[tokio::test]
async fn documents_match_documents_of_real_server() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("openapi", 1, Options::default()).await? else {
        return Ok(());
    };
    let (real, ours) = (server.client().await?, Client::new(Server::new().service(), "default"));
    for client in [&real, &ours] {
        let crds = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        let _: Value = client.request(crds.body(serde_json::to_vec(&definition())?)?).await?;
    }
    tokio::time::timeout(PUBLICATION, published(&real)).await.context("CRD is not published")??;

    let index = get(&ours, "/openapi/v3").await?;
    let mut compared = 0;
    for path in index["paths"].as_object().context("no paths")?.keys() {
        let path = format!("/openapi/v3/{path}");
        let (real, ours) = (get(&real, &path).await?, get(&ours, &path).await?);
        compared += compare_schemas(&path, &ours["components"]["schemas"], &real["components"]["schemas"])?;
        compare_paths(&ours["paths"], &real["paths"])?;
        // The descriptions of custom resources come from the CRD.
        let description = "/components/schemas/com.example.shop.v1.Widget/properties/spec/description";
        ensure!(ours.pointer(description) == real.pointer(description), "{:?}", ours.pointer(description));
    }
    ensure!(compared > 1_000, "only {compared} schemas");
    let (real, ours) = (get(&real, "/openapi/v2").await?, get(&ours, "/openapi/v2").await?);
    let compared = compare_schemas("/openapi/v2", &ours["definitions"], &real["definitions"])?;
    ensure!(compared > 500, "only {compared} definitions");
    compare_paths(&ours["paths"], &real["paths"])?;
    server.stop().await
}

async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    client.request(Request::get(path).body(Vec::new()).map_err(Error::HttpError)?).await
}

/// Waits until both documents of the real server contain the new kind.
async fn published(client: &Client) -> Result<(), Error> {
    loop {
        let v3 = get(client, "/openapi/v3").await?;
        let v2 = get(client, "/openapi/v2").await?;
        if v3["paths"].get("apis/shop.example.com/v1").is_some()
            && v2["definitions"].get("com.example.shop.v1.Widget").is_some()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A CRD with all features whose schemas differ between the versions of OpenAPI.
fn definition() -> Value {
    let parts = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}});
    let spec = json!({"type": "object", "required": ["size", "maybe"], "description": "The wanted state.", "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"},
        "colour": {"type": "string", "default": "red", "enum": ["red", "blue"], "maxLength": 9, "pattern": "^[a-z]+$"},
        "maybe": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                   "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        "selector": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                     "properties": {"spec": {"type": "object"}}},
        "any": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "frees": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "parts": parts}});
    let root = json!({"type": "object", "description": "A widget.", "required": ["spec"], "properties": {"spec": spec}});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                      "properties": {"spec": {"type": "object"}}});
    let version = |name: &str, root: &Value, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": root}});
    let mut versions = [version("v1", &root, true), version("v2", &open, false)];
    versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.size"}]);
    versions[0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {"group": "shop.example.com", "scope": "Namespaced", "versions": versions,
                 "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}})
}

/// Compares all schemas of a document of the testserver. Returns their number.
fn compare_schemas(document: &str, ours: &Value, real: &Value) -> Result<usize> {
    let ours = ours.as_object().context("no schemas")?;
    for (name, schema) in ours {
        let counterpart = real.get(name).with_context(|| format!("{document}: only here {name}"))?;
        let (ours, real) = (simplified(schema), simplified(counterpart));
        ensure!(ours == real, "{document} {name}\nhere  {ours}\nthere {real}");
    }
    Ok(ours.len())
}

/// Returns a schema without the omitted parts. A property can also be named `description`.
fn simplified(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let is_omitted = |key: &str, value: &Value| OMITTED.contains(&key) && !value.is_object();
            let kept = object.iter().filter(|(key, value)| !is_omitted(key, value));
            let mut kept: Map<String, Value> =
                kept.map(|(key, value)| (key.clone(), simplified(value))).collect();
            // A reference with siblings, such as a description, is wrapped.
            if let Some([only]) = kept.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
                && let Some(reference) = only.get("$ref").cloned()
            {
                kept.remove("allOf");
                kept.insert("$ref".into(), reference);
            }
            // The real server registers these options in each group.
            if let Some(Value::Array(kinds)) = kept.get_mut("x-kubernetes-group-version-kind") {
                kinds.retain(|kind| kind["kind"] != "DeleteOptions" || kind["group"] == "");
            }
            kept.into()
        }
        Value::Array(list) => list.iter().map(simplified).collect(),
        other => other.clone(),
    }
}

/// Compares the operations of all paths of the testserver.
fn compare_paths(ours: &Value, real: &Value) -> Result<()> {
    for (path, item) in ours.as_object().context("no paths")? {
        let counterpart = real.get(path).with_context(|| format!("only here {path}"))?;
        for (method, operation) in
            item.as_object().into_iter().flatten().filter(|(key, _)| *key != "parameters")
        {
            let there = &counterpart[method];
            for key in ["x-kubernetes-action", "x-kubernetes-group-version-kind"] {
                ensure!(operation[key] == there[key], "{path} {method}: {} {}", operation[key], there[key]);
            }
            let (here, there) = (media_types(operation), media_types(there));
            ensure!(method != "patch" || here == there, "{path} {method}: {here:?} {there:?}");
        }
        let methods =
            |item: &Value| item.as_object().map(|item| item.keys().cloned().collect::<BTreeSet<_>>());
        let (mut here, mut there) =
            (methods(item).unwrap_or_default(), methods(counterpart).unwrap_or_default());
        here.remove("parameters");
        there.remove("parameters");
        ensure!(here == there, "{path}: {here:?} {there:?}");
    }
    Ok(())
}

/// Returns the media types of the body of an operation.
fn media_types(operation: &Value) -> BTreeSet<String> {
    let v2 =
        operation["consumes"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let v3 = operation["requestBody"]["content"].as_object().into_iter().flatten();
    v2.chain(v3.map(|(media, _)| media.clone())).collect()
}

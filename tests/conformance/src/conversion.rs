//! Conversion webhooks of CRDs over HTTPS.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::custom::Custom;
use super::place::Place;
use super::values::{items, version};
use super::webhook_server::WebhookServer;
use super::webhooks::patch;

checks! {
    "A conversion webhook converts objects between the requested version and the storage version.":
        conversion_applies_to_reads_and_writes, conversion_applies_to_lists_and_watches,
        conversion_restores_metadata;
    "An admission webhook receives objects in the version of its rule.":
        conversion_applies_to_admission_webhooks;
    "If a conversion webhook fails, the request fails.":
        conversion_failure_fails_the_request, conversion_result_is_checked;
}

/// Converts `spec.v1` to `spec.v2`, and back. The names of the objects select other responses.
fn convert(_: &str, request: &Value) -> Value {
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let to = desired.rsplit('/').next().unwrap_or_default();
    let from = if to == "v1" { "v2" } else { "v1" };
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = json!(desired);
        object["spec"] = json!({to: object["spec"][from]});
        match object["metadata"]["name"].as_str() {
            Some("refused") => return json!({"result": {"status": "Failed", "message": "no"}}),
            Some("renamed") => object["metadata"]["name"] = json!("x"),
            Some("version") => object["apiVersion"] = json!("other/v1"),
            Some("none") => return json!({"result": {"status": "Success"}, "convertedObjects": []}),
            Some("metadata") => {
                object["metadata"]["labels"] = json!({"to": to});
                object["metadata"]["finalizers"] = json!(["a.b/c"]);
            }
            _ => {}
        }
    }
    json!({"result": {"status": "Success"}, "convertedObjects": objects})
}

/// Installs a kind whose storage version is `v2`.
async fn install<'a>(place: &'a Place, hooks: &WebhookServer<'_>) -> Result<Custom<'a>> {
    let version = |name: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {name: {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let client_config = hooks.client_config("convert");
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client_config});
    let conversion = json!({"strategy": "Webhook", "webhook": webhook});
    Custom::install_converted(place, json!([version("v1", false), version("v2", true)]), conversion).await
}

async fn conversion_applies_to_reads_and_writes(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, convert).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let (v1, v2) = (kind.one("a"), format!("{}/a", kind.all_in("v2")));
    let created = kind.create("a", json!({"v1": "x"})).await?;
    ensure!(created["spec"] == json!({"v1": "x"}), "{created}");
    ensure!(created["apiVersion"] == format!("{}/v1", kind.group), "{created}");
    let admin = place.admin();
    let stored = admin.get(&v2).await?.ok()?;
    ensure!(stored["spec"] == json!({"v2": "x"}), "{stored}");
    ensure!(stored["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"], "{stored}");
    let patched = admin.patch(&v2, &json!({"spec": {"v2": "y"}})).await?.ok()?;
    ensure!(patched["spec"] == json!({"v2": "y"}) && patched["metadata"]["generation"] == 2, "{patched}");
    let read = admin.get(&v1).await?.ok()?;
    ensure!(read["spec"] == json!({"v1": "y"}) && version(&read)? == version(&patched)?, "{read}");
    let mut wanted = read;
    wanted["spec"]["v1"] = json!("z");
    let replaced = admin.put(&v1, &wanted).await?.ok()?;
    ensure!(replaced["spec"] == json!({"v1": "z"}) && replaced["metadata"]["generation"] == 3, "{replaced}");
    let stored = admin.get(&v2).await?.ok()?;
    let managers = |object: &Value| object["metadata"]["managedFields"].clone();
    ensure!(stored["spec"] == json!({"v2": "z"}) && managers(&stored)[0].is_object(), "{stored}");
    ensure!(managers(&stored) == managers(&replaced), "{stored} instead of {replaced}");
    admin.delete(&v1).await?.ok()?;
    Ok(())
}

async fn conversion_applies_to_lists_and_watches(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, convert).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let created = kind.create("a", json!({"v1": "x"})).await?;
    let object = kind.widget("v2", "b", &json!({"v2": "y"}));
    place.admin().post(&kind.all_in("v2"), &object).await?.expect(201)?;
    for other in ["v1", "v2"] {
        let list = place.admin().get(&kind.all_in(other)).await?.ok()?;
        let specs: Vec<_> = items(&list).iter().map(|item| item["spec"][other].clone()).collect();
        ensure!(specs == ["x", "y"], "{list}");
        let from = version(&created)? - 1;
        let path = format!("{}?watch=true&resourceVersion={from}", kind.all_in(other));
        let mut watch = place.admin().watch(&path).await?;
        for (name, value) in [("a", "x"), ("b", "y")] {
            let object = watch.expect("ADDED", name).await?;
            ensure!(object["spec"] == json!({other: value}), "{object}");
        }
    }
    let path = format!("{}?watch=true&resourceVersion={}", kind.all(), version(&created)?);
    let mut watch = place.admin().watch(&path).await?;
    watch.expect("ADDED", "b").await?;
    place.admin().delete(&format!("{}/b", kind.all_in("v2"))).await?.ok()?;
    let deleted = watch.expect("DELETED", "b").await?;
    ensure!(deleted["spec"] == json!({"v1": "y"}), "{deleted}");
    Ok(())
}

async fn conversion_restores_metadata(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, convert).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let object = kind.widget("v2", "metadata", &json!({"v2": "x"}));
    place.admin().post(&kind.all_in("v2"), &object).await?.expect(201)?;
    let read = place.admin().get(&kind.one("metadata")).await?.ok()?;
    let metadata = &read["metadata"];
    ensure!(metadata["labels"] == json!({"to": "v1"}) && metadata.get("finalizers").is_none(), "{read}");
    Ok(())
}

async fn conversion_applies_to_admission_webhooks(place: Place) -> Result<()> {
    let respond = |path: &str, request: &Value| match path {
        "admit" => patch(&json!([{"op": "replace", "path": "/spec/v2", "value": "changed"}])),
        _ => convert(path, request),
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let rule =
        json!({"apiGroups": [kind.group], "apiVersions": ["v2"], "resources": ["*"], "operations": ["*"]});
    hooks.install("Mutating", vec![hooks.webhook("admit", json!({"rules": [rule]}))]).await?;
    let reviewed = || hooks.received().into_iter().rfind(|request| request["path"] == "admit");

    let created = kind.create("a", json!({"v1": "x"})).await?;
    ensure!(created["spec"] == json!({"v1": "changed"}), "{created}");
    ensure!(created["apiVersion"] == format!("{}/v1", kind.group), "{created}");
    let request = reviewed().unwrap_or_default();
    ensure!(request["object"]["spec"] == json!({"v2": "x"}), "{request}");
    ensure!(request["object"]["apiVersion"] == format!("{}/v2", kind.group), "{request}");
    ensure!(request["kind"]["version"] == "v2" && request["requestKind"]["version"] == "v1", "{request}");

    let patched = place.admin().patch(&kind.one("a"), &json!({"spec": {"v1": "y"}})).await?.ok()?;
    ensure!(patched["spec"] == json!({"v1": "changed"}), "{patched}");
    let request = reviewed().unwrap_or_default();
    ensure!(request["object"]["spec"] == json!({"v2": "y"}), "{request}");
    ensure!(request["oldObject"]["spec"] == json!({"v2": "changed"}), "{request}");
    Ok(())
}

async fn conversion_failure_fails_the_request(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, convert).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let subject = format!("conversion webhook for {}/v1, Kind=Widget", kind.group);
    for (name, end) in [("refused", " failed: no"), ("none", " returned 0 objects, expected 1")] {
        let body = kind.widget("v1", name, &json!({"v1": "x"}));
        let status = place.admin().post(&kind.all(), &body).await?.refused(500, "")?;
        ensure!(status["message"] == format!("{subject}{end}"), "{status}");
        place.admin().get(&format!("{}/{name}", kind.all_in("v2"))).await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn conversion_result_is_checked(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, convert).await? else { return Ok(()) };
    let kind = install(&place, &hooks).await?;
    let start = format!("conversion webhook for {}/v1, Kind=Widget returned invalid object", kind.group);
    for (name, end) in [("renamed", ": must have the same name: renamed != x"), ("version", "")] {
        let body = kind.widget("v1", name, &json!({"v1": "x"}));
        let status = place.admin().post(&kind.all(), &body).await?.refused(500, "")?;
        let message = status["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with(&format!("{start}{end}")), "{status}");
    }
    Ok(())
}

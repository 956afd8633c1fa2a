//! Bodies of built-in kinds. The server decodes and encodes each body as its type, so unknown and empty
//! fields are removed, and values of a wrong type are rejected.

use anyhow::{Result, ensure};
use http::{Method, Request};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::starts_with;

checks! {
    "Empty and null fields are removed, except fields that the type always writes.":
        empty_fields_are_not_kept, fields_emptied_by_patch_are_removed, some_fields_are_always_present,
        entries_without_a_value_get_an_empty_one;
    "Values of a wrong type are rejected, with 400 in a body and with 422 in the result of a patch.":
        values_of_wrong_type_are_rejected, patches_to_wrong_type_are_rejected, numbers_must_fit_their_fields,
        applies_of_undecodable_values_are_rejected;
    "A body of null is an empty object.":
        body_of_null_is_an_empty_object;
}

pub(super) fn config_map(rest: &Value) -> Value {
    with("a", rest)
}

pub(super) fn with(name: &str, rest: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

pub(super) fn pod(spec: &Value, container: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    for (key, value) in container.as_object().into_iter().flatten() {
        pod["spec"]["containers"][0][key] = value.clone();
    }
    pod
}

pub(super) fn dry(path: &str) -> String {
    format!("{path}?dryRun=All")
}

async fn empty_fields_are_not_kept(place: Place) -> Result<()> {
    for rest in [
        json!({"data": null}),
        json!({"data": {}, "binaryData": {}}),
        json!({"immutable": null}),
        json!({"metadata": {"name": "a", "labels": {}, "annotations": null, "finalizers": []}}),
    ] {
        let created = place.admin().post(&dry(&place.all()), &config_map(&rest)).await?.expect(201)?;
        let fields: Vec<&String> = created.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
        ensure!(fields == ["apiVersion", "kind", "metadata"], "{rest}: {created}");
        for field in ["labels", "annotations", "finalizers"] {
            ensure!(created["metadata"].get(field).is_none(), "{created}");
        }
    }
    let spec = json!({"nodeSelector": {}, "hostNetwork": false, "volumes": [{"name": "v", "emptyDir": {"medium": ""}}]});
    let container = json!({"env": [], "command": null, "livenessProbe": null, "stdin": false});
    let pods = dry(&place.core("pods"));
    let created = place.admin().post(&pods, &pod(&spec, &container)).await?.expect(201)?;
    let spec = &created["spec"];
    ensure!(spec.get("nodeSelector").is_none() && spec.get("hostNetwork").is_none(), "{spec}");
    ensure!(spec["volumes"] == json!([{"name": "v", "emptyDir": {}}]), "{spec}");
    for field in ["env", "command", "livenessProbe", "stdin"] {
        ensure!(spec["containers"][0].get(field).is_none(), "{spec}");
    }
    Ok(())
}

async fn fields_emptied_by_patch_are_removed(place: Place) -> Result<()> {
    let body = config_map(&json!({"data": {"k": "1"}, "binaryData": {"b": "YQ=="}}));
    place.create_object(&body).await?;
    for patch in [json!({"data": null}), json!({"data": {"k": null}})] {
        let patched = place.admin().patch(&dry(&place.one("a")), &patch).await?.ok()?;
        ensure!(patched.get("data").is_none() && patched["binaryData"] == json!({"b": "YQ=="}), "{patched}");
    }
    Ok(())
}

async fn some_fields_are_always_present(place: Place) -> Result<()> {
    let inside =
        |group: &str, plural: &str| dry(&format!("/apis/{group}/v1/namespaces/{}/{plural}", place.namespace));
    let budget =
        json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    for (path, rest, field, expected) in [
        (inside("rbac.authorization.k8s.io", "roles"), json!({"rules": []}), "rules", Value::Null),
        (dry(&place.core("limitranges")), json!({}), "spec", json!({"limits": null})),
        (dry(&place.core("resourcequotas")), json!({"spec": null}), "spec", json!({})),
        (inside("coordination.k8s.io", "leases"), json!({}), "spec", json!({})),
        (inside("policy", "poddisruptionbudgets"), json!({"status": null}), "status", budget),
        (
            inside("discovery.k8s.io", "endpointslices"),
            json!({"addressType": "IPv4"}),
            "endpoints",
            Value::Null,
        ),
    ] {
        let created = place.admin().post(&path, &with("a", &rest)).await?.expect(201)?;
        ensure!(created.get(field) == Some(&expected), "{created}");
    }
    let namespace = &place.namespace;
    let event = json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": namespace},
        "series": {"count": 2}, "count": 0});
    let created = place.admin().post(&dry(&place.core("events")), &event).await?.expect(201)?;
    ensure!(created["series"] == json!({"count": 2, "lastObservedTime": null}), "{created}");
    ensure!(
        created.get("count").is_none() && created.get("firstTimestamp") == Some(&Value::Null),
        "{created}"
    );
    Ok(())
}

async fn entries_without_a_value_get_an_empty_one(place: Place) -> Result<()> {
    let body = config_map(&json!({"data": {"k": null}, "binaryData": {"b": null}}));
    let created = place.admin().post(&dry(&place.all()), &body).await?.expect(201)?;
    ensure!(created["data"] == json!({"k": ""}) && created["binaryData"] == json!({"b": ""}), "{created}");
    let body = pod(&json!({}), &json!({"args": [null, "x"]}));
    let created = place.admin().post(&dry(&place.core("pods")), &body).await?.expect(201)?;
    ensure!(created["spec"]["containers"][0]["args"] == json!(["", "x"]), "{created}");
    Ok(())
}

/// Returns invalid values of ConfigMap fields, and their types.
fn wrong_config_maps() -> Vec<(Value, &'static str)> {
    let unmarshal = [
        (json!({"data": {"k": 1}}), "number"),
        (json!({"data": {"k": true}}), "bool"),
        (json!({"data": []}), "array"),
        (json!({"data": "x"}), "string"),
        (json!({"immutable": "x"}), "string"),
        (json!({"binaryData": {"b": 5}}), "number"),
    ];
    unmarshal.into()
}

async fn values_of_wrong_type_are_rejected(place: Place) -> Result<()> {
    place.create("b").await?;
    for (rest, why) in wrong_config_maps() {
        let why = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal {why}"
        );
        for answer in [
            place.admin().post(&place.all(), &config_map(&rest)).await?,
            place.admin().put(&place.one("b"), &with("b", &rest)).await?,
        ] {
            let status = answer.refused(400, "BadRequest")?;
            ensure!(starts_with(&status, &why), "{status}");
        }
    }
    let unreadable = [
        (pod(&json!({"containers": {}}), &json!({})), "object"),
        (pod(&json!({}), &json!({"ports": [{"protocol": 5}]})), "number"),
        (pod(&json!({"volumes": [{"emptyDir": 5}]}), &json!({})), "number"),
        (pod(&json!({}), &json!({"resources": {"requests": 5}})), "number"),
        (pod(&json!({}), &json!({"livenessProbe": {"httpGet": {"port": true}}})), "bool"),
        (json!({"metadata": {"name": "p"}, "status": {"startTime": 5}}), "number"),
    ];
    are_unreadable(&place, &unreadable).await
}

async fn patches_to_wrong_type_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for (patch, why) in wrong_config_maps() {
        let status = place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
        let message = status["message"].as_str().unwrap_or("");
        ensure!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{status}");
        ensure!(message.contains(&format!("}}\": json: cannot unmarshal {why}")), "{status}");
        ensure!(status["details"]["causes"][0]["field"] == "patch", "{status}");
    }
    let operations = json!([{"op": "add", "path": "/binaryData", "value": {"b": "!"}}]);
    let request = Request::patch(place.one("a")).header("content-type", "application/json-patch+json");
    let answer = place.admin().request_bytes(request, operations.to_string().into()).await?;
    let status = answer.refused(422, "Invalid")?;
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.ends_with("\": illegal base64 data at input byte 0"), "{status}");
    Ok(())
}

async fn numbers_must_fit_their_fields(place: Place) -> Result<()> {
    let field = |spec: Value| pod(&spec, &json!({}));
    let unreadable = [
        (field(json!({"priority": 2_147_483_648_i64})), "number"),
        (field(json!({"terminationGracePeriodSeconds": 1.0})), "number"),
        (field(json!({"terminationGracePeriodSeconds": 9_223_372_036_854_775_808_u64})), "number"),
        (pod(&json!({}), &json!({"ports": [{"containerPort": "80"}]})), "string"),
        (pod(&json!({}), &json!({"livenessProbe": {"httpGet": {"port": 80.5}}})), "number"),
    ];
    are_unreadable(&place, &unreadable).await
}

/// Checks that the server cannot decode these Pods. The errors contain the type of the wrong value.
async fn are_unreadable(place: &Place, pods: &[(Value, &str)]) -> Result<()> {
    for (body, why) in pods {
        let status = place.admin().post(&place.core("pods"), body).await?.refused(400, "BadRequest")?;
        let message =
            format!("Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal {why}");
        ensure!(starts_with(&status, &message), "{status}");
    }
    Ok(())
}

async fn applies_of_undecodable_values_are_rejected(place: Place) -> Result<()> {
    let path = format!("{}?fieldManager=m", place.one("a"));
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "binaryData": {"b": "!"}});
    let request = || Request::patch(&path).header("content-type", "application/apply-patch+yaml");
    for _ in ["new", "old"] {
        let status =
            place.admin().request_bytes(request(), body.to_string().into()).await?.refused(500, "")?;
        let message = "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: ";
        ensure!(starts_with(&status, message), "{status}");
        if place.admin().get(&place.one("a")).await?.ok().is_err() {
            place.create("a").await?;
        }
    }
    Ok(())
}

async fn body_of_null_is_an_empty_object(place: Place) -> Result<()> {
    let send = |method: Method, path: String| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        place.admin().request_bytes(request, "null".into())
    };
    let status = send(Method::POST, place.all()).await?.refused(422, "Invalid")?;
    let message =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    ensure!(status["message"] == message, "{status}");
    place.create("a").await?;
    let status = send(Method::PUT, place.one("a")).await?.refused(400, "BadRequest")?;
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

//! `/scale` of custom resources, at the paths in their definition.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::custom::{CRDS, LOOK_AGAIN, wait_established};
use super::place::Place;
use super::scale::{listed, scale};
use super::values::uid;

checks! {
    "The scale of a custom resource uses the paths of its definition.":
        custom_scale_follows_its_paths, custom_scale_is_discovered, custom_scale_can_only_be_read_and_written;
    "A patch of the scale of a custom resource without replicas requires a number of replicas.":
        patch_of_empty_custom_scale_requires_replicas;
    "The status counts of a custom scale come from its paths, and its selector is a string.":
        custom_resource_has_counts_in_its_scale;
}

/// Installs a kind whose replicas are `spec.size` and returns the path of its objects.
async fn install(place: &Place) -> Result<String> {
    let group = format!("{}.test", place.namespace);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("fleets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                    "labelSelectorPath": ".status.selector",
                }},
            }],
        },
    });
    place.admin().post(CRDS, &crd).await?.expect(201)?;
    let all = format!("/apis/{group}/v1/namespaces/{}/fleets", place.namespace);
    wait_established(place, &format!("{CRDS}/fleets.{group}")).await?;
    while place.admin().get(&all).await?.status != 200 {
        sleep(LOOK_AGAIN).await;
    }
    Ok(all)
}

/// Creates the object `d` of the kind that was just installed.
async fn create_fleet(place: &Place, all: &str, spec: Value) -> Result<Value> {
    let kind = format!("{}.test/v1", place.namespace);
    let fleet = json!({"apiVersion": kind, "kind": "Fleet", "metadata": {"name": "d"}, "spec": spec});
    place.admin().post(all, &fleet).await?.expect(201)
}

async fn custom_scale_follows_its_paths(place: Place) -> Result<()> {
    let all = install(&place).await?;
    let fleet = create_fleet(&place, &all, json!({})).await?;
    let path = format!("{all}/d/scale");
    let status = place.admin().get(&path).await?.refused(500, "InternalError")?;
    let why = "the spec replicas field \".spec.size\" does not exist";
    ensure!(status["message"] == format!("Internal error occurred: {why}"), "{status}");
    ensure!(status["details"] == json!({"causes": [{"message": why}]}), "{status}");

    let scaled = place.admin().put(&path, &scale(&place, 3)).await?.ok()?;
    ensure!(scaled["spec"]["replicas"] == 3 && scaled["status"] == json!({"replicas": 0}), "{scaled}");
    ensure!(uid(&scaled)? == uid(&fleet)?, "{scaled}");
    let observed = json!({"status": {"size": 2, "selector": "a=b"}});
    place.admin().patch(&format!("{all}/d/status"), &observed).await?.ok()?;
    let shown = place.admin().patch(&path, &json!({"spec": {"replicas": 4}})).await?.ok()?;
    ensure!(shown["status"] == json!({"replicas": 2, "selector": "a=b"}), "{shown}");
    let object = place.admin().get(&format!("{all}/d")).await?.ok()?;
    ensure!(object["spec"] == json!({"size": 4}) && object["metadata"]["generation"] == 3, "{object}");

    let status = place.admin().put(&path, &scale(&place, -3)).await?.refused(422, "Invalid")?;
    let cause = "Invalid value: -3: should be a non-negative integer";
    ensure!(status["details"]["causes"][0]["message"] == cause, "{status}");
    ensure!(status["details"]["causes"][0]["field"] == ".spec.size", "{status}");
    Ok(())
}

async fn custom_scale_is_discovered(place: Place) -> Result<()> {
    install(&place).await?;
    // Discovery contains a kind shortly after the server serves it.
    let path = format!("/apis/{}.test/v1", place.namespace);
    let list = loop {
        let reply = place.admin().get(&path).await?;
        match reply.status {
            404 => sleep(LOOK_AGAIN).await,
            _ => break reply.ok()?,
        }
    };
    let scale = listed(&list, "fleets/scale");
    ensure!(scale.is_some_and(|scale| scale["kind"] == "Scale" && scale["group"] == "autoscaling"), "{list}");
    Ok(())
}

async fn custom_scale_can_only_be_read_and_written(place: Place) -> Result<()> {
    let path = format!("{}/d", install(&place).await?);
    for part in ["scale", "status"] {
        let path = format!("{path}/{part}");
        let delete = place.admin().delete(&path).await?;
        let create = place.admin().post(&path, &json!({})).await?;
        for (verb, reply) in [("delete", delete), ("create", create)] {
            let status = reply.refused(405, "MethodNotAllowed")?;
            let group = format!("{}.test", place.namespace);
            let message = format!("{verb} is not supported on resources of kind \"fleets.{group}\"");
            ensure!(status["message"] == message, "{status}");
            ensure!(status["details"] == json!({"group": group, "kind": "fleets"}), "{status}");
        }
    }
    Ok(())
}

async fn patch_of_empty_custom_scale_requires_replicas(place: Place) -> Result<()> {
    let all = install(&place).await?;
    create_fleet(&place, &all, json!({})).await?;
    let path = format!("{all}/d/scale");
    for patch in [json!({}), json!({"spec": {}}), json!({"metadata": {"labels": {"a": "b"}}})] {
        let status = place.admin().patch(&path, &patch).await?.refused(400, "BadRequest")?;
        ensure!(status["message"] == "the spec replicas field \".spec.size\" cannot be empty", "{status}");
    }
    ensure!(place.admin().get(&format!("{all}/d")).await?.ok()?["spec"] == json!({}));
    place.admin().patch(&path, &json!({"spec": null})).await?.ok()?;
    ensure!(place.admin().get(&format!("{all}/d")).await?.ok()?["spec"] == json!({"size": 0}));
    Ok(())
}

async fn custom_resource_has_counts_in_its_scale(place: Place) -> Result<()> {
    let all = install(&place).await?;
    create_fleet(&place, &all, json!({"size": 1})).await?;
    for (part, sent, field, why) in [
        ("", json!({"spec": {"size": "x"}}), ".spec.size", ""),
        ("", json!({"spec": {"size": 1.5}}), ".spec.size", ""),
        ("", json!({"spec": {"size": -1}}), ".spec.size", "should be a non-negative integer"),
        ("", json!({"spec": {"size": 99_999_999_999_u64}}), ".spec.size", ""),
        ("/status", json!({"status": {"size": -1}}), ".status.size", "should be a non-negative integer"),
        ("/status", json!({"status": {"selector": 1}}), ".status.selector", ""),
    ] {
        let status = place.admin().patch(&format!("{all}/d{part}"), &sent).await?.refused(422, "Invalid")?;
        let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let is_it = |cause: &Value| {
            cause["field"] == field && cause["message"].as_str().is_some_and(|message| message.contains(why))
        };
        ensure!(causes.iter().any(is_it), "{status}");
    }
    Ok(())
}

//! `/scale`: the number of replicas of every kind that has one, in one shape.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::Reply;
use super::values::{uid, version};

checks! {
    "The scale of an object shows its replicas and its selector, at the object's uid and version.":
        a_scale_shows_its_object, every_kind_that_runs_replicas_has_a_scale, replicas_are_one_unless_said,
        a_scale_is_shown_as_metadata_alone;
    "A write of the scale changes the replicas and nothing else, counts as a new generation, and is told.":
        a_scale_is_put, a_scale_is_patched, a_scale_is_told, a_dry_scale_stays;
    "A write of the scale is refused where the object has changed, is another, or is not there.":
        a_scale_from_an_old_version_conflicts, a_scale_of_another_uid_conflicts, the_scale_of_nothing_is_not_found,
        a_scale_names_its_object;
    "A scale below zero is refused, and so is what is no scale.":
        a_negative_scale_is_refused, another_kind_is_no_scale, replicas_are_a_number;
    "Discovery lists a scale as autoscaling/v1, and other kinds have none.":
        a_scale_is_discovered, other_kinds_have_no_scale;
    "The scale of a custom resource is where its definition says.":
        a_custom_scale_follows_its_paths, a_custom_scale_is_discovered, a_custom_scale_can_only_be_read_and_written;
    "What a patch makes of a scale is a scale again, of the same object, or it is refused.":
        a_patched_scale_is_a_scale, an_applied_scale_is_a_scale;
    "The scale of a custom resource without replicas is not patched without saying how many.":
        a_patch_of_an_empty_custom_scale_says_how_many;
    "A custom resource has counts where its scale is, and the selector is a text.":
        a_custom_resource_has_counts_in_its_scale;
}

fn deployments(place: &Place) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", place.namespace)
}

fn scale_path(place: &Place) -> String {
    format!("{}/d/scale", deployments(place))
}

fn spec() -> Value {
    json!({
        "selector": {
            "matchLabels": {"c": "d", "a": "b"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["q", "b"]}],
        },
        "template": {
            "metadata": {"labels": {"a": "b", "c": "d"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    })
}

/// The deployment `d`.
async fn create(place: &Place) -> Result<Value> {
    let body = json!({"metadata": {"name": "d", "labels": {"x": "y"}}, "spec": spec()});
    place.admin().post(&deployments(place), &body).await?.expect(201)
}

async fn get(place: &Place) -> Result<Value> {
    place.admin().get(&format!("{}/d", deployments(place))).await?.ok()
}

fn scale(place: &Place, replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": place.namespace},
        "spec": {"replicas": replicas},
    })
}

async fn put(place: &Place, scale: &Value) -> Result<Reply> {
    place.admin().put(&scale_path(place), scale).await
}

async fn a_scale_shows_its_object(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let scale = place.admin().get(&scale_path(&place)).await?.ok()?;
    ensure!(scale["kind"] == "Scale" && scale["apiVersion"] == "autoscaling/v1", "{scale}");
    ensure!(uid(&scale)? == uid(&d)? && version(&scale)? == version(&d)?, "{scale}");
    ensure!(scale["metadata"]["creationTimestamp"] == d["metadata"]["creationTimestamp"], "{scale}");
    ensure!(scale["metadata"].get("labels").is_none(), "{scale}");
    ensure!(scale["spec"] == json!({"replicas": 1}), "{scale}");
    ensure!(scale["status"] == json!({"replicas": 0, "selector": "a=b,a in (b,q),c=d"}), "{scale}");
    Ok(())
}

async fn every_kind_that_runs_replicas_has_a_scale(place: Place) -> Result<()> {
    let mut controller = spec();
    controller["selector"] = json!({"c": "d", "a": "b"});
    let mut set = spec();
    set["serviceName"] = "s".into();
    let apps = format!("/apis/apps/v1/namespaces/{}", place.namespace);
    for (all, spec, selector) in [
        (format!("{apps}/replicasets"), spec(), "a=b,a in (b,q),c=d"),
        (format!("{apps}/statefulsets"), set, "a=b,a in (b,q),c=d"),
        (place.core("replicationcontrollers"), controller, "a=b,c=d"),
    ] {
        place.admin().post(&all, &json!({"metadata": {"name": "d"}, "spec": spec})).await?.expect(201)?;
        let path = format!("{all}/d/scale");
        ensure!(place.admin().get(&path).await?.ok()?["spec"]["replicas"] == 1, "{path}");
        let scale = place.admin().put(&path, &scale(&place, 3)).await?.ok()?;
        ensure!(scale["status"] == json!({"replicas": 0, "selector": selector}), "{scale}");
        let object = place.admin().get(&format!("{all}/d")).await?.ok()?;
        ensure!(object["spec"]["replicas"] == 3 && object["metadata"]["generation"] == 2, "{object}");
    }
    Ok(())
}

async fn replicas_are_one_unless_said(place: Place) -> Result<()> {
    let d = create(&place).await?;
    ensure!(d["spec"]["replicas"] == 1, "{d}");
    put(&place, &scale(&place, 0)).await?.ok()?;
    ensure!(get(&place).await?["spec"]["replicas"] == 0);
    Ok(())
}

async fn a_scale_is_shown_as_metadata_alone(place: Place) -> Result<()> {
    create(&place).await?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = place.admin().get_as(&scale_path(&place), accept).await?.ok()?;
    ensure!(partial["kind"] == "PartialObjectMetadata" && partial.get("spec").is_none(), "{partial}");
    Ok(())
}

async fn a_scale_is_put(place: Place) -> Result<()> {
    let before = create(&place).await?;
    let scale = put(&place, &scale(&place, 3)).await?.ok()?;
    ensure!(scale["spec"]["replicas"] == 3 && version(&scale)? > version(&before)?, "{scale}");
    let after = get(&place).await?;
    ensure!(version(&after)? == version(&scale)? && after["metadata"]["generation"] == 2, "{after}");
    ensure!(after["metadata"]["labels"] == before["metadata"]["labels"], "{after}");
    let mut expected = before["spec"].clone();
    expected["replicas"] = 3.into();
    ensure!(after["spec"] == expected, "{after}");
    Ok(())
}

async fn a_scale_is_patched(place: Place) -> Result<()> {
    create(&place).await?;
    let path = scale_path(&place);
    let merged = place.admin().patch(&path, &json!({"spec": {"replicas": 3}})).await?.ok()?;
    ensure!(merged["kind"] == "Scale" && merged["spec"]["replicas"] == 3, "{merged}");
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]);
    let patched =
        place.admin().send(Method::PATCH, &path, "application/json-patch+json", &operations).await?;
    ensure!(patched.ok()?["spec"]["replicas"] == 2);
    let none = place.admin().patch(&path, &json!({"spec": {"replicas": null}})).await?.ok()?;
    ensure!(none["spec"] == json!({}), "{none}");
    ensure!(get(&place).await?["spec"]["replicas"] == 0);
    let same = place.admin().patch(&path, &json!({"metadata": {"labels": {"q": "r"}}})).await?.ok()?;
    ensure!(version(&same)? == version(&none)?, "{same}");
    Ok(())
}

async fn a_scale_is_told(place: Place) -> Result<()> {
    let n = version(&create(&place).await?)?;
    let mut watch =
        place.admin().watch(&format!("{}?watch=true&resourceVersion={n}", deployments(&place))).await?;
    put(&place, &scale(&place, 3)).await?.ok()?;
    let told = watch.expect("MODIFIED", "d").await?;
    ensure!(told["spec"]["replicas"] == 3 && told["kind"] == "Deployment", "{told}");
    Ok(())
}

async fn a_dry_scale_stays(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let path = format!("{}?dryRun=All", scale_path(&place));
    let would = place.admin().put(&path, &scale(&place, 9)).await?.ok()?;
    ensure!(would["spec"]["replicas"] == 9 && version(&would)? == version(&d)?, "{would}");
    ensure!(get(&place).await? == d);
    Ok(())
}

async fn a_scale_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let mut good = scale(&place, 2);
    good["metadata"]["resourceVersion"] = d["metadata"]["resourceVersion"].clone();
    put(&place, &good).await?.ok()?;
    let status = put(&place, &good).await?.refused(409, "Conflict")?;
    let message = "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please \
                   apply your changes to the latest version and try again";
    ensure!(status["message"] == message, "{status}");
    let patch = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 5}});
    place.admin().patch(&scale_path(&place), &patch).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_scale_of_another_uid_conflicts(place: Place) -> Result<()> {
    create(&place).await?;
    let mut other = scale(&place, 2);
    other["metadata"]["uid"] = "other".into();
    put(&place, &other).await?.refused(409, "Conflict")?;
    let patch = json!({"metadata": {"uid": "other"}});
    let status = place.admin().patch(&scale_path(&place), &patch).await?.refused(409, "Conflict")?;
    ensure!(status["details"]["kind"] == "deployments/scale", "{status}");
    Ok(())
}

async fn the_scale_of_nothing_is_not_found(place: Place) -> Result<()> {
    let path = scale_path(&place);
    let expected = json!({"name": "d", "group": "apps", "kind": "deployments"});
    for reply in [
        place.admin().get(&path).await?,
        put(&place, &scale(&place, 2)).await?,
        place.admin().patch(&path, &json!({"spec": {"replicas": 1}})).await?,
    ] {
        let status = reply.refused(404, "NotFound")?;
        ensure!(status["details"] == expected, "{status}");
    }
    Ok(())
}

async fn a_scale_names_its_object(place: Place) -> Result<()> {
    create(&place).await?;
    put(&place, &json!({"spec": {"replicas": 2}})).await?.refused(400, "BadRequest")?;
    put(&place, &json!({"metadata": {"name": "e"}, "spec": {"replicas": 2}}))
        .await?
        .refused(400, "BadRequest")?;
    put(&place, &json!({"metadata": {"name": "d"}, "spec": {"replicas": 2}})).await?.ok()?;
    Ok(())
}

async fn a_negative_scale_is_refused(place: Place) -> Result<()> {
    create(&place).await?;
    let patch = json!({"spec": {"replicas": -1}});
    for reply in
        [put(&place, &scale(&place, -1)).await?, place.admin().patch(&scale_path(&place), &patch).await?]
    {
        let status = reply.refused(422, "Invalid")?;
        let message = "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or \
                       equal to 0";
        ensure!(status["message"] == message && status["details"]["kind"] == "Scale", "{status}");
    }
    Ok(())
}

async fn another_kind_is_no_scale(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let status = put(&place, &d).await?.refused(400, "BadRequest")?;
    let message = "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to \
                   (autoscaling.Scale): unknown conversion";
    ensure!(status["message"] == message, "{status}");
    let mut wrong = scale(&place, 2);
    wrong["apiVersion"] = "apps/v1".into();
    put(&place, &wrong).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn replicas_are_a_number(place: Place) -> Result<()> {
    create(&place).await?;
    for (replicas, found) in [(json!("x"), "string"), (json!(1.5), "number 1.5")] {
        let mut wrong = scale(&place, 2);
        wrong["spec"]["replicas"] = replicas;
        let status = put(&place, &wrong).await?.refused(400, "BadRequest")?;
        let message = format!(
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {found} into Go struct \
             field ScaleSpec.spec.replicas of type int32"
        );
        ensure!(status["message"] == message, "{status}");
    }
    Ok(())
}

fn listed<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list["resources"].as_array()?.iter().find(|resource| resource["name"] == name)
}

async fn a_scale_is_discovered(place: Place) -> Result<()> {
    for (path, kinds) in [
        ("/apis/apps/v1", &["deployments", "replicasets", "statefulsets"][..]),
        ("/api/v1", &["replicationcontrollers"]),
    ] {
        let list = place.admin().get(path).await?.ok()?;
        for kind in kinds {
            let name = format!("{kind}/scale");
            let expected = json!({
                "name": name, "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get", "patch", "update"],
            });
            ensure!(listed(&list, &name) == Some(&expected), "{name} in {list}");
        }
        ensure!(listed(&list, "daemonsets/scale").is_none(), "{list}");
    }
    Ok(())
}

async fn other_kinds_have_no_scale(place: Place) -> Result<()> {
    let path = format!("/apis/apps/v1/namespaces/{}/daemonsets/d/scale", place.namespace);
    place.admin().get(&path).await?.refused(404, "NotFound")?;
    create(&place).await?;
    place.admin().delete(&scale_path(&place)).await?.refused(405, "MethodNotAllowed")?;
    place.admin().post(&scale_path(&place), &json!({})).await?.refused(405, "MethodNotAllowed")?;
    Ok(())
}

/// Installs a kind whose replicas are `spec.size` and gives the path of its objects.
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
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    place.admin().post(crds, &crd).await?.expect(201)?;
    let all = format!("/apis/{group}/v1/namespaces/{}/fleets", place.namespace);
    while place.admin().get(&all).await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(all)
}

async fn a_custom_scale_follows_its_paths(place: Place) -> Result<()> {
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

async fn a_custom_scale_is_discovered(place: Place) -> Result<()> {
    install(&place).await?;
    let list = place.admin().get(&format!("/apis/{}.test/v1", place.namespace)).await?.ok()?;
    let scale = listed(&list, "fleets/scale");
    ensure!(scale.is_some_and(|scale| scale["kind"] == "Scale" && scale["group"] == "autoscaling"), "{list}");
    Ok(())
}

async fn a_custom_scale_can_only_be_read_and_written(place: Place) -> Result<()> {
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

async fn a_patched_scale_is_a_scale(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let path = scale_path(&place);
    for (patch, why) in [
        (
            json!({"spec": {"replicas": "x"}}),
            "string into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"replicas": 99_999_999_999_u64}}),
            "number 99999999999 into Go struct field ScaleSpec.spec.replicas of type int32",
        ),
        (json!({"spec": []}), "array into Go struct field Scale.spec of type v1.ScaleSpec"),
        (json!({"status": "x"}), "string into Go struct field Scale.status of type v1.ScaleStatus"),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
    ] {
        let status = place.admin().patch(&path, &patch).await?.refused(422, "Invalid")?;
        let message = status["message"].as_str().unwrap_or("");
        ensure!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{status}");
        ensure!(message.ends_with(&format!(": json: cannot unmarshal {why}")), "{status}");
    }
    for patch in [
        json!({"kind": "Other"}),
        json!({"apiVersion": "v1"}),
        json!({"kind": "ConfigMap", "apiVersion": "v1"}),
    ] {
        place.admin().patch(&path, &patch).await?.refused(422, "Invalid")?;
    }
    for metadata in [json!({"name": "e"}), json!({"name": null}), json!({"namespace": "other"})] {
        place.admin().patch(&path, &json!({"metadata": metadata})).await?.refused(400, "BadRequest")?;
    }
    let mut wrong = scale(&place, 2);
    wrong["spec"] = json!([]);
    put(&place, &wrong).await?.refused(400, "BadRequest")?;
    ensure!(get(&place).await?["spec"] == d["spec"]);
    Ok(())
}

async fn an_applied_scale_is_a_scale(place: Place) -> Result<()> {
    create(&place).await?;
    let path = format!("{}?fieldManager=m&force=true", scale_path(&place));
    let apply = async |spec: Value| {
        let mut applied = scale(&place, 0);
        applied["spec"] = spec;
        place.admin().send(Method::PATCH, &path, "application/apply-patch+yaml", &applied).await
    };
    let typed =
        format!("failed to create typed patch object ({}/d; autoscaling/v1, Kind=Scale): ", place.namespace);
    for (spec, why) in [
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!([]), ".spec: expected map, got &{[]}"),
    ] {
        let status = apply(spec).await?.refused(500, "")?;
        ensure!(status["message"] == format!("{typed}{why}"), "{status}");
    }
    apply(json!({"replicas": 1.5})).await?.refused(500, "")?;
    apply(json!({"replicas": -1})).await?.refused(422, "Invalid")?;
    ensure!(apply(json!({"replicas": 4})).await?.ok()?["spec"]["replicas"] == 4);
    Ok(())
}

/// Creates the object `d` of the kind that was just installed.
async fn create_fleet(place: &Place, all: &str, spec: Value) -> Result<Value> {
    let kind = format!("{}.test/v1", place.namespace);
    let fleet = json!({"apiVersion": kind, "kind": "Fleet", "metadata": {"name": "d"}, "spec": spec});
    // The definition has just been taken up; a create may still meet the server before it.
    loop {
        let reply = place.admin().post(all, &fleet).await?;
        if reply.status != 404 {
            return reply.expect(201);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn a_patch_of_an_empty_custom_scale_says_how_many(place: Place) -> Result<()> {
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

async fn a_custom_resource_has_counts_in_its_scale(place: Place) -> Result<()> {
    let all = install(&place).await?;
    create_fleet(&place, &all, json!({"size": 1})).await?;
    let accessor = |path: &str, what: &str| (path.to_owned(), format!("{path} accessor error: {what}"));
    for (part, sent, (field, why), shown) in [
        (
            "",
            json!({"spec": {"size": "x"}}),
            accessor(".spec.size", "x is of the type string, expected int64"),
            "0",
        ),
        (
            "",
            json!({"spec": {"size": 1.5}}),
            accessor(".spec.size", "1.5 is of the type float64, expected int64"),
            "0",
        ),
        (
            "",
            json!({"spec": []}),
            accessor(".spec.size", "[] is of the type []interface {}, expected map[string]interface{}"),
            "0",
        ),
        (
            "",
            json!({"spec": {"size": -1}}),
            (".spec.size".into(), "should be a non-negative integer".into()),
            "-1",
        ),
        (
            "",
            json!({"spec": {"size": 99_999_999_999_u64}}),
            (".spec.size".into(), "should be less than or equal to 2147483647".into()),
            "99999999999",
        ),
        (
            "/status",
            json!({"status": {"size": -1}}),
            (".status.size".into(), "should be a non-negative integer".into()),
            "-1",
        ),
        (
            "/status",
            json!({"status": {"selector": 1}}),
            accessor(".status.selector", "1 is of the type int64, expected string"),
            "\"\"",
        ),
    ] {
        let status = place.admin().patch(&format!("{all}/d{part}"), &sent).await?.refused(422, "Invalid")?;
        let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let message = format!("Invalid value: {shown}: {why}");
        ensure!(
            causes.iter().any(|cause| cause["field"] == field && cause["message"] == message),
            "{status}"
        );
    }
    Ok(())
}

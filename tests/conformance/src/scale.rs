//! `/scale`: the number of replicas, in one format for all kinds.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{Reply, starts_with};
use super::schemas::warnings;
use super::values::{uid, version};

checks! {
    "The scale of an object contains its replicas and its selector, with uid and version of the object.":
        scale_describes_its_object, every_kind_that_runs_replicas_has_a_scale, default_number_of_replicas_is_one,
        scale_is_returned_as_metadata_only;
    "A write of the scale changes only the replicas, increments the generation, and is sent to watches.":
        scale_is_replaced, scale_is_patched, change_of_scale_is_sent_to_watches, dry_scale_stays;
    "A write of the scale is rejected if the object changed, has a different uid, or is missing.":
        scale_from_an_old_version_conflicts, scale_of_another_uid_conflicts, scale_of_missing_object_is_not_found,
        scale_requires_name_of_object;
    "Negative replicas and bodies that are not a scale are rejected.":
        negative_scale_is_rejected, other_kind_is_not_a_scale, replicas_are_a_number, fields_of_a_scale_are_known;
    "Discovery lists a scale as autoscaling/v1, and other kinds have no scale.":
        scale_is_discovered, other_kinds_have_no_scale;
    "The result of a patch of a scale must be a scale of the same object.":
        patched_scale_is_a_scale;
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

pub(super) fn scale(place: &Place, replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": place.namespace},
        "spec": {"replicas": replicas},
    })
}

async fn put(place: &Place, scale: &Value) -> Result<Reply> {
    place.admin().put(&scale_path(place), scale).await
}

async fn scale_describes_its_object(place: Place) -> Result<()> {
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

async fn default_number_of_replicas_is_one(place: Place) -> Result<()> {
    let d = create(&place).await?;
    ensure!(d["spec"]["replicas"] == 1, "{d}");
    put(&place, &scale(&place, 0)).await?.ok()?;
    ensure!(get(&place).await?["spec"]["replicas"] == 0);
    Ok(())
}

async fn scale_is_returned_as_metadata_only(place: Place) -> Result<()> {
    create(&place).await?;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = place.admin().get_as(&scale_path(&place), accept).await?.ok()?;
    ensure!(partial["kind"] == "PartialObjectMetadata" && partial.get("spec").is_none(), "{partial}");
    Ok(())
}

async fn scale_is_replaced(place: Place) -> Result<()> {
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

async fn scale_is_patched(place: Place) -> Result<()> {
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

async fn change_of_scale_is_sent_to_watches(place: Place) -> Result<()> {
    let n = version(&create(&place).await?)?;
    let mut watch =
        place.admin().watch(&format!("{}?watch=true&resourceVersion={n}", deployments(&place))).await?;
    put(&place, &scale(&place, 3)).await?.ok()?;
    let told = watch.expect("MODIFIED", "d").await?;
    ensure!(told["spec"]["replicas"] == 3 && told["kind"] == "Deployment", "{told}");
    Ok(())
}

async fn dry_scale_stays(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let path = format!("{}?dryRun=All", scale_path(&place));
    let would = place.admin().put(&path, &scale(&place, 9)).await?.ok()?;
    ensure!(would["spec"]["replicas"] == 9 && version(&would)? == version(&d)?, "{would}");
    ensure!(get(&place).await? == d);
    Ok(())
}

async fn scale_from_an_old_version_conflicts(place: Place) -> Result<()> {
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

async fn scale_of_another_uid_conflicts(place: Place) -> Result<()> {
    create(&place).await?;
    let mut other = scale(&place, 2);
    other["metadata"]["uid"] = "other".into();
    put(&place, &other).await?.refused(409, "Conflict")?;
    let patch = json!({"metadata": {"uid": "other"}});
    let status = place.admin().patch(&scale_path(&place), &patch).await?.refused(409, "Conflict")?;
    ensure!(status["details"]["kind"] == "deployments/scale", "{status}");
    Ok(())
}

async fn scale_of_missing_object_is_not_found(place: Place) -> Result<()> {
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

async fn scale_requires_name_of_object(place: Place) -> Result<()> {
    create(&place).await?;
    put(&place, &json!({"spec": {"replicas": 2}})).await?.refused(400, "BadRequest")?;
    put(&place, &json!({"metadata": {"name": "e"}, "spec": {"replicas": 2}}))
        .await?
        .refused(400, "BadRequest")?;
    put(&place, &json!({"metadata": {"name": "d"}, "spec": {"replicas": 2}})).await?.ok()?;
    Ok(())
}

async fn negative_scale_is_rejected(place: Place) -> Result<()> {
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

async fn other_kind_is_not_a_scale(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let status = put(&place, &d).await?.refused(400, "BadRequest")?;
    ensure!(starts_with(&status, "Deployment in version \"v1\" cannot be handled as a Scale: "), "{status}");
    let mut wrong = scale(&place, 2);
    wrong["apiVersion"] = "apps/v1".into();
    put(&place, &wrong).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn fields_of_a_scale_are_known(place: Place) -> Result<()> {
    create(&place).await?;
    let body = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3, "zip": 1}});
    let path = |validation: &str| format!("{}?dryRun=All&fieldValidation={validation}", scale_path(&place));
    let status = place.admin().put(&path("Strict"), &body).await?.refused(400, "BadRequest")?;
    let message = "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.zip\"";
    ensure!(status["message"] == message, "{status}");
    for answer in
        [place.admin().put(&path("Warn"), &body).await?, place.admin().patch(&path("Warn"), &body).await?]
    {
        ensure!(warnings(&answer) == ["299 - \"unknown field \\\"spec.zip\\\"\""], "{answer}");
        ensure!(answer.ok()?["spec"] == json!({"replicas": 3}));
    }
    Ok(())
}

async fn replicas_are_a_number(place: Place) -> Result<()> {
    create(&place).await?;
    for (replicas, found) in [(json!("x"), "string"), (json!(1.5), "number")] {
        let mut wrong = scale(&place, 2);
        wrong["spec"]["replicas"] = replicas;
        let status = put(&place, &wrong).await?.refused(400, "BadRequest")?;
        let message =
            format!("Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {found}");
        ensure!(starts_with(&status, &message), "{status}");
    }
    Ok(())
}

pub(super) fn listed<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list["resources"].as_array()?.iter().find(|resource| resource["name"] == name)
}

async fn scale_is_discovered(place: Place) -> Result<()> {
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

async fn patched_scale_is_a_scale(place: Place) -> Result<()> {
    let d = create(&place).await?;
    let path = scale_path(&place);
    for (patch, why) in [
        (json!({"spec": {"replicas": "x"}}), "string"),
        (json!({"spec": {"replicas": 1.5}}), "number"),
        (json!({"spec": {"replicas": 99_999_999_999_u64}}), "number"),
        (json!({"spec": []}), "array"),
        (json!({"status": "x"}), "string"),
        (json!({"metadata": {"labels": {"a": 1}}}), "number"),
    ] {
        let status = place.admin().patch(&path, &patch).await?.refused(422, "Invalid")?;
        let message = status["message"].as_str().unwrap_or("");
        ensure!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{status}");
        ensure!(message.contains(&format!(": json: cannot unmarshal {why}")), "{status}");
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

//! Server-side apply.

use anyhow::{Context as _, Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::ownership::{owner, owners, sorted};
use super::place::Place;
use super::raw::{MERGE_PATCH, Reply};
use super::values::version;

checks! {
    "An apply of a missing object creates it with 201, and owns only the applied fields.":
        apply_creates, apply_of_status_does_not_create;
    "An apply without changes keeps the version.":
        apply_without_change_keeps_the_version;
    "Appliers share a field on whose value they agree.":
        appliers_share_a_field;
    "An apply to a field of a second manager fails with 409, and lists each field and its owner. Force overrides it.":
        conflict_names_fields_and_owners, single_conflict_has_one_line, forced_apply_takes_fields;
    "A field that an applier omits is removed, if no other manager owns it.":
        omitted_field_is_removed, shared_field_stays, field_of_an_updater_stays;
    "Lists are merged by their keys; atomic lists are replaced.":
        lists_are_merged_by_key, sets_are_merged, duplicate_item_is_rejected;
    "A status is applied separately, and the other fields do not change.":
        status_is_applied_separately;
    "Fields without an owner are assigned to before-first-apply at the first apply.":
        unowned_has_an_owner_at_the_first_apply;
    "An apply requires a field manager, kind, apiVersion and name, and rejects managedFields.":
        apply_needs_a_manager, apply_requires_kind_and_name, apply_with_managed_fields_is_rejected;
    "An apply names an identity or a version only as a condition.":
        apply_from_an_old_version_conflicts, apply_with_other_uid_is_rejected;
    "An apply is YAML, and neither +json nor +cbor.":
        apply_is_yaml, apply_with_other_content_type_is_rejected;
    "Only an apply forces.":
        only_an_apply_forces;
    "A dry-run apply is not stored.":
        dry_run_apply_is_not_stored;
    "The first server-side apply of kubectl takes over the fields of earlier client-side applies.":
        kubectl_apply_takes_over_client_side_fields;
}

const APPLY: &str = "application/apply-patch+yaml";

async fn send(place: &Place, manager: &str, object: &Value, query: &str) -> Result<Reply> {
    let name = object["metadata"]["name"].as_str().context("no name")?;
    let path = format!("{}?fieldManager={manager}{query}", place.one(name));
    place.admin().send(Method::PATCH, &path, APPLY, object).await
}

async fn apply(place: &Place, manager: &str, data: Value) -> Result<Value> {
    send(place, manager, &config(data), "").await?.ok()
}

/// The ConfigMap `a` with this data.
fn config(data: Value) -> Value {
    let mut config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    config["data"] = data;
    config
}

fn applier(manager: &str, fields: &Value) -> Value {
    owner(manager, "Apply", fields)
}

async fn apply_creates(place: Place) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"},
        "metadata": {"name": "a", "labels": {"x": "1"}, "resourceVersion": "1"}});
    let created = send(&place, "one", &object, "").await?.expect(201)?;
    let fields = json!({"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
    ensure!(owners(&created) == json!([applier("one", &fields)]), "{created}");
    ensure!(place.get("a").await? == created);
    Ok(())
}

async fn apply_of_status_does_not_create(place: Place) -> Result<()> {
    let path = place.core("pods/p/status?fieldManager=one");
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "m"}});
    place.admin().send(Method::PATCH, &path, APPLY, &pod).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn apply_without_change_keeps_the_version(place: Place) -> Result<()> {
    let created = send(&place, "one", &config(json!({"k": "1"})), "").await?.expect(201)?;
    ensure!(apply(&place, "one", json!({"k": "1"})).await? == created);
    Ok(())
}

async fn appliers_share_a_field(place: Place) -> Result<()> {
    let created = send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    let shared = apply(&place, "two", json!({"k": "1"})).await?;
    let expected = json!([
        applier("one", &json!({"f:data": {"f:k": {}, "f:l": {}}})),
        applier("two", &json!({"f:data": {"f:k": {}}})),
    ]);
    ensure!(sorted(owners(&shared)) == expected && version(&shared)? > version(&created)?, "{shared}");
    let times = |owner: &Value| owner["manager"] == "two" && owner.get("time").is_some();
    // A manager without changes has no time.
    let list = shared["metadata"]["managedFields"].as_array().context("no owners")?;
    ensure!(!list.iter().any(times), "{shared}");
    Ok(())
}

async fn conflict_names_fields_and_owners(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    let path = format!("{}?fieldManager=two", place.one("a"));
    place.admin().send(Method::PATCH, &path, MERGE_PATCH, &json!({"data": {"m": "2"}})).await?.ok()?;
    let refused = send(&place, "three", &config(json!({"k": "3", "l": "3", "m": "3"})), "").await?;
    let status = refused.refused(409, "Conflict")?;
    let message = "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l\nconflicts with \
                   \"two\" using v1:\n- .data.m";
    ensure!(status["message"] == message, "{status}");
    let mut causes = status["details"]["causes"].as_array().context("no causes")?.clone();
    causes.sort_by_key(|cause| cause["field"].to_string());
    let cause = |owner: &str, field: &str| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {owner}"), "field": field});
    let expected =
        [cause("\"one\"", ".data.k"), cause("\"one\"", ".data.l"), cause("\"two\" using v1", ".data.m")];
    ensure!(causes == expected, "{status}");
    Ok(())
}

async fn single_conflict_has_one_line(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1"})), "").await?.expect(201)?;
    let status = send(&place, "two", &config(json!({"k": "2"})), "").await?.refused(409, "Conflict")?;
    ensure!(status["message"] == "Apply failed with 1 conflict: conflict with \"one\": .data.k", "{status}");
    Ok(())
}

async fn forced_apply_takes_fields(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    let taken = send(&place, "two", &config(json!({"k": "2"})), "&force=true").await?.ok()?;
    let expected = json!([
        applier("one", &json!({"f:data": {"f:l": {}}})),
        applier("two", &json!({"f:data": {"f:k": {}}})),
    ]);
    ensure!(sorted(owners(&taken)) == expected && taken["data"] == json!({"k": "2", "l": "1"}), "{taken}");
    Ok(())
}

async fn omitted_field_is_removed(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    let applied = apply(&place, "one", json!({"l": "1"})).await?;
    ensure!(applied["data"] == json!({"l": "1"}), "{applied}");
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applied = send(&place, "one", &nothing, "").await?.ok()?;
    ensure!(applied.get("data").is_none() && applied["metadata"].get("managedFields").is_none(), "{applied}");
    Ok(())
}

async fn shared_field_stays(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    apply(&place, "two", json!({"k": "1"})).await?;
    let applied = apply(&place, "one", json!({})).await?;
    ensure!(applied["data"] == json!({"k": "1"}), "{applied}");
    Ok(())
}

async fn field_of_an_updater_stays(place: Place) -> Result<()> {
    send(&place, "one", &config(json!({"k": "1", "l": "1"})), "").await?.expect(201)?;
    place.set("a", "2").await?;
    let applied = apply(&place, "one", json!({})).await?;
    ensure!(applied["data"] == json!({"k": "2"}), "{applied}");
    Ok(())
}

/// A pod template, which may be changed in every way.
fn template(containers: Value) -> Value {
    let mut template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}});
    template["template"]["spec"]["containers"] = containers;
    template
}

async fn apply_template(place: &Place, manager: &str, containers: Value) -> Result<Reply> {
    let path = place.core(&format!("podtemplates/t?fieldManager={manager}"));
    place.admin().send(Method::PATCH, &path, APPLY, &template(containers)).await
}

/// Names and images of containers, and the args that replace each other.
fn brief(template: &Value) -> Vec<(String, String, String)> {
    let containers = template["template"]["spec"]["containers"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let one = |c: &Value| (text(&c["name"]), text(&c["image"]), c["args"].to_string());
    containers.into_iter().flatten().map(one).collect()
}

async fn lists_are_merged_by_key(place: Place) -> Result<()> {
    let ports = json!([{"containerPort": 80}, {"containerPort": 81, "name": "x"}]);
    let first =
        json!([{"name": "a", "image": "1", "args": ["1", "2"], "ports": ports}, {"name": "b", "image": "1"}]);
    let created = apply_template(&place, "one", first).await?.expect(201)?;
    let port = |number: u16| format!("k:{{\"containerPort\":{number},\"protocol\":\"TCP\"}}");
    let owned = &owners(&created)[0]["fieldsV1"]["f:template"]["f:spec"]["f:containers"];
    let expected = json!({
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:ports": {
            port(80): {".": {}, "f:containerPort": {}},
            port(81): {".": {}, "f:containerPort": {}, "f:name": {}}}},
        "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}},
    });
    ensure!(*owned == expected, "{created}");
    let second = json!([{"name": "c", "image": "2"}, {"name": "a", "tty": true}]);
    let merged = apply_template(&place, "two", second).await?.ok()?;
    let all = |name: &str, image: &str, args: &str| (name.to_owned(), image.to_owned(), args.to_owned());
    let expected = [all("c", "2", "null"), all("a", "1", "[\"1\",\"2\"]"), all("b", "1", "null")];
    ensure!(brief(&merged) == expected, "{merged}");
    let less = json!([{"name": "a", "image": "1", "args": ["3"]}]);
    let pruned = apply_template(&place, "one", less).await?.ok()?;
    ensure!(brief(&pruned) == [all("c", "2", "null"), all("a", "1", "[\"3\"]")], "{pruned}");
    ensure!(pruned["template"]["spec"]["containers"][1].get("ports").is_none(), "{pruned}");
    Ok(())
}

async fn sets_are_merged(place: Place) -> Result<()> {
    let object = |list: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": list}});
    send(&place, "one", &object(json!(["x.test/1", "x.test/2"])), "").await?.expect(201)?;
    let merged = send(&place, "two", &object(json!(["x.test/3", "x.test/2"])), "").await?.ok()?;
    ensure!(merged["metadata"]["finalizers"] == json!(["x.test/1", "x.test/3", "x.test/2"]), "{merged}");
    let left = send(&place, "one", &object(json!([])), "").await?.ok()?;
    ensure!(left["metadata"]["finalizers"] == json!(["x.test/3", "x.test/2"]), "{left}");
    Ok(())
}

async fn duplicate_item_is_rejected(place: Place) -> Result<()> {
    let twice = json!([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}]);
    let status = apply_template(&place, "one", twice).await?.refused(500, "")?;
    let message = "failed to create typed patch object (/t; /v1, Kind=PodTemplate): \
                   .template.spec.containers: duplicate entries for key [name=\"a\"]";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn status_is_applied_separately(place: Place) -> Result<()> {
    place.create_pod("p", None).await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"dnsPolicy": "None"}, "status": {"message": "m"}});
    let path = place.core("pods/p/status?fieldManager=one");
    let applied = place.admin().send(Method::PATCH, &path, APPLY, &pod).await?.ok()?;
    let mut expected = applier("one", &json!({"f:status": {"f:message": {}}}));
    expected["subresource"] = json!("status");
    ensure!(owners(&applied)[0] == expected && applied["spec"]["dnsPolicy"] == "ClusterFirst", "{applied}");
    let path = place.core("pods/p/status?fieldManager=two");
    let other =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "n"}});
    let refused = place.admin().send(Method::PATCH, &path, APPLY, &other).await?.refused(409, "Conflict")?;
    let message =
        "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.message";
    ensure!(refused["message"] == message, "{refused}");
    Ok(())
}

async fn unowned_has_an_owner_at_the_first_apply(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await?;
    place.patch("a", json!({"metadata": {"managedFields": [{}]}})).await?;
    let applied = apply(&place, "one", json!({"l": "1"})).await?;
    let expected = json!([
        applier("one", &json!({"f:data": {"f:l": {}}})),
        owner("before-first-apply", "Update", &json!({"f:data": {".": {}, "f:k": {}}})),
    ]);
    ensure!(owners(&applied) == expected, "{applied}");
    Ok(())
}

async fn apply_needs_a_manager(place: Place) -> Result<()> {
    let reply = place.admin().send(Method::PATCH, &place.one("a"), APPLY, &config(json!({}))).await?;
    let status = reply.refused(422, "Invalid")?;
    let message =
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn apply_requires_kind_and_name(place: Place) -> Result<()> {
    let path = format!("{}?fieldManager=one", place.one("a"));
    for (object, message) in [
        (json!({}), "invalid object type: /, Kind="),
        (json!({"apiVersion": "v1", "kind": "Secret"}), "invalid object type: /v1, Kind=Secret"),
        (
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap"}),
            "invalid object type: apps/v1, Kind=ConfigMap",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
    ] {
        let reply = place.admin().send(Method::PATCH, &path, APPLY, &object).await?;
        let status = reply.refused(400, "BadRequest")?;
        ensure!(status["message"] == message, "{status}");
    }
    Ok(())
}

async fn apply_with_managed_fields_is_rejected(place: Place) -> Result<()> {
    let mut object = config(json!({}));
    object["metadata"]["managedFields"] = json!([]);
    let status = send(&place, "one", &object, "").await?.refused(400, "BadRequest")?;
    ensure!(status["message"] == "metadata.managedFields must be nil", "{status}");
    Ok(())
}

async fn apply_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let old = send(&place, "one", &config(json!({"k": "1"})), "").await?.expect(201)?;
    apply(&place, "one", json!({"k": "2"})).await?;
    let mut object = config(json!({"k": "3"}));
    object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    send(&place, "one", &object, "").await?.refused(409, "Conflict")?;
    Ok(())
}

async fn apply_with_other_uid_is_rejected(place: Place) -> Result<()> {
    let mut object = config(json!({"k": "1"}));
    object["metadata"]["uid"] = json!("other");
    let status = send(&place, "one", &object, "").await?.refused(409, "Conflict")?;
    let message = "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid \
                   other, and no existing object was found";
    ensure!(status["message"] == message, "{status}");
    send(&place, "one", &config(json!({"k": "1"})), "").await?.expect(201)?;
    send(&place, "one", &object, "").await?.refused(422, "Invalid")?;
    Ok(())
}

async fn apply_is_yaml(place: Place) -> Result<()> {
    let path = format!("{}?fieldManager=one", place.one("a"));
    let request = || Request::patch(&path).header(header::CONTENT_TYPE, APPLY);
    let yaml =
        "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    1\n    2\n";
    let created = place.admin().request_bytes(request(), yaml.into()).await?.expect(201)?;
    ensure!(created["data"] == json!({"k": "1\n2\n"}), "{created}");
    let broken = place.admin().request_bytes(request(), "{a: 1".into()).await?;
    let status = broken.refused(400, "BadRequest")?;
    ensure!(status["message"].as_str().is_some_and(|m| m.starts_with("error decoding YAML: ")), "{status}");
    Ok(())
}

async fn apply_with_other_content_type_is_rejected(place: Place) -> Result<()> {
    for format in ["application/apply-patch+json", "application/apply-patch+cbor"] {
        let path = format!("{}?fieldManager=one", place.one("a"));
        let reply = place.admin().send(Method::PATCH, &path, format, &config(json!({}))).await?;
        reply.refused(415, "UnsupportedMediaType")?;
    }
    Ok(())
}

async fn only_an_apply_forces(place: Place) -> Result<()> {
    place.create("a").await?;
    let path = format!("{}?force=true", place.one("a"));
    let status = place.admin().patch(&path, &json!({})).await?.refused(422, "Invalid")?;
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn dry_run_apply_is_not_stored(place: Place) -> Result<()> {
    let shown = send(&place, "one", &config(json!({"k": "1"})), "&dryRun=All").await?.expect(201)?;
    ensure!(shown["data"] == json!({"k": "1"}) && !owners(&shown).is_null(), "{shown}");
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn kubectl_apply_takes_over_client_side_fields(place: Place) -> Result<()> {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let last = config(json!({"k": "1", "l": "1"})).to_string();
    let mut object = config(json!({"k": "1", "l": "1"}));
    object["metadata"]["annotations"] = json!({LAST: last});
    let path = format!("{}?fieldManager=kubectl-client-side-apply", place.all());
    place.admin().post(&path, &object).await?.expect(201)?;
    let taken = apply(&place, "kubectl", json!({"k": "2"})).await?;
    ensure!(taken["data"] == json!({"k": "2", "l": "1"}), "{taken}");
    let kept = taken["metadata"]["annotations"][LAST].as_str().context("no annotation")?;
    let kept: Value = serde_json::from_str(kept)?;
    ensure!(kept["data"] == json!({"k": "2"}), "{taken}");
    place.patch("a", json!({"data": {"l": "9"}})).await?;
    send(&place, "kubectl", &config(json!({"l": "3"})), "").await?.refused(409, "Conflict")?;
    Ok(())
}

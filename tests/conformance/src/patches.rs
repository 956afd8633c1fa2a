//! Patches: merge patches, JSON patches, and strategic merge patches without lists.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{MERGE_PATCH, Reply, starts_with};
use super::values::{uid, version};

checks! {
    "A merge patch sets fields with a value, removes fields with null, and keeps other fields.":
        merge_patch_sets_and_keeps, merge_patch_removes_nulls, merge_patch_replaces_arrays;
    "A merge patch without changes keeps the version.":
        patch_without_change_keeps_the_version;
    "A merge patch that names an old version conflicts.":
        patch_from_an_old_version_conflicts, patch_from_the_newest_version_is_accepted;
    "A merge patch cannot change the name or the uid of an object.":
        patch_keeps_the_name, patch_keeps_the_identity;
    "A merge patch of a missing object is rejected with 404.":
        patch_of_missing_object_is_rejected;
    "A JSON patch does all of its operations or none.":
        json_patch_adds_replaces_and_removes, json_patch_with_failed_test_does_not_change_object,
        json_patch_is_an_array;
    "A JSON patch changes items by their index, an absent value is null, and the root can be replaced.":
        index_selects_an_item, absent_value_is_null, root_can_only_be_replaced;
    "An invalid JSON patch is rejected with 400, and a JSON patch that cannot be applied with 422.":
        invalid_json_patch_is_rejected, inapplicable_json_patch_is_rejected;
    "Null is not a merge patch, but is an empty strategic merge patch and an empty JSON patch.":
        null_is_an_empty_patch;
    "Built-in kinds support strategic merge patches, and custom kinds do not.":
        strategic_merge_patch_sets_and_removes;
    "A patch that is not an object is rejected with 400, and an unknown format with 415.":
        patch_is_an_object, patch_has_a_known_format;
}

async fn merge_patch_sets_and_keeps(place: Place) -> Result<()> {
    let created =
        place.create_object(&json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "2"}})).await?;
    let patched =
        place.patch("a", json!({"data": {"k": "3", "m": "4"}, "metadata": {"labels": {"x": "5"}}})).await?;
    ensure!(patched["data"] == json!({"k": "3", "l": "2", "m": "4"}), "{patched}");
    ensure!(
        patched["metadata"]["labels"] == json!({"x": "5"}) && uid(&patched)? == uid(&created)?,
        "{patched}"
    );
    ensure!(version(&patched)? > version(&created)? && place.get("a").await? == patched);
    Ok(())
}

async fn merge_patch_removes_nulls(place: Place) -> Result<()> {
    place
        .create_object(
            &json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "1", "l": "2"}}),
        )
        .await?;
    let patched = place.patch("a", json!({"data": {"k": null}, "metadata": {"labels": null}})).await?;
    ensure!(patched["data"] == json!({"l": "2"}) && patched["metadata"].get("labels").is_none(), "{patched}");
    let patched = place.patch("a", json!({"data": null})).await?;
    ensure!(patched.get("data").is_none(), "{patched}");
    Ok(())
}

async fn merge_patch_replaces_arrays(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/1", "x.test/2"]}})).await?;
    let patched = place.patch("a", json!({"metadata": {"finalizers": ["x.test/2"]}})).await?;
    ensure!(patched["metadata"]["finalizers"] == json!(["x.test/2"]), "{patched}");
    Ok(())
}

async fn patch_without_change_keeps_the_version(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "1").await?;
    for patch in [json!({}), json!({"data": {"k": "1"}}), json!({"data": {"absent": null}})] {
        ensure!(place.patch("a", patch).await? == last);
    }
    Ok(())
}

async fn patch_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let old = place.create("a").await?;
    let newer = place.set("a", "newer").await?;
    let patch =
        json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "older"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(409, "Conflict")?;
    ensure!(place.get("a").await? == newer);
    Ok(())
}

async fn patch_from_the_newest_version_is_accepted(place: Place) -> Result<()> {
    let object = place.create("a").await?;
    let n = &object["metadata"]["resourceVersion"];
    let patched = place.patch("a", json!({"metadata": {"resourceVersion": n}, "data": {"k": "1"}})).await?;
    ensure!(version(&patched)? > version(&object)?);
    Ok(())
}

async fn patch_keeps_the_name(place: Place) -> Result<()> {
    place.create("a").await?;
    let patch = json!({"metadata": {"name": "b"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn patch_keeps_the_identity(place: Place) -> Result<()> {
    place.create("a").await?;
    let patch = json!({"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn patch_of_missing_object_is_rejected(place: Place) -> Result<()> {
    let status = place.admin().patch(&place.one("a"), &json!({"data": {"k": "1"}})).await?;
    let status = status.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    Ok(())
}

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch_as(place: &Place, kind: &str, patch: Value) -> Result<Reply> {
    place.admin().send(Method::PATCH, &place.one("a"), kind, &patch).await
}

async fn json_patch_adds_replaces_and_removes(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "2"}})).await?;
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "1"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "remove", "path": "/data/l"},
        {"op": "add", "path": "/metadata/annotations", "value": {"x.test/y": "4"}},
        {"op": "replace", "path": "/metadata/annotations/x.test~1y", "value": "5"},
        {"op": "replace", "path": "/data/absent", "value": "6"},
    ]);
    let patched = patch_as(&place, JSON_PATCH, patch).await?.ok()?;
    ensure!(patched["data"] == json!({"k": "3", "absent": "6"}), "{patched}");
    ensure!(patched["metadata"]["annotations"] == json!({"x.test/y": "5"}), "{patched}");
    ensure!(place.get("a").await? == patched);
    Ok(())
}

async fn json_patch_with_failed_test_does_not_change_object(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "1").await?;
    for operation in [
        json!({"op": "test", "path": "/data/k", "value": "2"}),
        json!({"op": "remove", "path": "/data/absent"}),
        json!({"op": "replace", "path": "/absent/absent", "value": "2"}),
    ] {
        let patch = json!([{"op": "replace", "path": "/data/k", "value": "3"}, operation]);
        patch_as(&place, JSON_PATCH, patch).await?.refused(422, "Invalid")?;
    }
    ensure!(place.get("a").await? == last);
    Ok(())
}

async fn json_patch_is_an_array(place: Place) -> Result<()> {
    place.create("a").await?;
    patch_as(&place, JSON_PATCH, json!({})).await?.refused(400, "BadRequest")?;
    ensure!(patch_as(&place, JSON_PATCH, json!([])).await?.ok()? == place.get("a").await?);
    Ok(())
}

async fn strategic_merge_patch_sets_and_removes(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "2"}})).await?;
    let patched = patch_as(&place, STRATEGIC, json!({"data": {"k": null, "m": "3"}})).await?.ok()?;
    ensure!(patched["data"] == json!({"l": "2", "m": "3"}), "{patched}");
    Ok(())
}

async fn patch_is_an_object(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().patch(&place.one("a"), &json!([])).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn patch_has_a_known_format(place: Place) -> Result<()> {
    place.create("a").await?;
    let reply = place.admin().send(Method::PATCH, &place.one("a"), "application/json", &json!({})).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

/// The object `a` with two finalizers, which a JSON patch changes by `operation`.
async fn patch_finalizers(place: &Place, operation: Value) -> Result<Reply> {
    let two = json!({"op": "add", "path": "/metadata/finalizers", "value": ["x.test/1", "x.test/2"]});
    let path = format!("{}?dryRun=All", place.one("a"));
    place.admin().send(Method::PATCH, &path, JSON_PATCH, &json!([two, operation])).await
}

async fn index_selects_an_item(place: Place) -> Result<()> {
    place.create("a").await?;
    for (op, step, finalizers) in [
        ("remove", "0", json!(["x.test/2"])),
        ("replace", "0", json!(["x.test/n", "x.test/2"])),
        ("add", "-", json!(["x.test/1", "x.test/2", "x.test/n"])),
        ("add", "1", json!(["x.test/1", "x.test/n", "x.test/2"])),
    ] {
        let operation =
            json!({"op": op, "path": format!("/metadata/finalizers/{step}"), "value": "x.test/n"});
        let patched = patch_finalizers(&place, operation).await?.ok()?;
        ensure!(patched["metadata"]["finalizers"] == finalizers, "{op} {step}: {patched}");
    }
    let operation = json!({"op": "move", "from": "/metadata/finalizers/1", "path": "/metadata/finalizers/0"});
    let moved = patch_finalizers(&place, operation).await?.ok()?;
    ensure!(moved["metadata"]["finalizers"] == json!(["x.test/2", "x.test/1"]), "{moved}");
    for (op, step) in [("add", "3"), ("replace", "2"), ("remove", "-"), ("add", "x")] {
        let operation =
            json!({"op": op, "path": format!("/metadata/finalizers/{step}"), "value": "x.test/n"});
        patch_finalizers(&place, operation).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn absent_value_is_null(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    for (operation, labels) in [
        (json!({"op": "add", "path": "/metadata/labels/y"}), json!({"x": "1", "y": ""})),
        (json!({"op": "replace", "path": "/metadata/labels/x"}), json!({"x": ""})),
        (
            json!({"op": "copy", "from": "/metadata/labels/z", "path": "/metadata/labels/y"}),
            json!({"x": "1", "y": ""}),
        ),
        (json!({"op": "test", "path": "/metadata/labels/z"}), json!({"x": "1"})),
    ] {
        let path = format!("{}?dryRun=All", place.one("a"));
        let reply = place.admin().send(Method::PATCH, &path, JSON_PATCH, &json!([operation])).await?;
        ensure!(reply.ok()?["metadata"]["labels"] == labels, "{operation}: {reply}");
    }
    Ok(())
}

async fn root_can_only_be_replaced(place: Place) -> Result<()> {
    let mut object = place.create("a").await?;
    object["data"] = json!({"k": "1"});
    let replace = json!([{"op": "replace", "path": "", "value": object}]);
    ensure!(patch_as(&place, JSON_PATCH, replace).await?.ok()?["data"] == object["data"]);
    for op in ["add", "remove", "test"] {
        let patch = json!([{"op": op, "path": "", "value": {}}]);
        patch_as(&place, JSON_PATCH, patch).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn invalid_json_patch_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for patch in [
        json!({}),
        json!([1]),
        json!([[]]),
        json!([{"op": 1, "path": "/a"}]),
        json!([{"op": "add", "path": 1}]),
        json!([{"op": "move", "from": 1}]),
    ] {
        let status = patch_as(&place, JSON_PATCH, patch).await?.refused(400, "BadRequest")?;
        ensure!(starts_with(&status, "error decoding patch: "), "{status}");
    }
    Ok(())
}

async fn inapplicable_json_patch_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for operation in [
        json!(null),
        json!({}),
        json!({"op": "add"}),
        json!({"op": "foo", "path": "/a"}),
        json!({"op": "add", "path": "a", "value": 1}),
        json!({"op": "move", "path": "/a"}),
        json!({"op": "add", "path": "/absent/x", "value": 1}),
        json!({"op": "add", "path": "/kind/x", "value": 1}),
        json!({"op": "move", "from": "/absent", "path": "/data"}),
    ] {
        let status = patch_as(&place, JSON_PATCH, json!([operation])).await?.refused(422, "Invalid")?;
        let message = "the server rejected our request due to an error in our request";
        ensure!(status["message"] == message && status["details"] == json!({}), "{status}");
    }
    Ok(())
}

async fn null_is_an_empty_patch(place: Place) -> Result<()> {
    let object = place.create("a").await?;
    for kind in [JSON_PATCH, STRATEGIC] {
        ensure!(patch_as(&place, kind, Value::Null).await?.ok()? == object, "{kind}");
    }
    let status = patch_as(&place, MERGE_PATCH, Value::Null).await?.refused(400, "BadRequest")?;
    ensure!(status["message"] == "Invalid JSON Patch", "{status}");
    Ok(())
}

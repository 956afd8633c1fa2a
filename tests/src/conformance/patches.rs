//! Patches: merge patches, JSON patches, and strategic merge patches without lists.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::Reply;
use super::values::{uid, version};

checks! {
    "A merge patch sets what it names, removes what it names as null, and keeps the rest.":
        a_merge_patch_sets_and_keeps, a_merge_patch_removes_nulls, a_merge_patch_replaces_arrays;
    "A merge patch that changes nothing keeps the version.":
        a_patch_without_change_keeps_the_version;
    "A merge patch that names an old version conflicts.":
        a_patch_from_an_old_version_conflicts, a_patch_from_the_newest_version_is_accepted;
    "A merge patch can't give an object another name or identity.":
        a_patch_keeps_the_name, a_patch_keeps_the_identity;
    "A merge patch of what is not there is refused with 404.":
        a_patch_of_nothing_is_refused;
    "A JSON patch does all of its operations or none.":
        a_json_patch_adds_replaces_and_removes, a_json_patch_whose_test_fails_changes_nothing,
        a_json_patch_is_an_array;
    "A strategic merge patch of a built-in kind sets and removes, and a custom kind has none.":
        a_strategic_merge_patch_sets_and_removes;
    "A patch that is no object is refused with 400, and one in an unknown format with 415.":
        a_patch_is_an_object, a_patch_has_a_known_format;
}

async fn a_merge_patch_sets_and_keeps(place: Place) -> Result<()> {
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

async fn a_merge_patch_removes_nulls(place: Place) -> Result<()> {
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

async fn a_merge_patch_replaces_arrays(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/1", "x.test/2"]}})).await?;
    let patched = place.patch("a", json!({"metadata": {"finalizers": ["x.test/2"]}})).await?;
    ensure!(patched["metadata"]["finalizers"] == json!(["x.test/2"]), "{patched}");
    Ok(())
}

async fn a_patch_without_change_keeps_the_version(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "1").await?;
    for patch in [json!({}), json!({"data": {"k": "1"}}), json!({"data": {"absent": null}})] {
        ensure!(place.patch("a", patch).await? == last);
    }
    Ok(())
}

async fn a_patch_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let old = place.create("a").await?;
    let newer = place.set("a", "newer").await?;
    let patch =
        json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "older"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(409, "Conflict")?;
    ensure!(place.get("a").await? == newer);
    Ok(())
}

async fn a_patch_from_the_newest_version_is_accepted(place: Place) -> Result<()> {
    let object = place.create("a").await?;
    let n = &object["metadata"]["resourceVersion"];
    let patched = place.patch("a", json!({"metadata": {"resourceVersion": n}, "data": {"k": "1"}})).await?;
    ensure!(version(&patched)? > version(&object)?);
    Ok(())
}

async fn a_patch_keeps_the_name(place: Place) -> Result<()> {
    place.create("a").await?;
    let patch = json!({"metadata": {"name": "b"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_patch_keeps_the_identity(place: Place) -> Result<()> {
    place.create("a").await?;
    let patch = json!({"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_patch_of_nothing_is_refused(place: Place) -> Result<()> {
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

async fn a_json_patch_adds_replaces_and_removes(place: Place) -> Result<()> {
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

async fn a_json_patch_whose_test_fails_changes_nothing(place: Place) -> Result<()> {
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

async fn a_json_patch_is_an_array(place: Place) -> Result<()> {
    place.create("a").await?;
    patch_as(&place, JSON_PATCH, json!({})).await?.refused(400, "BadRequest")?;
    ensure!(patch_as(&place, JSON_PATCH, json!([])).await?.ok()? == place.get("a").await?);
    Ok(())
}

async fn a_strategic_merge_patch_sets_and_removes(place: Place) -> Result<()> {
    place.create_object(&json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "2"}})).await?;
    let patched = patch_as(&place, STRATEGIC, json!({"data": {"k": null, "m": "3"}})).await?.ok()?;
    ensure!(patched["data"] == json!({"l": "2", "m": "3"}), "{patched}");
    Ok(())
}

async fn a_patch_is_an_object(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().patch(&place.one("a"), &json!([])).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_patch_has_a_known_format(place: Place) -> Result<()> {
    place.create("a").await?;
    let reply = place.admin().send(Method::PATCH, &place.one("a"), "application/json", &json!({})).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

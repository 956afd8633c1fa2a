//! Strategic merge patches of lists, and their directives.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::Reply;

checks! {
    "A strategic merge patch merges lists of objects by their key, with new items first.":
        containers_are_merged_by_name, ports_are_merged_by_number;
    "A strategic merge patch merges lists of values, and removes values in deleteFromPrimitiveList.":
        finalizers_are_merged_and_deleted;
    "Items are deleted and lists replaced by `$patch`, and put in order by `$setElementOrder`.":
        items_are_deleted_and_replaced, items_are_sorted;
    "Maps are replaced or deleted by `$patch`, and keep only the keys of `$retainKeys`.":
        maps_are_replaced_and_deleted, maps_keep_only_some_keys;
    "An invalid strategic merge patch is rejected with a message.":
        malformed_directives_are_rejected;
}

async fn send(place: &Place, patch: &Value) -> Result<Reply> {
    let kind = "application/strategic-merge-patch+json";
    place.admin().send(Method::PATCH, &place.core("podtemplates/t"), kind, patch).await
}

fn spec(containers: &Value) -> Value {
    json!({"template": {"spec": {"containers": containers}}})
}

/// A pod template, which may be changed in every way.
async fn create(place: &Place, containers: &Value) -> Result<()> {
    let mut template = spec(containers);
    template["metadata"] = json!({"name": "t", "labels": {"x": "1"}, "finalizers": ["x.test/1", "x.test/2"]});
    place.admin().post(&place.core("podtemplates"), &template).await?.expect(201)?;
    Ok(())
}

fn containers(template: &Value) -> Vec<(&str, &str)> {
    let list = template["template"]["spec"]["containers"].as_array();
    list.into_iter()
        .flatten()
        .map(|c| (c["name"].as_str().unwrap_or(""), c["image"].as_str().unwrap_or("")))
        .collect()
}

async fn containers_are_merged_by_name(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])).await?;
    let patch = spec(&json!([{"name": "b", "image": "2"}, {"name": "c", "image": "2"}]));
    let patched = send(&place, &patch).await?.ok()?;
    ensure!(containers(&patched) == [("a", "1"), ("b", "2"), ("c", "2")], "{patched}");
    let patched = send(&place, &spec(&json!([{"name": "d", "image": "3"}]))).await?.ok()?;
    ensure!(containers(&patched) == [("d", "3"), ("a", "1"), ("b", "2"), ("c", "2")], "{patched}");
    Ok(())
}

async fn ports_are_merged_by_number(place: Place) -> Result<()> {
    let ports = json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81, "protocol": "TCP"}]);
    create(&place, &json!([{"name": "a", "image": "1", "ports": ports}])).await?;
    let patch = spec(&json!([{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]));
    let patched = send(&place, &patch).await?.ok()?;
    let ports = json!([{"containerPort": 80, "protocol": "UDP", "name": "x"}, {"containerPort": 81, "protocol": "TCP"}]);
    ensure!(patched["template"]["spec"]["containers"][0]["ports"] == ports, "{patched}");
    Ok(())
}

async fn finalizers_are_merged_and_deleted(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1"}])).await?;
    let patched = send(&place, &json!({"metadata": {"finalizers": ["x.test/3"]}})).await?.ok()?;
    ensure!(patched["metadata"]["finalizers"] == json!(["x.test/3", "x.test/1", "x.test/2"]), "{patched}");
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.test/1", "x.test/3"]}});
    let patched = send(&place, &patch).await?.ok()?;
    ensure!(patched["metadata"]["finalizers"] == json!(["x.test/2"]), "{patched}");
    Ok(())
}

async fn items_are_deleted_and_replaced(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])).await?;
    let patched = send(&place, &spec(&json!([{"name": "a", "$patch": "delete"}]))).await?.ok()?;
    ensure!(containers(&patched) == [("b", "1")], "{patched}");
    let patch = spec(&json!([{"$patch": "replace"}, {"name": "z", "image": "9"}]));
    let patched = send(&place, &patch).await?.ok()?;
    ensure!(containers(&patched) == [("z", "9")], "{patched}");
    Ok(())
}

async fn items_are_sorted(place: Place) -> Result<()> {
    create(
        &place,
        &json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}, {"name": "c", "image": "1"}]),
    )
    .await?;
    let mut patch = spec(&json!([{"name": "d", "image": "2"}]));
    patch["template"]["spec"]["$setElementOrder/containers"] =
        json!([{"name": "c"}, {"name": "d"}, {"name": "a"}]);
    let patched = send(&place, &patch).await?.ok()?;
    ensure!(containers(&patched) == [("b", "1"), ("c", "1"), ("d", "2"), ("a", "1")], "{patched}");
    Ok(())
}

async fn maps_are_replaced_and_deleted(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1"}])).await?;
    let patch = json!({"metadata": {"labels": {"$patch": "replace", "y": "2"}}});
    let patched = send(&place, &patch).await?.ok()?;
    ensure!(patched["metadata"]["labels"] == json!({"y": "2"}), "{patched}");
    let patched = send(&place, &json!({"metadata": {"labels": {"$patch": "delete"}}})).await?.ok()?;
    ensure!(patched["metadata"].get("labels").is_none(), "{patched}");
    Ok(())
}

async fn maps_keep_only_some_keys(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]))
        .await?;
    let patch =
        spec(&json!([{"name": "a", "resources": {"$retainKeys": ["limits"], "limits": {"memory": "1"}}}]));
    let patched = send(&place, &patch).await?.ok()?;
    let resources = json!({"limits": {"cpu": "1", "memory": "1"}});
    ensure!(patched["template"]["spec"]["containers"][0]["resources"] == resources, "{patched}");
    Ok(())
}

async fn malformed_directives_are_rejected(place: Place) -> Result<()> {
    create(&place, &json!([{"name": "a", "image": "1"}])).await?;
    for (patch, code, reason) in [
        (spec(&json!([{"image": "x"}])), 500, ""),
        (json!({"metadata": {"labels": {"$patch": "merge"}}}), 500, ""),
        (json!({"metadata": {"labels": {"$retainKeys": ["x"], "y": "1"}}}), 400, "BadRequest"),
        (json!([]), 400, "BadRequest"),
    ] {
        send(&place, &patch).await?.refused(code, reason)?;
    }
    Ok(())
}

//! Responses that contain only the metadata of objects.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::Watch;
use super::values::{items, names, next_page, version};

checks! {
    "A metadata-only LIST is a PartialObjectMetadataList whose items have a kind and only metadata.":
        list_has_metadata_only, list_of_pods_has_metadata_only;
    "An empty metadata-only LIST has null items.":
        empty_list_has_no_array_of_items;
    "A metadata-only LIST has the pages, selectors and versions of a full one.":
        metadata_has_pages, metadata_is_selected, metadata_has_exact_versions;
    "A metadata-only GET, and the response of a write with this Accept header, is a PartialObjectMetadata.":
        get_has_metadata_only, write_returns_metadata_only;
    "A metadata-only WATCH gets each change of the object, also of fields that it does not contain.":
        watch_has_metadata_only, change_of_data_is_sent_without_data, edges_have_metadata_only;
    "Bookmarks of a metadata-only WATCH are PartialObjectMetadata, with their annotation."
        if is_standard:
        bookmarks_have_metadata_only;
    "The first acceptable representation is sent.":
        first_acceptable_representation_is_sent, without_accept_header_complete_object_is_sent;
    "A representation that does not match the request, or is unknown, is rejected with 406.":
        list_is_not_one_object, one_object_cannot_be_a_list, unknown_representation_is_rejected;
    "A WATCH that accepts lists closes immediately without events.":
        watch_of_lists_closes_immediately;
}

/// The Accept header for one object.
pub(super) const ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// The Accept header for a list.
pub(super) const SEVERAL: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// `partial` is the metadata of `full`.
fn is_metadata_of(partial: &Value, full: &Value) -> Result<()> {
    let expected = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": full["metadata"],
    });
    ensure!(*partial == expected, "{partial} is not the metadata of {full}");
    Ok(())
}

fn is_metadata_list(list: &Value) -> Result<()> {
    let is_it = list["kind"] == "PartialObjectMetadataList" && list["apiVersion"] == "meta.k8s.io/v1";
    ensure!(is_it, "{list}");
    Ok(())
}

async fn list(place: &Place, query: &str) -> Result<Value> {
    let list = place.admin().get_as(&format!("{}?{query}", place.all()), SEVERAL).await?.ok()?;
    is_metadata_list(&list)?;
    Ok(list)
}

async fn watch(place: &Place, query: &str) -> Result<Watch> {
    place.admin().watch_as(&format!("{}?watch=true&{query}", place.all()), ONE).await
}

async fn list_has_metadata_only(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    let a = place.set("a", "1").await?;
    let b = place.create("b").await?;
    let list = list(&place, "").await?;
    ensure!(names(&list) == ["a", "b"] && version(&list)? >= version(&b)?, "{list}");
    for (partial, full) in items(&list).iter().zip([&a, &b]) {
        is_metadata_of(partial, full)?;
    }
    Ok(())
}

async fn list_of_pods_has_metadata_only(place: Place) -> Result<()> {
    let pod = place.create_pod("p", Some("n1")).await?;
    let list = place.admin().get_as(&place.core("pods"), SEVERAL).await?.ok()?;
    is_metadata_list(&list)?;
    ensure!(names(&list) == ["p"], "{list}");
    is_metadata_of(&items(&list)[0], &pod)
}

async fn empty_list_has_no_array_of_items(place: Place) -> Result<()> {
    let list = list(&place, "").await?;
    ensure!(list.get("items") == Some(&Value::Null) && version(&list)? > 0, "{list}");
    Ok(())
}

async fn metadata_has_pages(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c"]).await?;
    let first = list(&place, "limit=2").await?;
    ensure!(names(&first) == ["a", "b"] && first["metadata"]["remainingItemCount"] == 1, "{first}");
    let token = next_page(&first).unwrap_or("");
    let second = list(&place, &format!("limit=2&continue={token}")).await?;
    ensure!(names(&second) == ["c"] && version(&second)? == version(&first)?, "{second}");
    Ok(())
}

async fn metadata_is_selected(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    place.create("b").await?;
    ensure!(names(&list(&place, "labelSelector=x").await?) == ["a"]);
    ensure!(names(&list(&place, "fieldSelector=metadata.name%3Db").await?) == ["b"]);
    Ok(())
}

async fn metadata_has_exact_versions(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    place.delete("a").await?;
    let n = version(&a)?;
    let list = list(&place, &format!("resourceVersion={n}&resourceVersionMatch=Exact")).await?;
    ensure!(version(&list)? == n && names(&list) == ["a"], "{list}");
    is_metadata_of(&items(&list)[0], &a)
}

async fn get_has_metadata_only(place: Place) -> Result<()> {
    place.create("a").await?;
    let full = place.set("a", "1").await?;
    is_metadata_of(&place.admin().get_as(&place.one("a"), ONE).await?.ok()?, &full)
}

async fn write_returns_metadata_only(place: Place) -> Result<()> {
    let request = http::Request::post(place.all())
        .header(http::header::ACCEPT, ONE)
        .header(http::header::CONTENT_TYPE, "application/json");
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    let created = place.admin().request(request, Some(&body)).await?.expect(201)?;
    is_metadata_of(&created, &place.get("a").await?)
}

async fn watch_has_metadata_only(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    let mut watch = watch(&place, "").await?;
    is_metadata_of(&watch.expect("ADDED", "a").await?, &a)?;
    let labelled = place.label("a", json!({"x": "1"})).await?;
    is_metadata_of(&watch.expect("MODIFIED", "a").await?, &labelled)?;
    place.delete("a").await?;
    let told = watch.expect("DELETED", "a").await?;
    ensure!(told["kind"] == "PartialObjectMetadata" && version(&told)? > version(&labelled)?, "{told}");
    Ok(())
}

async fn change_of_data_is_sent_without_data(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let changed = place.set("a", "1").await?;
    let mut watch = watch(&place, &format!("resourceVersion={n}")).await?;
    is_metadata_of(&watch.expect("MODIFIED", "a").await?, &changed)?;
    let changed = place.set("a", "2").await?;
    is_metadata_of(&watch.expect("MODIFIED", "a").await?, &changed)
}

async fn edges_have_metadata_only(place: Place) -> Result<()> {
    let mut previous = place.create_labelled("a", json!({"x": "1"})).await?;
    let mut watch =
        watch(&place, &format!("labelSelector=x&resourceVersion={}", version(&previous)?)).await?;
    let change = place.label("a", json!({"x": null})).await?;
    previous["metadata"]["resourceVersion"] = change["metadata"]["resourceVersion"].clone();
    is_metadata_of(&watch.expect("DELETED", "a").await?, &previous)
}

async fn bookmarks_have_metadata_only(place: Place) -> Result<()> {
    let query =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=4";
    let mut watch = watch(&place, query).await?;
    place.beside().await?.create("elsewhere").await?;
    let end = watch.expect_initial_end().await?;
    let bookmarks = watch.rest().await?;
    ensure!(!bookmarks.is_empty(), "no bookmark before the end");
    for object in bookmarks.iter().map(|line| &line.object).chain([&end]) {
        let is_partial =
            object["kind"] == "PartialObjectMetadata" && object["apiVersion"] == "meta.k8s.io/v1";
        ensure!(is_partial && version(object)? > 0, "{object}");
    }
    Ok(())
}

async fn first_acceptable_representation_is_sent(place: Place) -> Result<()> {
    place.create("a").await?;
    let either = format!("{SEVERAL},application/json");
    is_metadata_list(&place.admin().get_as(&place.all(), &either).await?.ok()?)?;
    let unknown = "application/json;as=Unknown;g=meta.k8s.io;v=v1,application/json";
    let list = place.admin().get_as(&place.all(), unknown).await?.ok()?;
    ensure!(list["kind"] == "ConfigMapList", "{list}");
    Ok(())
}

async fn without_accept_header_complete_object_is_sent(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    for request in [
        http::Request::get(place.one("a")),
        http::Request::get(place.one("a")).header(http::header::ACCEPT, "*/*"),
        http::Request::get(place.one("a")).header(http::header::ACCEPT, "application/json, */*"),
    ] {
        ensure!(place.admin().request(request, None).await?.ok()? == created);
    }
    Ok(())
}

async fn list_is_not_one_object(place: Place) -> Result<()> {
    place.admin().get_as(&place.all(), ONE).await?.refused(406, "NotAcceptable")?;
    Ok(())
}

async fn one_object_cannot_be_a_list(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().get_as(&place.one("a"), SEVERAL).await?.refused(406, "NotAcceptable")?;
    Ok(())
}

async fn watch_of_lists_closes_immediately(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().watch_as(&format!("{}?watch=true", place.all()), SEVERAL).await?.expect_end().await
}

async fn unknown_representation_is_rejected(place: Place) -> Result<()> {
    for accept in ["application/json;as=Unknown;g=meta.k8s.io;v=v1", "text/html"] {
        place.admin().get_as(&place.all(), accept).await?.refused(406, "NotAcceptable")?;
    }
    Ok(())
}

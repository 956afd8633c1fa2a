//! LIST: the state that it returns, and its format. The module `paging` checks pages.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::values::{item, items, names, uid, version};

checks! {
    "A LIST without a version returns all writes before the request.":
        list_contains_each_earlier_write, list_is_not_older_than_the_last_write;
    "A LIST at version 0 returns any state without a delay, and eventually returns each write.":
        list_at_zero_eventually_contains_each_write;
    "A LIST at N without limit, and a LIST with NotOlderThan, returns the state at N or later.":
        list_at_a_version_is_not_older, list_not_older_than_a_version_is_not_older,
        list_not_older_than_zero_is_some_state;
    "A LIST with Exact returns the state at N and the version N.":
        exact_list_returns_earlier_state, exact_list_of_latest_version_returns_latest_state;
    "A version is a decimal number without leading zeros, and all resources share its sequence.":
        versions_are_decimal_numbers, write_of_other_resource_increments_version;
    "The items of a LIST are ordered by the text NAMESPACE/NAME.":
        items_are_ordered_by_name, items_are_ordered_by_namespace_and_slash;
    "A list has the kind of its items plus List, and items of built-in kinds have no kind and apiVersion.":
        list_has_kind_and_items_have_no_kind, empty_list_has_an_empty_array_of_items,
        list_of_a_namespace_that_is_not_there_is_empty;
    "A GET returns the most recent state, and at version 0 any state.":
        get_returns_each_earlier_write, get_at_zero_eventually_returns_object;
}

async fn list_contains_each_earlier_write(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    ensure!(names(&place.list("").await?) == ["a", "b"]);
    place.set("a", "1").await?;
    ensure!(item(&place.list("").await?, "a")?["data"]["k"] == "1");
    place.delete("b").await?;
    ensure!(names(&place.list("").await?) == ["a"]);
    Ok(())
}

async fn list_is_not_older_than_the_last_write(place: Place) -> Result<()> {
    let created = version(&place.create("a").await?)?;
    ensure!(version(&place.list("").await?)? >= created);
    place.delete("a").await?;
    ensure!(version(&place.list("").await?)? > created, "a delete must raise the version of lists");
    Ok(())
}

async fn list_at_zero_eventually_contains_each_write(place: Place) -> Result<()> {
    let [_, b] = place.create_all(["a", "b"]).await?;
    loop {
        let list = place.list("resourceVersion=0").await?;
        let seen = names(&list);
        ensure!(seen.is_empty() || seen == ["a"] || seen == ["a", "b"], "never a state: {list}");
        if version(&list)? >= version(&b)? {
            ensure!(seen == ["a", "b"], "the version of a newer state: {list}");
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

async fn list_at_a_version_is_not_older(place: Place) -> Result<()> {
    let [a, b] = place.create_all(["a", "b"]).await?;
    for n in [version(&a)?, version(&b)?] {
        let list = place.list(&format!("resourceVersion={n}")).await?;
        ensure!(version(&list)? >= n);
        ensure!(
            names(&list) == ["a", "b"] || names(&list) == ["a"] && version(&list)? < version(&b)?,
            "{list}"
        );
    }
    Ok(())
}

async fn list_not_older_than_a_version_is_not_older(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    place.delete("a").await?;
    let n = version(&place.list("").await?)?;
    let list = place.list(&format!("resourceVersion={n}&resourceVersionMatch=NotOlderThan")).await?;
    ensure!(version(&list)? >= n && names(&list) == ["b"], "{list}");
    Ok(())
}

async fn list_not_older_than_zero_is_some_state(place: Place) -> Result<()> {
    let list = place.list("resourceVersion=0&resourceVersionMatch=NotOlderThan").await?;
    ensure!(names(&list).is_empty() && version(&list)? > 0);
    Ok(())
}

async fn exact_list_returns_earlier_state(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    let changed = place.set("a", "old").await?;
    let n = version(&changed)?;
    place.set("a", "new").await?;
    place.delete("b").await?;
    place.create("c").await?;

    let list = place.list(&format!("resourceVersion={n}&resourceVersionMatch=Exact")).await?;
    ensure!(version(&list)? == n, "the request has version {n}: {list}");
    ensure!(names(&list) == ["a", "b"], "{list}");
    ensure!(item(&list, "a")?["data"]["k"] == "old" && version(item(&list, "a")?)? == n, "{list}");
    Ok(())
}

async fn exact_list_of_latest_version_returns_latest_state(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let list = place.list(&format!("resourceVersion={n}&resourceVersionMatch=Exact")).await?;
    ensure!(version(&list)? == n && names(&list) == ["a"], "{list}");
    Ok(())
}

async fn versions_are_decimal_numbers(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let changed = place.set("a", "1").await?;
    ensure!(version(&changed)? > version(&created)?);
    ensure!(version(item(&place.list("").await?, "a")?)? == version(&changed)?);
    Ok(())
}

async fn write_of_other_resource_increments_version(place: Place) -> Result<()> {
    let before = version(&place.create("a").await?)?;
    let secret =
        place.admin().post(&place.core("secrets"), &json!({"metadata": {"name": "s"}})).await?.expect(201)?;
    let after = version(&place.create("b").await?)?;
    ensure!(before < version(&secret)? && version(&secret)? < after, "{before}, {secret}, {after}");
    Ok(())
}

async fn items_are_ordered_by_name(place: Place) -> Result<()> {
    place.create_all(["b", "a.b", "a-b", "ab", "a", "0"]).await?;
    let sorted = ["0", "a", "a-b", "a.b", "ab", "b"];
    ensure!(names(&place.list("").await?) == sorted);
    ensure!(names(&place.list("limit=10").await?) == sorted);
    Ok(())
}

async fn items_are_ordered_by_namespace_and_slash(place: Place) -> Result<()> {
    // `NAMESPACE-2/` is sorted before `NAMESPACE/`.
    let beside = place.beside().await?;
    let label = json!({"everywhere": place.namespace});
    beside.create_labelled("a", label.clone()).await?;
    place.create_labelled("b", label.clone()).await?;
    place.create_labelled("c", label).await?;
    let path = format!("/api/v1/configmaps?labelSelector=everywhere%3D{}", place.namespace);
    let list = place.admin().get(&path).await?.ok()?;
    ensure!(names(&list) == ["a", "b", "c"], "{list}");
    Ok(())
}

async fn list_has_kind_and_items_have_no_kind(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    ensure!(created["kind"] == "ConfigMap" && created["apiVersion"] == "v1");
    let list = place.list("").await?;
    ensure!(list["kind"] == "ConfigMapList" && list["apiVersion"] == "v1", "{list}");
    let item = item(&list, "a")?;
    ensure!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{item}");
    ensure!(uid(item)? == uid(&created)?);
    Ok(())
}

async fn empty_list_has_an_empty_array_of_items(place: Place) -> Result<()> {
    let list = place.list("").await?;
    ensure!(list["items"] == json!([]) && version(&list)? > 0, "{list}");
    Ok(())
}

async fn list_of_a_namespace_that_is_not_there_is_empty(place: Place) -> Result<()> {
    let list = place.admin().get("/api/v1/namespaces/was-never-there/configmaps").await?.ok()?;
    ensure!(items(&list).is_empty() && version(&list)? > 0, "{list}");
    Ok(())
}

async fn get_returns_each_earlier_write(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    ensure!(place.get("a").await? == created);
    let changed = place.set("a", "1").await?;
    ensure!(place.get("a").await? == changed);
    place.delete("a").await?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn get_at_zero_eventually_returns_object(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let path = format!("{}?resourceVersion=0", place.one("a"));
    loop {
        let reply = place.admin().get(&path).await?;
        if reply.status == 404 {
            tokio::task::yield_now().await;
            continue;
        }
        ensure!(reply.ok()? == created);
        return Ok(());
    }
}

//! The streaming list: a WATCH that first sends the complete state and then a bookmark.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::raw::{Watch, is_failure};
use super::values::version;

checks! {
    "A streaming list sends an ADDED for each object, in the order of a LIST, and then an annotated bookmark."
        if has_watch_list:
        streaming_list_is_state_and_bookmark, empty_streaming_list_is_a_bookmark,
        streaming_list_keeps_the_selectors;
    "The bookmark has the version of the complete state, and later changes follow."
        if has_watch_list:
        end_has_the_version_of_the_state, changes_follow_the_bookmark, watch_resumes_from_final_bookmark;
    "A streaming list returns the most recent state without a version, and the state at N with NotOlderThan N."
        if has_watch_list:
        streaming_list_contains_each_earlier_write, streaming_list_at_a_version_is_not_older,
        streaming_list_at_zero_is_complete;
    "A streaming list without allowWatchBookmarks does not mark the last initial event."
        if has_watch_list:
        without_bookmarks_state_is_not_marked;
    "With sendInitialEvents=false, a WATCH without a version starts at the current state, and a WATCH at N after N."
        if has_watch_list:
        without_initial_events_watch_starts_at_current_state, without_initial_events_watch_at_version_replays;
    "The parameter sendInitialEvents requires NotOlderThan, and a LIST rejects it.":
        initial_events_need_a_match, list_has_no_initial_events, watch_has_no_match_otherwise;
    "A streaming list at a future version gets an ERROR with Timeout and the text too large."
        if has_watch_list:
        streaming_list_of_the_future_is_an_error;
    "Without the feature gate WatchList, sendInitialEvents is rejected with 422."
        if lacks_watch_list:
        without_watch_list_streaming_list_is_rejected;
    "Without the feature gate WatchList, no bookmark follows the initial state."
        if lacks_watch_list:
        without_watch_list_initial_state_has_no_bookmark;
}

const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn streaming(place: &Place, more: &str) -> Result<Watch> {
    place.watch(&format!("{STREAMING}{more}")).await
}

async fn without_watch_list_streaming_list_is_rejected(place: Place) -> Result<()> {
    for value in ["true", "false"] {
        let query = format!("watch=true&sendInitialEvents={value}&resourceVersionMatch=NotOlderThan");
        let reply = place.admin().get(&format!("{}?{query}", place.all())).await?;
        let status = reply.refused(422, "Invalid")?;
        let cause = &status["details"]["causes"][0];
        ensure!(
            cause["field"] == "sendInitialEvents" && cause["reason"] == "FieldValueForbidden",
            "{status}"
        );
    }
    Ok(())
}

async fn without_watch_list_initial_state_has_no_bookmark(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("allowWatchBookmarks=true").await?;
    watch.expect("ADDED", "a").await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

async fn streaming_list_is_state_and_bookmark(place: Place) -> Result<()> {
    place.create_all(["b", "a", "c"]).await?;
    place.delete("c").await?;
    let last = place.set("b", "1").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    ensure!(watch.expect("ADDED", "b").await? == last);
    let end = watch.expect_initial_end().await?;
    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "resourceVersion": end["metadata"]["resourceVersion"],
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    });
    ensure!(end == expected, "{end}");
    Ok(())
}

async fn empty_streaming_list_is_a_bookmark(place: Place) -> Result<()> {
    streaming(&place, "").await?.expect_initial_end().await?;
    Ok(())
}

async fn streaming_list_keeps_the_selectors(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    place.create_all(["b", "c"]).await?;
    for (selector, name) in [("&labelSelector=x%3D1", "a"), ("&fieldSelector=metadata.name%3Dc", "c")] {
        let mut watch = streaming(&place, selector).await?;
        watch.expect("ADDED", name).await?;
        watch.expect_initial_end().await?;
    }
    Ok(())
}

async fn end_has_the_version_of_the_state(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = version(&place.create("b").await?)?;
    place.delete("b").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    let end = watch.expect_initial_end().await?;
    ensure!(version(&end)? > last, "the bookmark is older than the delete: {end}");
    Ok(())
}

async fn changes_follow_the_bookmark(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    let end = version(&watch.expect_initial_end().await?)?;
    place.set("a", "1").await?;
    place.delete("a").await?;
    ensure!(version(&watch.expect("MODIFIED", "a").await?)? > end);
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn watch_resumes_from_final_bookmark(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    let end = version(&watch.expect_initial_end().await?)?;
    drop(watch);
    place.create("b").await?;
    place.watch(&format!("resourceVersion={end}")).await?.expect("ADDED", "b").await?;
    Ok(())
}

async fn streaming_list_contains_each_earlier_write(place: Place) -> Result<()> {
    for round in 0..5 {
        let name = format!("a{round}");
        let created = place.create(&name).await?;
        let mut watch = streaming(&place, "").await?;
        ensure!(watch.expect("ADDED", &name).await? == created);
        ensure!(version(&watch.expect_initial_end().await?)? >= version(&created)?);
        place.delete(&name).await?;
    }
    Ok(())
}

async fn streaming_list_at_a_version_is_not_older(place: Place) -> Result<()> {
    let [_, b] = place.create_all(["a", "b"]).await?;
    let mut watch = streaming(&place, &format!("&resourceVersion={}", version(&b)?)).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect("ADDED", "b").await?;
    ensure!(version(&watch.expect_initial_end().await?)? >= version(&b)?);
    Ok(())
}

async fn streaming_list_at_zero_is_complete(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    place.seen(&a).await?;
    let mut watch = streaming(&place, "&resourceVersion=0").await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_initial_end().await?;
    Ok(())
}

async fn without_bookmarks_state_is_not_marked(place: Place) -> Result<()> {
    place.create("a").await?;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let mut watch = place.watch(query).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_end().await
}

async fn without_initial_events_watch_starts_at_current_state(place: Place) -> Result<()> {
    place.create("a").await?;
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = place.watch(query).await?;
    place.create("b").await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn without_initial_events_watch_at_version_replays(place: Place) -> Result<()> {
    let [a, _] = place.create_all(["a", "b"]).await?;
    let query =
        format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={}", version(&a)?);
    place.watch(&query).await?.expect("ADDED", "b").await?;
    Ok(())
}

async fn initial_events_need_a_match(place: Place) -> Result<()> {
    for query in [
        "sendInitialEvents=true",
        "sendInitialEvents=false",
        "sendInitialEvents=maybe",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "sendInitialEvents=true&resourceVersion=1",
    ] {
        place.admin().get(&format!("{}?watch=true&{query}", place.all())).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn list_has_no_initial_events(place: Place) -> Result<()> {
    for query in ["sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"] {
        let status = place.admin().get(&format!("{}?{query}", place.all())).await?.refused(422, "Invalid")?;
        ensure!(status["details"]["kind"] == "ListOptions", "{status}");
    }
    Ok(())
}

async fn watch_has_no_match_otherwise(place: Place) -> Result<()> {
    let path = format!("{}?watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan", place.all());
    place.admin().get(&path).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn streaming_list_of_the_future_is_an_error(place: Place) -> Result<()> {
    let mut watch = streaming(&place, "&resourceVersion=999999999999").await?;
    let error = watch.event().await?;
    ensure!(error.kind == "ERROR", "{error}");
    is_failure(&error.object, 504, "Timeout")?;
    ensure!(error.object["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge", "{error}");
    watch.expect_end().await
}

//! The streaming list: a WATCH that sends the whole state first and says where it ends.

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::raw::{Watch, is_failure};
use super::values::version;

checks! {
    "A streaming list sends an ADDED for each object, in the order of a LIST, and then an annotated bookmark."
        if has_watch_list:
        a_streaming_list_is_the_state_and_its_end, a_streaming_list_of_nothing_is_its_end,
        a_streaming_list_keeps_the_selectors;
    "The bookmark at the end has the version that the whole state has reached, and changes after it follow."
        if has_watch_list:
        the_end_has_the_version_of_the_state, changes_follow_the_end, a_watch_goes_on_from_the_end;
    "A streaming list shows the newest state without a version, and one not older than N at N."
        if has_watch_list:
        a_streaming_list_shows_each_write_before_it, a_streaming_list_at_a_version_is_not_older,
        a_streaming_list_at_zero_is_complete;
    "A streaming list that does not allow bookmarks never says where the state ends."
        if has_watch_list:
        without_bookmarks_the_end_is_not_told;
    "With sendInitialEvents=false a WATCH without a version begins now, and one at N after N."
        if has_watch_list:
        without_initial_events_a_watch_begins_now, without_initial_events_a_watch_at_a_version_replays;
    "The parameter sendInitialEvents needs NotOlderThan, and has no place in a LIST.":
        initial_events_need_a_match, a_list_has_no_initial_events, a_watch_has_no_match_otherwise;
    "A streaming list at a version of the future ends with an ERROR that says Timeout and too large."
        if has_watch_list:
        a_streaming_list_of_the_future_is_an_error;
    "Without the gate WatchList the parameter sendInitialEvents is refused with 422."
        if lacks_watch_list:
        without_watch_list_a_streaming_list_is_refused;
    "Without the gate WatchList no bookmark says where an initial state ends."
        if lacks_watch_list:
        without_watch_list_the_end_of_a_state_is_not_told;
}

const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn streaming(place: &Place, more: &str) -> Result<Watch> {
    place.watch(&format!("{STREAMING}{more}")).await
}

async fn without_watch_list_a_streaming_list_is_refused(place: Place) -> Result<()> {
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

async fn without_watch_list_the_end_of_a_state_is_not_told(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("allowWatchBookmarks=true").await?;
    watch.expect("ADDED", "a").await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

async fn a_streaming_list_is_the_state_and_its_end(place: Place) -> Result<()> {
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

async fn a_streaming_list_of_nothing_is_its_end(place: Place) -> Result<()> {
    streaming(&place, "").await?.expect_initial_end().await?;
    Ok(())
}

async fn a_streaming_list_keeps_the_selectors(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    place.create_all(["b", "c"]).await?;
    for (selector, name) in [("&labelSelector=x%3D1", "a"), ("&fieldSelector=metadata.name%3Dc", "c")] {
        let mut watch = streaming(&place, selector).await?;
        watch.expect("ADDED", name).await?;
        watch.expect_initial_end().await?;
    }
    Ok(())
}

async fn the_end_has_the_version_of_the_state(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = version(&place.create("b").await?)?;
    place.delete("b").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    let end = watch.expect_initial_end().await?;
    ensure!(version(&end)? > last, "older than the delete: {end}");
    Ok(())
}

async fn changes_follow_the_end(place: Place) -> Result<()> {
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

async fn a_watch_goes_on_from_the_end(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = streaming(&place, "").await?;
    watch.expect("ADDED", "a").await?;
    let end = version(&watch.expect_initial_end().await?)?;
    drop(watch);
    place.create("b").await?;
    place.watch(&format!("resourceVersion={end}")).await?.expect("ADDED", "b").await?;
    Ok(())
}

async fn a_streaming_list_shows_each_write_before_it(place: Place) -> Result<()> {
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

async fn a_streaming_list_at_a_version_is_not_older(place: Place) -> Result<()> {
    let [_, b] = place.create_all(["a", "b"]).await?;
    let mut watch = streaming(&place, &format!("&resourceVersion={}", version(&b)?)).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect("ADDED", "b").await?;
    ensure!(version(&watch.expect_initial_end().await?)? >= version(&b)?);
    Ok(())
}

async fn a_streaming_list_at_zero_is_complete(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    place.seen(&a).await?;
    let mut watch = streaming(&place, "&resourceVersion=0").await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_initial_end().await?;
    Ok(())
}

async fn without_bookmarks_the_end_is_not_told(place: Place) -> Result<()> {
    place.create("a").await?;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let mut watch = place.watch(query).await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_end().await
}

async fn without_initial_events_a_watch_begins_now(place: Place) -> Result<()> {
    place.create("a").await?;
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = place.watch(query).await?;
    place.create("b").await?;
    watch.expect("ADDED", "b").await?;
    Ok(())
}

async fn without_initial_events_a_watch_at_a_version_replays(place: Place) -> Result<()> {
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

async fn a_list_has_no_initial_events(place: Place) -> Result<()> {
    for query in ["sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"] {
        let status = place.admin().get(&format!("{}?{query}", place.all())).await?.refused(422, "Invalid")?;
        ensure!(status["details"]["kind"] == "ListOptions", "{status}");
    }
    Ok(())
}

async fn a_watch_has_no_match_otherwise(place: Place) -> Result<()> {
    let path = format!("{}?watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan", place.all());
    place.admin().get(&path).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_streaming_list_of_the_future_is_an_error(place: Place) -> Result<()> {
    let mut watch = streaming(&place, "&resourceVersion=999999999999").await?;
    let error = watch.event().await?;
    ensure!(error.kind == "ERROR", "{error}");
    is_failure(&error.object, 504, "Timeout")?;
    ensure!(error.object["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge", "{error}");
    watch.expect_end().await
}

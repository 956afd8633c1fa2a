//! BOOKMARK events: their time and their content.

use anyhow::{Context as _, Result, ensure};

use super::place::Place;
use super::raw::Event;
use super::values::version;

checks! {
    "A WATCH with bookmarks gets a bookmark shortly before it closes, also without other events."
        if has_watch_cache:
        bookmark_arrives_before_watch_closes, bookmark_follows_events_up_to_its_version;
    "The last bookmark of a WATCH is not older than a LIST with limit=1 before the WATCH, also if only other resources changed."
        if has_watch_cache:
        bookmark_is_not_older_than_an_earlier_list;
    "The metadata of a bookmark contains only its version.":
        bookmark_has_its_version_only;
    "The version of a bookmark is higher than the start version. No later event is at or below it."
        if has_watch_cache:
        bookmark_is_above_the_start, watch_resumes_from_bookmark;
    "Without a watch cache, the only bookmark is the bookmark after the initial events."
        if lacks_watch_cache:
        without_watch_cache_there_is_no_bookmark;
    "A WATCH that does not allow bookmarks gets none.":
        no_bookmark_without_permission, permission_can_be_denied;
    "A WATCH with bookmarks and without a version, or at version 0, gets a bookmark after its initial state."
        if has_watch_list:
        bookmark_completes_state_of_watch_without_version, bookmark_completes_state_of_watch_at_zero;
    "There is no bookmark after an initial state that was not requested, or without allowWatchBookmarks.":
        state_without_allow_bookmarks_has_no_bookmark, watch_without_initial_state_has_no_initial_bookmark;
}

/// Returns all lines of a watch from `n`, with bookmarks and with enough time for a bookmark.
async fn lines_with_bookmarks(place: &Place, n: u64) -> Result<Vec<Event>> {
    place.watch(&format!("resourceVersion={n}&allowWatchBookmarks=true&timeoutSeconds=4")).await?.rest().await
}

/// The version of an object of this namespace, with a newer one of the same resource elsewhere.
async fn an_older_version(place: &Place) -> Result<u64> {
    let n = version(&place.create("a").await?)?;
    place.beside().await?.create("elsewhere").await?;
    Ok(n)
}

async fn bookmark_arrives_before_watch_closes(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    ensure!(!lines.is_empty() && lines.iter().all(|line| line.kind == "BOOKMARK"), "{lines:?}");
    Ok(())
}

async fn bookmark_follows_events_up_to_its_version(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.create("b").await?;
    let c = place.create("c").await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    let first: Vec<_> = lines.iter().take(2).map(Event::brief).collect();
    ensure!(first == [("ADDED", "b"), ("ADDED", "c")], "{lines:?}");
    ensure!(lines.len() > 2, "no bookmark: {lines:?}");
    for line in &lines[2..] {
        ensure!(line.kind == "BOOKMARK" && version(&line.object)? >= version(&c)?, "{line}");
    }
    Ok(())
}

async fn bookmark_is_not_older_than_an_earlier_list(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.create_pod("p", None).await?;
    let listed = version(&place.list("limit=1").await?)?;
    ensure!(listed > n, "the pod must raise the version of lists: {listed} after {n}");
    let lines = lines_with_bookmarks(&place, n).await?;
    let last = lines.last().context("no bookmark")?;
    ensure!(last.kind == "BOOKMARK" && version(&last.object)? >= listed, "{last} after a list at {listed}");
    Ok(())
}

async fn without_watch_cache_there_is_no_bookmark(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    ensure!(lines.is_empty(), "{lines:?}");
    Ok(())
}

async fn bookmark_has_its_version_only(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    for line in lines_with_bookmarks(&place, n).await? {
        let expected = serde_json::json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": line.object["metadata"]["resourceVersion"]},
        });
        ensure!(line.object == expected, "{line}");
    }
    Ok(())
}

async fn bookmark_is_above_the_start(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let mut last = n;
    for line in lines_with_bookmarks(&place, n).await? {
        let next = version(&line.object)?;
        ensure!(next > n && next >= last, "{line} after {last}, in a watch from {n}");
        last = next;
    }
    Ok(())
}

async fn watch_resumes_from_bookmark(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let query = format!("resourceVersion={n}&allowWatchBookmarks=true&timeoutSeconds=4");
    let bookmark = place.watch(&query).await?.event().await?;
    ensure!(bookmark.kind == "BOOKMARK", "{bookmark}");
    let mut watch = place.watch(&format!("resourceVersion={}", version(&bookmark.object)?)).await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

async fn no_bookmark_without_permission(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    place.watch(&format!("resourceVersion={n}&timeoutSeconds=4")).await?.expect_end().await
}

async fn permission_can_be_denied(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let query = format!("resourceVersion={n}&timeoutSeconds=4&allowWatchBookmarks=false");
    place.watch(&query).await?.expect_end().await
}

async fn bookmark_completes_initial_state(place: &Place, query: &str) -> Result<()> {
    let a = place.create("a").await?;
    place.seen(&a).await?;
    let mut watch = place.watch(&format!("{query}allowWatchBookmarks=true")).await?;
    watch.expect("ADDED", "a").await?;
    let end = watch.expect_initial_end().await?;
    ensure!(version(&end)? >= version(&a)?, "{end}");
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

async fn bookmark_completes_state_of_watch_without_version(place: Place) -> Result<()> {
    bookmark_completes_initial_state(&place, "").await
}

async fn bookmark_completes_state_of_watch_at_zero(place: Place) -> Result<()> {
    bookmark_completes_initial_state(&place, "resourceVersion=0&").await
}

async fn state_without_allow_bookmarks_has_no_bookmark(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("timeoutSeconds=1").await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_end().await
}

async fn watch_without_initial_state_has_no_initial_bookmark(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={n}&allowWatchBookmarks=true")).await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

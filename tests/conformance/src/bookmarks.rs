//! BOOKMARK: when one comes, and what it says.

use anyhow::{Result, ensure};

use super::place::Place;
use super::raw::Event;
use super::values::version;

checks! {
    "A WATCH that allows bookmarks gets one shortly before it ends, even if nothing else was to be told."
        if has_watch_cache:
        a_bookmark_comes_before_the_end, a_bookmark_comes_after_the_events_it_covers;
    "The metadata of a bookmark is its version and nothing else.":
        a_bookmark_has_its_version_only;
    "A bookmark's version is above the one the watch began with, and nothing at or below it is told after it."
        if has_watch_cache:
        a_bookmark_is_above_the_start, a_watch_goes_on_from_a_bookmark;
    "Without a watch cache no bookmark comes but the one at the end of an initial state."
        if lacks_watch_cache:
        without_watch_cache_no_bookmark_comes;
    "A WATCH that does not allow bookmarks gets none.":
        no_bookmark_without_permission, permission_can_be_denied;
    "A WATCH that allows bookmarks and begins without a version, or at 0, gets one where its initial state ends."
        if has_watch_list:
        a_bookmark_ends_the_state_of_a_watch_without_version, a_bookmark_ends_the_state_of_a_watch_at_zero;
    "No bookmark ends a state that was not sent, or that is watched without bookmarks.":
        no_bookmark_ends_a_state_without_permission, no_bookmark_ends_a_state_that_was_not_sent;
}

/// All lines of a watch from `n` that allows bookmarks and lasts long enough for one.
async fn lines_with_bookmarks(place: &Place, n: u64) -> Result<Vec<Event>> {
    place.watch(&format!("resourceVersion={n}&allowWatchBookmarks=true&timeoutSeconds=4")).await?.rest().await
}

/// The version of an object of this namespace, with a newer one of the same resource elsewhere.
async fn an_older_version(place: &Place) -> Result<u64> {
    let n = version(&place.create("a").await?)?;
    place.beside().await?.create("elsewhere").await?;
    Ok(n)
}

async fn a_bookmark_comes_before_the_end(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    ensure!(!lines.is_empty() && lines.iter().all(|line| line.kind == "BOOKMARK"), "{lines:?}");
    Ok(())
}

async fn a_bookmark_comes_after_the_events_it_covers(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    place.create("b").await?;
    let c = place.create("c").await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    let told: Vec<_> = lines.iter().take(2).map(Event::brief).collect();
    ensure!(told == [("ADDED", "b"), ("ADDED", "c")], "{lines:?}");
    ensure!(lines.len() > 2, "no bookmark: {lines:?}");
    for line in &lines[2..] {
        ensure!(line.kind == "BOOKMARK" && version(&line.object)? >= version(&c)?, "{line}");
    }
    Ok(())
}

async fn without_watch_cache_no_bookmark_comes(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let lines = lines_with_bookmarks(&place, n).await?;
    ensure!(lines.is_empty(), "{lines:?}");
    Ok(())
}

async fn a_bookmark_has_its_version_only(place: Place) -> Result<()> {
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

async fn a_bookmark_is_above_the_start(place: Place) -> Result<()> {
    let n = an_older_version(&place).await?;
    let mut last = n;
    for line in lines_with_bookmarks(&place, n).await? {
        let next = version(&line.object)?;
        ensure!(next > n && next >= last, "{line} after {last}, in a watch from {n}");
        last = next;
    }
    Ok(())
}

async fn a_watch_goes_on_from_a_bookmark(place: Place) -> Result<()> {
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

async fn a_bookmark_ends_the_state(place: &Place, query: &str) -> Result<()> {
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

async fn a_bookmark_ends_the_state_of_a_watch_without_version(place: Place) -> Result<()> {
    a_bookmark_ends_the_state(&place, "").await
}

async fn a_bookmark_ends_the_state_of_a_watch_at_zero(place: Place) -> Result<()> {
    a_bookmark_ends_the_state(&place, "resourceVersion=0&").await
}

async fn no_bookmark_ends_a_state_without_permission(place: Place) -> Result<()> {
    place.create("a").await?;
    let mut watch = place.watch("timeoutSeconds=1").await?;
    watch.expect("ADDED", "a").await?;
    watch.expect_end().await
}

async fn no_bookmark_ends_a_state_that_was_not_sent(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let mut watch = place.watch(&format!("resourceVersion={n}&allowWatchBookmarks=true")).await?;
    place.set("a", "1").await?;
    watch.expect("MODIFIED", "a").await?;
    Ok(())
}

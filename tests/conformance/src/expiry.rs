//! Versions that the server does not have: compacted and future versions.

use anyhow::{Context as _, Result, ensure};

use super::metadata_only::{ONE, SEVERAL};
use super::place::Place;
use super::raw::{JSON, is_failure};
use super::values::{item, names, next_page, version};

checks! {
    "A WATCH from a compacted version is accepted, gets one ERROR with code 410 and reason Expired, and closes.":
        watch_from_compacted_version_gets_error_event, metadata_only_watch_from_compacted_version_gets_status,
        compacted_version_also_expires_with_bookmarks;
    "A LIST with Exact at a compacted version is rejected with 410 and reason Expired.":
        exact_list_of_compacted_version_expires, limited_list_of_a_forgotten_version_expires;
    "A LIST with NotOlderThan at a compacted version returns the most recent state.":
        list_not_older_than_a_forgotten_version_is_the_newest;
    "A streaming list with NotOlderThan at a compacted version returns the most recent state."
        if has_watch_list:
        streaming_list_of_a_forgotten_version_is_the_newest;
    "An expired continue token is rejected with 410, and the response has a token for the rest of the most recent state.":
        expired_token_returns_second_token, second_token_returns_rest_of_current_state, rest_of_list_has_further_pages;
    "After a 410, a LIST without a version returns a version from which a WATCH can start.":
        list_without_version_returns_version_for_watch;
    "A LIST or GET at a version of the future fails with 504, reason Timeout and cause ResourceVersionTooLarge.":
        list_of_the_future_is_too_large, exact_list_of_the_future_is_too_large,
        limited_list_of_the_future_is_too_large, get_of_the_future_is_too_large;
    "The error for a version that is too large contains a retry delay."
        if has_watch_cache:
        version_too_large_error_has_retry_delay;
}

const FUTURE: &str = "999999999999";

async fn watch_expires(place: &Place, query: &str, accept: &str) -> Result<()> {
    let past = place.past();
    let path = format!("{}?watch=true&resourceVersion={}{query}", past.path, past.version);
    let mut watch = place.admin().watch_as(&path, accept).await?;
    let error = watch.event().await?;
    ensure!(error.kind == "ERROR", "{error}");
    is_failure(&error.object, 410, "Expired").with_context(|| error.to_string())?;
    watch.expect_end().await
}

async fn watch_from_compacted_version_gets_error_event(place: Place) -> Result<()> {
    watch_expires(&place, "", JSON).await
}

async fn metadata_only_watch_from_compacted_version_gets_status(place: Place) -> Result<()> {
    watch_expires(&place, "", ONE).await
}

async fn compacted_version_also_expires_with_bookmarks(place: Place) -> Result<()> {
    watch_expires(&place, "&allowWatchBookmarks=true", JSON).await
}

async fn exact_list_of_compacted_version_expires(place: Place) -> Result<()> {
    let past = place.past();
    let path = format!("{}?resourceVersionMatch=Exact&resourceVersion={}", past.path, past.version);
    for accept in [JSON, SEVERAL] {
        let status = place.admin().get_as(&path, accept).await?.refused(410, "Expired")?;
        ensure!(status["metadata"].get("continue").is_none(), "{status}");
    }
    Ok(())
}

async fn limited_list_of_a_forgotten_version_expires(place: Place) -> Result<()> {
    let past = place.past();
    let path = format!("{}?limit=1&resourceVersion={}", past.path, past.version);
    place.admin().get(&path).await?.refused(410, "Expired")?;
    Ok(())
}

async fn list_not_older_than_a_forgotten_version_is_the_newest(place: Place) -> Result<()> {
    let past = place.past();
    for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=NotOlderThan&limit=9"] {
        let path = format!("{}?resourceVersion={}{query}", past.path, past.version);
        let list = place.admin().get(&path).await?.ok()?;
        ensure!(names(&list) == ["a", "b", "cc", "d", "e"], "{query}: {list}");
    }
    Ok(())
}

async fn streaming_list_of_a_forgotten_version_is_the_newest(place: Place) -> Result<()> {
    let past = place.past();
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let path = format!("{}?{query}&resourceVersion={}", past.path, past.version);
    let mut watch = place.admin().watch(&path).await?;
    for name in ["a", "b", "cc", "d", "e"] {
        watch.expect("ADDED", name).await?;
    }
    watch.expect_initial_end().await?;
    Ok(())
}

/// Returns the continue token in the 410 response for the expired token.
async fn other_token(place: &Place) -> Result<String> {
    let past = place.past();
    let path = format!("{}?limit=2&continue={}", past.path, past.token);
    let status = place.admin().get(&path).await?.refused(410, "Expired")?;
    Ok(next_page(&status).with_context(|| format!("no token in {status}"))?.to_owned())
}

async fn expired_token_returns_second_token(place: Place) -> Result<()> {
    let token = other_token(&place).await?;
    ensure!(token != place.past().token);
    ensure!(other_token(&place).await? == token, "the response contains a different token each time");
    Ok(())
}

async fn second_token_returns_rest_of_current_state(place: Place) -> Result<()> {
    let token = other_token(&place).await?;
    let newest = place.create("a").await?;
    let rest = place.admin().get(&format!("{}?continue={token}", place.past().path)).await?.ok()?;
    ensure!(names(&rest) == ["cc", "d", "e"] && next_page(&rest).is_none(), "{rest}");
    ensure!(item(&rest, "d")?["data"]["k"] == "1", "{rest}");
    ensure!(version(&rest)? >= version(&newest)?, "not the newest: {rest}");
    Ok(())
}

async fn rest_of_list_has_further_pages(place: Place) -> Result<()> {
    let path = &place.past().path;
    let token = other_token(&place).await?;
    let first = place.admin().get(&format!("{path}?limit=2&continue={token}")).await?.ok()?;
    ensure!(names(&first) == ["cc", "d"], "{first}");
    let token = next_page(&first).context("no token")?;
    let second = place.admin().get(&format!("{path}?limit=2&continue={token}")).await?.ok()?;
    ensure!(names(&second) == ["e"] && version(&second)? == version(&first)?, "{second}");
    Ok(())
}

async fn list_without_version_returns_version_for_watch(place: Place) -> Result<()> {
    let path = &place.past().path;
    let list = place.admin().get(path).await?.ok()?;
    let query = format!("watch=true&resourceVersion={}&timeoutSeconds=1", version(&list)?);
    place.admin().watch(&format!("{path}?{query}")).await?.expect_end().await
}

async fn is_too_large(place: &Place, path: &str) -> Result<()> {
    place.create("a").await?;
    let status = place.admin().get(path).await?.refused(504, "Timeout")?;
    ensure!(status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge", "{status}");
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.contains("Too large resource version"), "{message}");
    Ok(())
}

async fn list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}", place.all())).await
}

async fn exact_list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}&resourceVersionMatch=Exact", place.all()))
        .await
}

async fn limited_list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}&limit=1", place.all())).await
}

async fn get_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}", place.one("a"))).await
}

async fn version_too_large_error_has_retry_delay(place: Place) -> Result<()> {
    let path = format!("{}?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan", place.all());
    let reply = place.admin().get(&path).await?;
    let status = reply.refused(504, "Timeout")?;
    ensure!(status["details"]["retryAfterSeconds"] == 1, "{status}");
    ensure!(reply.header(http::header::RETRY_AFTER) == "1", "{:?}", reply.headers);
    Ok(())
}

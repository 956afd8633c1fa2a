//! Versions that the server does not have: those it has forgotten, and those still to come.

use anyhow::{Context as _, Result, ensure};

use super::metadata_only::{ONE, SEVERAL};
use super::place::Place;
use super::raw::{JSON, is_failure};
use super::values::{item, names, next_page, version};

checks! {
    "A WATCH from a forgotten version is accepted, tells one ERROR with code 410 and reason Expired, and ends.":
        a_watch_from_a_forgotten_version_tells_an_error, a_forgotten_version_is_a_status_where_metadata_is_asked_for,
        a_forgotten_version_expires_with_bookmarks_too;
    "A LIST of exactly a forgotten version is refused with 410 and reason Expired.":
        an_exact_list_of_a_forgotten_version_expires, a_limited_list_of_a_forgotten_version_expires;
    "A LIST not older than a forgotten version shows the newest state.":
        a_list_not_older_than_a_forgotten_version_is_the_newest;
    "A streaming list not older than a forgotten version shows the newest state."
        if has_watch_list:
        a_streaming_list_of_a_forgotten_version_is_the_newest;
    "An expired continue token is refused with 410, and the refusal has a token for the rest of the newest state.":
        an_expired_token_gives_another, the_other_token_shows_the_rest_as_it_is_now, the_rest_has_pages_of_its_own;
    "After a refusal for a forgotten version a LIST without a version gives one to go on from.":
        a_fresh_list_gives_a_version_to_watch_from;
    "A LIST or GET at a version of the future fails with 504, reason Timeout and cause ResourceVersionTooLarge.":
        a_list_of_the_future_is_too_large, an_exact_list_of_the_future_is_too_large,
        a_limited_list_of_the_future_is_too_large, a_get_of_the_future_is_too_large;
    "The refusal of too large a version says when to try again."
        if has_watch_cache:
        too_large_a_version_says_when_to_try_again;
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

async fn a_watch_from_a_forgotten_version_tells_an_error(place: Place) -> Result<()> {
    watch_expires(&place, "", JSON).await
}

async fn a_forgotten_version_is_a_status_where_metadata_is_asked_for(place: Place) -> Result<()> {
    watch_expires(&place, "", ONE).await
}

async fn a_forgotten_version_expires_with_bookmarks_too(place: Place) -> Result<()> {
    watch_expires(&place, "&allowWatchBookmarks=true", JSON).await
}

async fn an_exact_list_of_a_forgotten_version_expires(place: Place) -> Result<()> {
    let past = place.past();
    let path = format!("{}?resourceVersionMatch=Exact&resourceVersion={}", past.path, past.version);
    for accept in [JSON, SEVERAL] {
        let status = place.admin().get_as(&path, accept).await?.refused(410, "Expired")?;
        ensure!(status["metadata"].get("continue").is_none(), "{status}");
    }
    Ok(())
}

async fn a_limited_list_of_a_forgotten_version_expires(place: Place) -> Result<()> {
    let past = place.past();
    let path = format!("{}?limit=1&resourceVersion={}", past.path, past.version);
    place.admin().get(&path).await?.refused(410, "Expired")?;
    Ok(())
}

async fn a_list_not_older_than_a_forgotten_version_is_the_newest(place: Place) -> Result<()> {
    let past = place.past();
    for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=NotOlderThan&limit=9"] {
        let path = format!("{}?resourceVersion={}{query}", past.path, past.version);
        let list = place.admin().get(&path).await?.ok()?;
        ensure!(names(&list) == ["a", "b", "cc", "d", "e"], "{query}: {list}");
    }
    Ok(())
}

async fn a_streaming_list_of_a_forgotten_version_is_the_newest(place: Place) -> Result<()> {
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

/// The token in the refusal of the expired one.
async fn other_token(place: &Place) -> Result<String> {
    let past = place.past();
    let path = format!("{}?limit=2&continue={}", past.path, past.token);
    let status = place.admin().get(&path).await?.refused(410, "Expired")?;
    Ok(next_page(&status).with_context(|| format!("no token in {status}"))?.to_owned())
}

async fn an_expired_token_gives_another(place: Place) -> Result<()> {
    let token = other_token(&place).await?;
    ensure!(token != place.past().token);
    ensure!(other_token(&place).await? == token, "another one each time");
    Ok(())
}

async fn the_other_token_shows_the_rest_as_it_is_now(place: Place) -> Result<()> {
    let token = other_token(&place).await?;
    let newest = place.create("a").await?;
    let rest = place.admin().get(&format!("{}?continue={token}", place.past().path)).await?.ok()?;
    ensure!(names(&rest) == ["cc", "d", "e"] && next_page(&rest).is_none(), "{rest}");
    ensure!(item(&rest, "d")?["data"]["k"] == "1", "{rest}");
    ensure!(version(&rest)? >= version(&newest)?, "not the newest: {rest}");
    Ok(())
}

async fn the_rest_has_pages_of_its_own(place: Place) -> Result<()> {
    let path = &place.past().path;
    let token = other_token(&place).await?;
    let first = place.admin().get(&format!("{path}?limit=2&continue={token}")).await?.ok()?;
    ensure!(names(&first) == ["cc", "d"], "{first}");
    let token = next_page(&first).context("no token")?;
    let second = place.admin().get(&format!("{path}?limit=2&continue={token}")).await?.ok()?;
    ensure!(names(&second) == ["e"] && version(&second)? == version(&first)?, "{second}");
    Ok(())
}

async fn a_fresh_list_gives_a_version_to_watch_from(place: Place) -> Result<()> {
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

async fn a_list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}", place.all())).await
}

async fn an_exact_list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}&resourceVersionMatch=Exact", place.all()))
        .await
}

async fn a_limited_list_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}&limit=1", place.all())).await
}

async fn a_get_of_the_future_is_too_large(place: Place) -> Result<()> {
    is_too_large(&place, &format!("{}?resourceVersion={FUTURE}", place.one("a"))).await
}

async fn too_large_a_version_says_when_to_try_again(place: Place) -> Result<()> {
    let path = format!("{}?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan", place.all());
    let reply = place.admin().get(&path).await?;
    let status = reply.refused(504, "Timeout")?;
    ensure!(status["details"]["retryAfterSeconds"] == 1, "{status}");
    ensure!(reply.header(http::header::RETRY_AFTER) == "1", "{:?}", reply.headers);
    Ok(())
}

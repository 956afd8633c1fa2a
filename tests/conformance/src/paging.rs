//! LIST in pages. All pages have the same state. Also checks the parameters that a continue token permits.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::values::{items, names, next_page, version};

checks! {
    "A LIST with a limit returns pages that together contain one state, independent of the time between requests.":
        pages_split_a_list_in_order, pages_contain_state_of_first_page,
        pages_across_namespaces_contain_all_objects, page_without_limit_contains_all_remaining_objects;
    "A full page has a continue token, and the last page has no token.":
        list_below_limit_has_no_token, list_equal_to_limit_has_no_token;
    "A page contains remainingItemCount, except with a selector.":
        page_counts_remaining_items, page_of_a_selection_does_not_count;
    "A limit counts the items that the selectors let through.":
        limit_counts_selected_items_only, last_page_of_a_selection_may_be_empty;
    "A LIST at version 0 ignores the limit, because a watch cache serves it."
        if has_watch_cache:
        list_at_zero_ignores_the_limit;
    "Without a watch cache a LIST at version 0 is paged like any other."
        if lacks_watch_cache:
        without_watch_cache_list_at_zero_has_pages;
    "A LIST at N with a limit means exactly N.":
        limit_at_a_version_means_exactly_it, exact_pages_continue_at_their_version;
    "NotOlderThan with a limit returns pages of the state at its version or later.":
        pages_not_older_than_a_version_are_of_one_state;
    "A limit of 0 or less means no limit.":
        limit_of_zero_or_less_means_no_limit;
    "A continue token of a later version is rejected as too large.":
        token_of_later_version_is_rejected;
    "A request with a continue token carries neither version nor match.":
        token_with_version_is_rejected, token_with_match_is_rejected, token_with_version_zero_is_accepted,
        invalid_token_is_rejected;
}

/// The page behind `page`.
async fn following(place: &Place, page: &Value, query: &str) -> Result<Value> {
    let token = next_page(page).with_context(|| format!("no token in {page}"))?;
    place.list(&format!("{query}&continue={token}")).await
}

async fn pages_split_a_list_in_order(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c", "d", "e"]).await?;
    let first = place.list("limit=2").await?;
    ensure!(names(&first) == ["a", "b"], "{first}");
    let second = following(&place, &first, "limit=2").await?;
    ensure!(names(&second) == ["c", "d"], "{second}");
    let third = following(&place, &second, "limit=2").await?;
    ensure!(names(&third) == ["e"] && next_page(&third).is_none(), "{third}");
    for page in [&second, &third] {
        ensure!(version(page)? == version(&first)?, "{page}");
        ensure!(page["kind"] == "ConfigMapList", "{page}");
    }
    Ok(())
}

async fn pages_contain_state_of_first_page(place: Place) -> Result<()> {
    place.create_all(["a", "b", "d", "e"]).await?;
    let first = place.list("limit=1").await?;
    place.delete("b").await?;
    place.create("c").await?;
    place.set("d", "new").await?;
    place.delete("e").await?;

    let second = following(&place, &first, "limit=2").await?;
    ensure!(names(&second) == ["b", "d"], "{second}");
    ensure!(items(&second).iter().all(|item| item.get("data").is_none()), "{second}");
    let third = following(&place, &second, "limit=2").await?;
    ensure!(names(&third) == ["e"], "{third}");
    ensure!(version(&second)? == version(&first)? && version(&third)? == version(&first)?);
    Ok(())
}

async fn pages_across_namespaces_contain_all_objects(place: Place) -> Result<()> {
    let beside = place.beside().await?;
    let label = json!({"everywhere": place.namespace});
    for (there, name) in [(&beside, "b"), (&beside, "c"), (&place, "a"), (&place, "b")] {
        there.create_labelled(name, label.clone()).await?;
    }
    let path = format!("/api/v1/configmaps?labelSelector=everywhere%3D{}&limit=1", place.namespace);
    let mut page = place.admin().get(&path).await?.ok()?;
    let mut seen: Vec<String> = names(&page).into_iter().map(Into::into).collect();
    while let Some(token) = next_page(&page) {
        page = place.admin().get(&format!("{path}&continue={token}")).await?.ok()?;
        seen.extend(names(&page).into_iter().map(Into::into));
    }
    ensure!(seen == ["b", "c", "a", "b"], "{seen:?}");
    Ok(())
}

async fn page_without_limit_contains_all_remaining_objects(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c", "d"]).await?;
    let first = place.list("limit=1").await?;
    let rest = following(&place, &first, "").await?;
    ensure!(names(&rest) == ["b", "c", "d"] && next_page(&rest).is_none(), "{rest}");
    Ok(())
}

async fn list_below_limit_has_no_token(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    let list = place.list("limit=500").await?;
    ensure!(names(&list) == ["a", "b"] && next_page(&list).is_none(), "{list}");
    ensure!(list["metadata"].get("remainingItemCount").is_none(), "{list}");
    Ok(())
}

async fn list_equal_to_limit_has_no_token(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    let list = place.list("limit=2").await?;
    ensure!(names(&list) == ["a", "b"] && next_page(&list).is_none(), "{list}");
    Ok(())
}

async fn page_counts_remaining_items(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c", "d"]).await?;
    let first = place.list("limit=1").await?;
    ensure!(first["metadata"]["remainingItemCount"] == 3, "{first}");
    let second = following(&place, &first, "limit=2").await?;
    ensure!(second["metadata"]["remainingItemCount"] == 1, "{second}");
    Ok(())
}

async fn page_of_a_selection_does_not_count(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c"]).await?;
    for selector in ["labelSelector=!x", "fieldSelector=metadata.name!%3Dc"] {
        let page = place.list(&format!("limit=1&{selector}")).await?;
        ensure!(next_page(&page).is_some() && page["metadata"].get("remainingItemCount").is_none(), "{page}");
    }
    Ok(())
}

async fn limit_counts_selected_items_only(place: Place) -> Result<()> {
    for (name, x) in [("a", "0"), ("b", "1"), ("c", "0"), ("d", "1"), ("e", "0"), ("f", "1")] {
        place.create_labelled(name, json!({"x": x})).await?;
    }
    let first = place.list("limit=2&labelSelector=x%3D1").await?;
    ensure!(names(&first) == ["b", "d"], "{first}");
    let second = following(&place, &first, "limit=2&labelSelector=x%3D1").await?;
    ensure!(names(&second) == ["f"] && next_page(&second).is_none(), "{second}");
    Ok(())
}

async fn last_page_of_a_selection_may_be_empty(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    place.create("b").await?;
    let first = place.list("limit=1&labelSelector=x").await?;
    ensure!(names(&first) == ["a"], "{first}");
    let last = following(&place, &first, "limit=1&labelSelector=x").await?;
    ensure!(last["items"] == json!([]) && next_page(&last).is_none(), "{last}");
    ensure!(version(&last)? == version(&first)?, "{last}");
    Ok(())
}

async fn without_watch_cache_list_at_zero_has_pages(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    let page = place.list("resourceVersion=0&limit=1").await?;
    ensure!(names(&page) == ["a"] && next_page(&page).is_some(), "{page}");
    Ok(())
}

async fn list_at_zero_ignores_the_limit(place: Place) -> Result<()> {
    let [_, b] = place.create_all(["a", "b"]).await?;
    place.seen(&b).await?;
    for query in ["resourceVersion=0&limit=1", "resourceVersion=0&limit=1&resourceVersionMatch=NotOlderThan"]
    {
        let list = place.list(query).await?;
        ensure!(names(&list) == ["a", "b"] && next_page(&list).is_none(), "{list}");
    }
    Ok(())
}

async fn limit_at_a_version_means_exactly_it(place: Place) -> Result<()> {
    let [a, _] = place.create_all(["a", "b"]).await?;
    let n = version(&a)?;
    let list = place.list(&format!("resourceVersion={n}&limit=5")).await?;
    ensure!(version(&list)? == n && names(&list) == ["a"], "{list}");
    Ok(())
}

async fn exact_pages_continue_at_their_version(place: Place) -> Result<()> {
    let [_, _, c] = place.create_all(["a", "b", "c"]).await?;
    let n = version(&c)?;
    place.delete("b").await?;
    place.create("bb").await?;
    let first = place.list(&format!("resourceVersion={n}&resourceVersionMatch=Exact&limit=1")).await?;
    ensure!(version(&first)? == n && names(&first) == ["a"], "{first}");
    let rest = following(&place, &first, "limit=5").await?;
    ensure!(version(&rest)? == n && names(&rest) == ["b", "c"], "{rest}");
    Ok(())
}

async fn pages_not_older_than_a_version_are_of_one_state(place: Place) -> Result<()> {
    let [a, b] = place.create_all(["a", "b"]).await?;
    for n in [version(&a)?, version(&b)?] {
        let query = format!("resourceVersion={n}&resourceVersionMatch=NotOlderThan&limit=1");
        let first = place.list(&query).await?;
        ensure!(version(&first)? >= n && names(&first) == ["a"], "{first}");
        if version(&first)? >= version(&b)? {
            ensure!(names(&following(&place, &first, "limit=1").await?) == ["b"]);
        } else {
            ensure!(next_page(&first).is_none(), "{first}");
        }
    }
    Ok(())
}

async fn limit_of_zero_or_less_means_no_limit(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    for query in ["limit=0", "limit=-1"] {
        let list = place.list(query).await?;
        ensure!(names(&list) == ["a", "b"] && next_page(&list).is_none(), "{query}: {list}");
    }
    Ok(())
}

async fn token(place: &Place) -> Result<String> {
    place.create_all(["a", "b"]).await?;
    Ok(next_page(&place.list("limit=1").await?).context("no token")?.to_owned())
}

async fn token_of_later_version_is_rejected(place: Place) -> Result<()> {
    // {"v":"meta.k8s.io/v1","rv":99999999,"start":"/a\u0000"}
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTksInN0YXJ0IjoiL2FcdTAwMDAifQ";
    place.create_all(["a", "b"]).await?;
    let answer = place.admin().get(&format!("{}?continue={token}", place.all())).await?;
    let message = answer.refused(504, "Timeout")?["message"].as_str().unwrap_or("").to_owned();
    ensure!(message.starts_with("Timeout: Too large resource version: 99999999, current: "), "{message}");
    Ok(())
}

async fn token_with_version_is_rejected(place: Place) -> Result<()> {
    let path = format!("{}?continue={}&resourceVersion=1", place.all(), token(&place).await?);
    place.admin().get(&path).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn token_with_match_is_rejected(place: Place) -> Result<()> {
    let path = format!("{}?continue={}", place.all(), token(&place).await?);
    for more in ["resourceVersionMatch=NotOlderThan", "resourceVersion=1&resourceVersionMatch=Exact"] {
        place.admin().get(&format!("{path}&{more}")).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn token_with_version_zero_is_accepted(place: Place) -> Result<()> {
    let token = token(&place).await?;
    ensure!(names(&place.list(&format!("continue={token}&resourceVersion=0")).await?) == ["b"]);
    Ok(())
}

async fn invalid_token_is_rejected(place: Place) -> Result<()> {
    for token in ["bad", "!!", "e30"] {
        place.admin().get(&format!("{}?continue={token}", place.all())).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

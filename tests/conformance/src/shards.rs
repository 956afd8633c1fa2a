//! Lists and watches of a shard, on servers that know shards.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::place::Place;
use super::values::names;

checks! {
    "Shards that cover all hashes contain each object once, and a list contains its shard in one format."
        if has_shards: shards_share_out_the_objects, list_contains_its_shard;
    "A page of a shard counts all remaining objects, and the next page continues in the shard."
        if has_shards: pages_continue_in_the_shard;
    "A watch of a shard gets only events of its objects."
        if has_shards: watch_gets_events_of_its_shard;
    "An invalid shard selector is rejected with 500 and no reason, after validation of all other options."
        if has_shards: other_expression_is_rejected, other_options_are_judged_first;
    "A server without shards ignores the selector."
        if lacks_shards: shard_selector_is_ignored;
}

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// The query for the objects whose hash is from `start` to before `end`.
fn shard(start: &str, end: &str) -> String {
    format!("shardSelector=shardRange(object.metadata.uid,'0x{start}','0x{end}')")
}

fn low() -> String {
    shard("0000000000000000", "8000000000000000")
}

fn high() -> String {
    shard("8000000000000000", "10000000000000000")
}

async fn shards_share_out_the_objects(place: Place) -> Result<()> {
    place.create_all(NAMES).await?;
    let (low_list, high_list) = (place.list(&low()).await?, place.list(&high()).await?);
    let mut all = [names(&low_list), names(&high_list)].concat();
    all.sort_unstable();
    ensure!(all == NAMES, "{all:?}");
    let one = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
    let other = "shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')";
    let both = place.list(&format!("shardSelector={one}%7C%7C{other}")).await?;
    ensure!(names(&both) == NAMES, "{both}");
    Ok(())
}

async fn list_contains_its_shard(place: Place) -> Result<()> {
    let list = place.list(&low()).await?;
    let shown = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    ensure!(list["metadata"]["shardInfo"] == json!({"selector": shown}), "{list}");
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = place.admin().get_as(&format!("{}?{}", place.all(), low()), metadata).await?.ok()?;
    ensure!(list["metadata"]["shardInfo"].is_null(), "{list}");
    Ok(())
}

async fn pages_continue_in_the_shard(place: Place) -> Result<()> {
    place.create_all(NAMES).await?;
    // All objects are in the shard, so the count does not depend on their uids.
    let all = shard("0000000000000000", "10000000000000000");
    let page = place.list(&format!("{all}&limit=5")).await?;
    ensure!(names(&page) == NAMES[..5] && page["metadata"]["remainingItemCount"] == 7, "{page}");
    let token = page["metadata"]["continue"].as_str().context("no token")?;
    let rest = place.list(&format!("{all}&continue={token}")).await?;
    ensure!(names(&rest) == NAMES[5..] && rest["metadata"]["shardInfo"].is_object(), "{rest}");
    Ok(())
}

async fn watch_gets_events_of_its_shard(place: Place) -> Result<()> {
    let created = place.create_all(NAMES).await?;
    place.seen(&created[NAMES.len() - 1]).await?;
    let list = place.list(&low()).await?;
    let mut watch = place.watch(&format!("{}&resourceVersion=0&timeoutSeconds=1", low())).await?;
    let events = watch.rest().await?;
    let added: Vec<&str> = events.iter().map(|event| event.brief().1).collect();
    ensure!(added == names(&list), "{added:?} of {list}");
    Ok(())
}

async fn other_expression_is_rejected(place: Place) -> Result<()> {
    for selector in ["x", "%20", "shardRange()"] {
        for more in ["", "&watch=true"] {
            let path = format!("{}?shardSelector={selector}{more}", place.all());
            let status = place.admin().get(&path).await?.refused(500, "")?;
            ensure!(
                status["message"].as_str().unwrap_or("").starts_with("invalid shard selector: "),
                "{status}"
            );
        }
    }
    Ok(())
}

async fn other_options_are_judged_first(place: Place) -> Result<()> {
    let path = |more: &str| format!("{}?shardSelector=x&{more}", place.all());
    place.admin().get(&path("limit=x")).await?.refused(400, "BadRequest")?;
    place.admin().get(&path("resourceVersionMatch=Exact")).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn shard_selector_is_ignored(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    for query in ["shardSelector=x".to_owned(), shard("0000000000000000", "0000000000000001")] {
        let list = place.list(&query).await?;
        ensure!(names(&list) == ["a", "b"] && list["metadata"]["shardInfo"].is_null(), "{list}");
    }
    Ok(())
}

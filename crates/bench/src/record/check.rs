//! Checks that a replay equals the response of the server, byte for byte.

use anyhow::{Context as _, Result, ensure};
use kube_client::Client;
use serde::Deserialize;

use super::read::{Watch, list, page};
use crate::wire::{Change, Kind, Object, Wire};

/// The limit for the increase of the resourceVersion between two requests. The server also writes
/// other objects.
const MAX_VERSION_INCREASE: u64 = 10_000;

/// Checks a complete list.
pub(super) fn whole_list(wire: Wire, body: &[u8], version: u64, objects: &[Object]) -> Result<()> {
    ensure!(
        composed(wire, version, None, objects) == body,
        "the replay of a list in {wire:?} differs from the response"
    );
    Ok(())
}

/// Checks a list of metadata.
pub(super) async fn metadata_list(client: &Client, version: u64, objects: &[Object]) -> Result<()> {
    whole_list(Wire::Metadata, &list(client, Wire::Metadata, Some(version)).await?, version, objects)
}

/// Checks the first page of a list.
pub(super) async fn first_page(client: &Client, version: u64, objects: &[Object]) -> Result<()> {
    #[derive(Deserialize)]
    struct Page {
        metadata: Next,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Next {
        r#continue: String,
        remaining_item_count: u64,
    }
    let body = page(client, 1, version).await?;
    let Page { metadata: next } =
        serde_json::from_slice(&body).context("a list of several Pods has no pages")?;
    let next = Some((next.r#continue.as_str(), next.remaining_item_count));
    ensure!(
        composed(Wire::Json, version, next, &objects[..1]) == body,
        "the replay of a page differs from the response"
    );
    Ok(())
}

fn composed(wire: Wire, version: u64, next: Option<(&str, u64)>, objects: &[Object]) -> Vec<u8> {
    let items = objects.iter().map(|object| wire.item_length(object)).sum();
    let mut body = wire.list_head(Kind::Pod, version, next, items);
    for (index, object) in objects.iter().enumerate() {
        wire.item(&mut body, object, object.stamp(), index == 0);
    }
    body.extend_from_slice(wire.list_tail());
    body
}

/// Checks a streaming list, with its final bookmark.
pub(super) async fn streaming_list(
    client: &Client,
    wire: Wire,
    version: u64,
    objects: &[Object],
) -> Result<()> {
    let parameters = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::open(client, wire, parameters).await?;
    let mut frames = watch.frames(objects.len() + 1).await?;
    let end = frames.pop().unwrap_or_default();
    let mut ends =
        (version..version + MAX_VERSION_INCREASE).map(|version| wire.bookmark(Kind::Pod, version, true));
    ensure!(
        ends.any(|bookmark| bookmark == end),
        "the replay of a bookmark in {wire:?} differs from the response"
    );
    for (frame, object) in frames.iter().zip(objects) {
        event(wire, frame, object, Change::Added)?;
    }
    Ok(())
}

/// Checks an event of a watch.
pub(super) fn event(wire: Wire, frame: &[u8], object: &Object, change: Change) -> Result<()> {
    let mut replayed = Vec::new();
    wire.event(&mut replayed, Kind::Pod, change, object, object.stamp());
    ensure!(replayed == frame, "the replay of an event in {wire:?} differs from the response");
    Ok(())
}

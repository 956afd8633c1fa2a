//! Accessors for common fields of objects and lists.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The version of an object, a list or a bookmark; a decimal number without leading zeros.
pub(super) fn version(of: &Value) -> Result<u64> {
    let text = of["metadata"]["resourceVersion"].as_str().with_context(|| format!("no version in {of}"))?;
    let version: u64 = text.parse().with_context(|| format!("not a decimal version: {text:?}"))?;
    ensure!(version > 0 && version.to_string() == text, "not the shortest decimal version: {text:?}");
    Ok(version)
}

/// The names of a list's items, in their order.
pub(super) fn names(list: &Value) -> Vec<&str> {
    items(list).iter().map(name).collect()
}

pub(super) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("")
}

pub(super) fn uid(object: &Value) -> Result<&str> {
    let uid = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
    uid.with_context(|| format!("no uid in {object}"))
}

/// The token for the next page, if there is one.
pub(super) fn next_page(list: &Value) -> Option<&str> {
    list["metadata"]["continue"].as_str().filter(|token| !token.is_empty())
}

/// The item of this name.
pub(super) fn item<'a>(list: &'a Value, wanted: &str) -> Result<&'a Value> {
    items(list).iter().find(|item| name(item) == wanted).with_context(|| format!("no {wanted} in {list}"))
}

//! Lists and events in JSON, with exactly the bytes of kube-apiserver.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Change, CutList, Name, Object, Outline, Stamp};
use crate::pods::SENT_LABEL;

/// The constant bytes of a kind of objects.
pub(super) struct Prefixes {
    /// The first bytes of a list.
    pub(super) list: &'static str,
    /// The first bytes of an object in an event.
    pub(super) in_event: &'static str,
    /// The first bytes of an object in a list.
    pub(super) in_list: &'static str,
    /// The bytes of a bookmark after its metadata.
    pub(super) empty: &'static str,
}

pub(super) const METADATA: Prefixes = Prefixes {
    list: r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":"#,
    in_event: r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
    in_list: r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
    empty: "",
};

pub(super) const LIST_TAIL: &[u8] = b"]}\n";
const EVENT_TAIL: &[u8] = b"}\n";

impl Prefixes {
    pub(super) fn list_head(&self, version: u64, next: Option<(&str, u64)>) -> Vec<u8> {
        let next = next.map(|(token, left)| format!(r#","continue":"{token}","remainingItemCount":{left}"#));
        let next = next.unwrap_or_default();
        format!(r#"{}{{"resourceVersion":"{version}"{next}}},"items":["#, self.list).into()
    }

    pub(super) fn item(&self, out: &mut Vec<u8>, object: &Object, stamp: Stamp, first: bool) {
        if !first {
            out.push(b',');
        }
        out.extend_from_slice(self.in_list.as_bytes());
        object.write(out, stamp, 1);
    }

    pub(super) fn event(&self, out: &mut Vec<u8>, change: Change, object: &Object, stamp: Stamp) {
        out.extend_from_slice(event_head(change).as_bytes());
        out.extend_from_slice(self.in_event.as_bytes());
        object.write(out, stamp, 1);
        out.extend_from_slice(EVENT_TAIL);
    }

    pub(super) fn bookmark(&self, version: u64, ends_initial: bool) -> Vec<u8> {
        let annotations = match ends_initial {
            true => r#","annotations":{"k8s.io/initial-events-end":"true"}"#,
            false => "",
        };
        let Self { in_event, empty, .. } = self;
        let object =
            format!(r#"{in_event}"metadata":{{"resourceVersion":"{version}"{annotations}}}{empty}}}"#);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }

    pub(super) fn cut_event(&self, frame: &[u8], change: Change) -> Result<Vec<u8>> {
        let object = frame.strip_prefix(event_head(change).as_bytes()).context("unexpected type of event")?;
        let object = object.strip_suffix(EVENT_TAIL).context("the event is truncated")?;
        let rest = object.strip_prefix(self.in_event.as_bytes()).context("unexpected kind of object")?;
        Ok([b"{", rest].concat())
    }
}

fn event_head(change: Change) -> &'static str {
    match change {
        Change::Added => r#"{"type":"ADDED","object":"#,
        Change::Modified => r#"{"type":"MODIFIED","object":"#,
    }
}

pub(super) fn expired(message: &str) -> Vec<u8> {
    let status = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"Expired","code":410}}"#
    );
    format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into()
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: Version<'a>,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version<'a> {
    resource_version: &'a str,
}

pub(super) fn cut_list(body: &[u8]) -> Result<CutList<'_>> {
    let list: List<'_> = serde_json::from_slice(body)?;
    let items = list.items.into_iter().map(|item| item.get().as_bytes()).collect();
    Ok(CutList { version: list.metadata.resource_version.parse()?, items })
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    /// Empty for a cluster-scoped object.
    #[serde(default)]
    namespace: &'a str,
    name: &'a str,
    resource_version: &'a str,
    #[serde(borrow)]
    labels: HashMap<&'a str, &'a str>,
}

pub(super) fn outline(object: &[u8]) -> Result<Outline> {
    let Named { metadata } = serde_json::from_slice(object)?;
    let sent = metadata.labels.get(SENT_LABEL).context("the label with the send time is missing")?;
    let name = Name { namespace: metadata.namespace.into(), name: metadata.name.into() };
    Ok(Outline { name, version: place(object, metadata.resource_version)?, sent: place(object, sent)? })
}

/// Returns the range of a text that was borrowed from `bytes`.
fn place(bytes: &[u8], text: &str) -> Result<Range<usize>> {
    let start = (text.as_ptr().addr()).wrapping_sub(bytes.as_ptr().addr());
    ensure!(
        start.checked_add(text.len()).is_some_and(|end| end <= bytes.len()),
        "the text is not part of the bytes"
    );
    Ok(start..start + text.len())
}

pub(super) fn with_version(object: &[u8], at: &Range<usize>, version: u64) -> Vec<u8> {
    [&object[..at.start], version.to_string().as_bytes(), &object[at.end..]].concat()
}

#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

pub(super) fn metadata_only(object: &[u8]) -> Result<Vec<u8>> {
    let OnlyMetadata { metadata } = serde_json::from_slice(object)?;
    Ok(format!(r#"{{"metadata":{metadata}}}"#).into())
}

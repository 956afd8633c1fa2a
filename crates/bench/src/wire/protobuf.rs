//! Lists and events in protobuf, with exactly the bytes of kube-apiserver. The generated code of Go
//! writes all texts, including empty texts, and the fields in the order of their numbers.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Change, CutList, Kind, KindTexts, Name, Object, Outline, Stamp, number};
use crate::pods::SENT_LABEL;

/// The first bytes of an object with its type: `runtime.Unknown` in Kubernetes.
const MAGIC: &[u8] = b"k8s\0";
/// The last bytes of this envelope: an empty encoding and an empty content type.
pub(super) const ENVELOPE_TAIL: &[u8] = &[0x1a, 0, 0x22, 0];
/// The spec and the status of a Pod in a bookmark.
const EMPTY_SPEC: &[u8] = &[
    0x1a, 0, 0x32, 0, 0x42, 0, 0x4a, 0, 0x52, 0, 0x58, 0, 0x60, 0, 0x68, 0, 0x82, 1, 0, 0x8a, 1, 0, 0x9a, 1,
    0, 0xc2, 1, 0,
];
const EMPTY_STATUS: &[u8] =
    &[0x0a, 0, 0x1a, 0, 0x22, 0, 0x2a, 0, 0x32, 0, 0x4a, 0, 0x5a, 0, 0x72, 0, 0x88, 1, 0];

/// Wire types.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

/// Field numbers of a Pod, of a PodList, and of metadata.
const METADATA: u64 = 1;
const ITEMS: u64 = 2;
const NAME: u64 = 1;
const NAMESPACE: u64 = 3;
const RESOURCE_VERSION: u64 = 6;
const LABELS: u64 = 11;
const ANNOTATIONS: u64 = 12;

pub(super) fn list_head(kind: &KindTexts, version: u64, next: Option<(&str, u64)>, items: usize) -> Vec<u8> {
    let mut meta = Vec::new();
    put(&mut meta, 1, b"");
    put(&mut meta, 2, version.to_string().as_bytes());
    put(&mut meta, 3, next.map_or("", |(token, _)| token).as_bytes());
    if let Some((_, left)) = next {
        meta.push(4 << 3 | VARINT);
        put_varint(&mut meta, left);
    }
    let mut list = Vec::new();
    put(&mut list, METADATA, &meta);
    let mut head = envelope_head((kind.api_version, kind.list_kind), list.len() + items);
    head.extend(list);
    head
}

pub(super) fn item(out: &mut Vec<u8>, object: &Object, stamp: Stamp) {
    put_head(out, ITEMS, object.bytes.len());
    object.write(out, stamp, 0);
}

pub(super) fn event(out: &mut Vec<u8>, kind: &KindTexts, change: Change, object: &Object, stamp: Stamp) {
    event_head(out, name_of(change), (kind.api_version, kind.kind), object.bytes.len());
    object.write(out, stamp, 0);
    out.extend_from_slice(ENVELOPE_TAIL);
}

pub(super) fn bookmark(kind: Kind, version: u64, ends_initial: bool) -> Vec<u8> {
    let mut meta = Vec::new();
    for field in 1..RESOURCE_VERSION {
        put(&mut meta, field, b"");
    }
    put(&mut meta, RESOURCE_VERSION, version.to_string().as_bytes());
    meta.extend([7 << 3 | VARINT, 0, 8 << 3 | LENGTH, 0]);
    if ends_initial {
        let mut entry = Vec::new();
        put(&mut entry, 1, b"k8s.io/initial-events-end");
        put(&mut entry, 2, b"true");
        put(&mut meta, ANNOTATIONS, &entry);
    }
    let mut object = Vec::new();
    put(&mut object, METADATA, &meta);
    if kind == Kind::Pod {
        put(&mut object, 2, EMPTY_SPEC);
        put(&mut object, 3, EMPTY_STATUS);
    }
    let texts = kind.texts();
    whole_event("BOOKMARK", (texts.api_version, texts.kind), &object)
}

pub(super) fn expired(message: &str) -> Vec<u8> {
    let mut status = Vec::new();
    put(&mut status, 1, &[0x0a, 0, 0x12, 0, 0x1a, 0]);
    put(&mut status, 2, b"Failure");
    put(&mut status, 3, message.as_bytes());
    put(&mut status, 4, b"Expired");
    status.push(6 << 3 | VARINT);
    put_varint(&mut status, 410);
    whole_event("ERROR", ("v1", "Status"), &status)
}

fn whole_event(event: &str, kind: (&str, &str), object: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    event_head(&mut out, event, kind, object.len());
    out.extend_from_slice(object);
    out.extend_from_slice(ENVELOPE_TAIL);
    out
}

fn name_of(change: Change) -> &'static str {
    match change {
        Change::Added => "ADDED",
        Change::Modified => "MODIFIED",
    }
}

/// Returns the bytes before the object in a frame: the length of the frame in four bytes, the type
/// of the event, and the start of the object.
fn event_head(out: &mut Vec<u8>, event: &str, kind: (&str, &str), object: usize) {
    let envelope = envelope_head(kind, object);
    let raw = envelope.len() + object + ENVELOPE_TAIL.len();
    let mut head = Vec::with_capacity(64);
    put(&mut head, 1, event.as_bytes());
    put_head(&mut head, 2, field_length(raw));
    put_head(&mut head, 1, raw);
    let length = u32::try_from(head.len() + raw).unwrap_or(u32::MAX);
    out.extend(length.to_be_bytes());
    out.extend(head);
    out.extend(envelope);
}

/// Returns the start of an object of this apiVersion and kind.
fn envelope_head((api_version, kind): (&str, &str), object: usize) -> Vec<u8> {
    let mut types = Vec::new();
    put(&mut types, 1, api_version.as_bytes());
    put(&mut types, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put(&mut out, 1, &types);
    put_head(&mut out, 2, object);
    out
}

pub(super) fn cut_list(body: &[u8]) -> Result<CutList<'_>> {
    let list = open(body)?;
    let meta = &list[first(list, METADATA)?.context("the list has no metadata")?];
    let version = first(meta, 2)?.context("the list has no resourceVersion")?;
    let is_item = |field: &Result<(u64, _)>| !matches!(field, Ok((field, _)) if *field != ITEMS);
    let items = fields(list).filter(is_item).map(|item| item.map(|(_, at)| &list[at]));
    Ok(CutList { version: number(meta, &version)?, items: items.collect::<Result<_>>()? })
}

pub(super) fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize + 4;
    (bytes.len() >= length).then_some(length)
}

pub(super) fn cut_event(frame: &[u8], change: Change) -> Result<Vec<u8>> {
    let event = frame.get(4..).context("the frame has no length")?;
    let name = first(event, 1)?.context("the event has no type")?;
    ensure!(event[name] == *name_of(change).as_bytes(), "unexpected type of event");
    let extension = &event[first(event, 2)?.context("the event has no object")?];
    let raw = &extension[first(extension, 1)?.context("the event has no object")?];
    Ok(open(raw)?.to_vec())
}

/// Returns the content of an envelope.
fn open(bytes: &[u8]) -> Result<&[u8]> {
    let envelope = bytes.strip_prefix(MAGIC).context("not a protobuf object of Kubernetes")?;
    Ok(&envelope[first(envelope, 2)?.context("the envelope is empty")?])
}

pub(super) fn outline(object: &[u8]) -> Result<Outline> {
    let meta = first(object, METADATA)?.context("the object has no metadata")?;
    let within = |at: Range<usize>| meta.start + at.start..meta.start + at.end;
    let text = |field| -> Result<String> {
        let at = first(&object[meta.clone()], field)?.context("the metadata has no name")?;
        Ok(String::from_utf8(object[within(at)].to_vec())?)
    };
    let name = Name { namespace: text(NAMESPACE)?, name: text(NAME)? };
    let version =
        first(&object[meta.clone()], RESOURCE_VERSION)?.context("the object has no resourceVersion")?;
    let sent = label(&object[meta.clone()])?.context("the label with the send time is missing")?;
    Ok(Outline { name, version: within(version), sent: within(sent) })
}

/// Returns the range of the label value in the metadata.
fn label(meta: &[u8]) -> Result<Option<Range<usize>>> {
    for field in fields(meta) {
        let (LABELS, at) = field? else { continue };
        let entry = &meta[at.clone()];
        let key = first(entry, 1)?.context("a label has no key")?;
        if entry[key] == *SENT_LABEL.as_bytes() {
            let value = first(entry, 2)?.context("a label has no value")?;
            return Ok(Some(at.start + value.start..at.start + value.end));
        }
    }
    Ok(None)
}

pub(super) fn with_version(object: &[u8], version: u64) -> Result<Vec<u8>> {
    let at = first(object, METADATA)?.context("the object has no metadata")?;
    let meta = replaced(&object[at], RESOURCE_VERSION, version.to_string().as_bytes())?;
    replaced(object, METADATA, &meta)
}

/// Returns the message with another value of a field.
fn replaced(message: &[u8], field: u64, value: &[u8]) -> Result<Vec<u8>> {
    let at = first(message, field)?.context("a field is missing")?;
    let start = at.end - field_length(at.len());
    let mut out = message[..start].to_vec();
    put(&mut out, field, value);
    out.extend_from_slice(&message[at.end..]);
    Ok(out)
}

/// Returns the range of the value of the first field with this number.
fn first(message: &[u8], wanted: u64) -> Result<Option<Range<usize>>> {
    for field in fields(message) {
        let (field, at) = field?;
        if field == wanted {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Iterates over number and range of each length-delimited field. Skips other fields.
fn fields(message: &[u8]) -> impl Iterator<Item = Result<(u64, Range<usize>)>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < message.len() {
            match field(message, &mut at) {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(error) => {
                    at = message.len();
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

fn field(message: &[u8], at: &mut usize) -> Result<Option<(u64, Range<usize>)>> {
    let tag = varint(message, at)?;
    match (tag & 7) as u8 {
        VARINT => {
            varint(message, at)?;
        }
        FIXED64 => *at += 8,
        FIXED32 => *at += 4,
        LENGTH => {
            let length = usize::try_from(varint(message, at)?)?;
            ensure!(message.len() - *at >= length, "a field exceeds the message");
            let value = *at..*at + length;
            *at = value.end;
            return Ok(Some((tag >> 3, value)));
        }
        other => bail!("unsupported wire type {other}"),
    }
    ensure!(*at <= message.len(), "a field exceeds the message");
    Ok(None)
}

fn varint(message: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at).context("the message is truncated")?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    bail!("a varint has more than ten bytes")
}

fn put(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_head(out, field, value.len());
    out.extend_from_slice(value);
}

fn put_head(out: &mut Vec<u8>, field: u64, length: usize) {
    put_varint(out, field << 3 | u64::from(LENGTH));
    put_varint(out, length as u64);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the length of a field with a number below 16 and a value of this length.
pub(super) fn field_length(value: usize) -> usize {
    let mut head = Vec::new();
    put_head(&mut head, 1, value);
    head.len() + value
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pods::NOT_SENT;

    /// Creates a Pod with this resourceVersion and a spec.
    pub(in crate::wire) fn pod(version: &str) -> Vec<u8> {
        let label = |key: &str, value: &str| {
            let mut entry = Vec::new();
            put(&mut entry, 1, key.as_bytes());
            put(&mut entry, 2, value.as_bytes());
            entry
        };
        let mut meta = Vec::new();
        put(&mut meta, NAME, b"a");
        put(&mut meta, NAMESPACE, b"b");
        put(&mut meta, RESOURCE_VERSION, version.as_bytes());
        meta.extend([7 << 3 | VARINT, 0x80, 1]);
        put(&mut meta, LABELS, &label("x", "1"));
        put(&mut meta, LABELS, &label(SENT_LABEL, &NOT_SENT.to_string()));
        let mut pod = Vec::new();
        put(&mut pod, METADATA, &meta);
        put(&mut pod, 2, b"");
        pod
    }
}

//! The wire format of kube-apiserver: lists, items and watch events in JSON, as metadata only, and
//! in protobuf. Does no I/O.
//!
//! An object consists of its bytes and the ranges that change. These are the resourceVersion and
//! the label with the send time. Both have a fixed number of digits, so they are replaced in place.

mod json;
mod kind;
mod protobuf;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;

use crate::pods::NOT_SENT;
use crate::scale::unique::{self, UniquePart};
pub use kind::Kind;
use kind::KindTexts;

/// The number of digits of replayed resourceVersions, as in a cluster that is some months old.
const VERSION_DIGITS: usize = 10;
/// The first replayed resourceVersion. It has the full number of digits.
const FIRST_VERSION: u64 = 1_000_000_000;
/// The number of digits of a time in nanoseconds since 1970.
const SENT_DIGITS: usize = 19;

/// The encoding of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wire {
    /// `application/json`
    Json,
    /// `application/json;as=PartialObjectMetadata`
    Metadata,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An object of the initial state.
    Added,
    /// A changed object.
    Modified,
}

/// The values that change each time that an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The resourceVersion.
    pub version: u64,
    /// The send time in nanoseconds since 1970, or [`NOT_SENT`] for an object of a list.
    pub sent: u64,
    /// The number of the generated object, if objects are generated.
    pub number: Option<u64>,
}

/// A state of an object, to be sent with any [`Stamp`].
#[derive(Clone, Debug)]
pub(crate) struct Object {
    bytes: Bytes,
    /// The ranges of the resourceVersion and of the label.
    version: Range<usize>,
    sent: Range<usize>,
    /// The recorded resourceVersion.
    recorded: u64,
    /// The parts that differ between generated objects.
    unique_parts: Vec<UniquePart>,
}

/// A recorded list, split into items.
pub(crate) struct CutList<'a> {
    pub(crate) version: u64,
    /// The bytes of the items.
    pub(crate) items: Vec<&'a [u8]>,
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The identity of an object and the ranges that change.
pub(crate) struct Outline {
    pub(crate) name: Name,
    version: Range<usize>,
    sent: Range<usize>,
}

impl Wire {
    /// Returns the preferred encoding of an `Accept` header.
    pub(crate) fn of(accept: &str) -> Self {
        let first = accept.split(',').next().unwrap_or_default();
        match first {
            _ if first.contains("as=PartialObjectMetadata") => Self::Metadata,
            _ if first.contains("protobuf") => Self::Protobuf,
            _ => Self::Json,
        }
    }

    /// Returns the content type of a response.
    pub(crate) fn content_type(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Self::Json | Self::Metadata, _) => "application/json",
            (Self::Protobuf, false) => "application/vnd.kubernetes.protobuf",
            (Self::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Returns the `Accept` header for a request.
    pub(crate) fn accept(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Self::Metadata, false) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (Self::Metadata, true) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            _ => self.content_type(watch),
        }
    }

    /// Returns the bytes of a list before its items. `items` is their total length. `next` contains
    /// the continue token and the number of remaining objects.
    pub(crate) fn list_head(
        self,
        kind: Kind,
        version: u64,
        next: Option<(&str, u64)>,
        items: usize,
    ) -> Vec<u8> {
        match self {
            Self::Json => kind.texts().json.list_head(version, next),
            Self::Metadata => json::METADATA.list_head(version, next),
            Self::Protobuf => protobuf::list_head(kind.texts(), version, next, items),
        }
    }

    /// Returns the bytes of a list after its items.
    pub(crate) fn list_tail(self) -> &'static [u8] {
        match self {
            Self::Json | Self::Metadata => json::LIST_TAIL,
            Self::Protobuf => protobuf::ENVELOPE_TAIL,
        }
    }

    /// Appends an item of a list.
    pub(crate) fn item(self, out: &mut Vec<u8>, object: &Object, stamp: Stamp, first: bool) {
        match self {
            Self::Json => Kind::default().texts().json.item(out, object, stamp, first),
            Self::Metadata => json::METADATA.item(out, object, stamp, first),
            Self::Protobuf => protobuf::item(out, object, stamp),
        }
    }

    /// Returns the length of an item in a list, if the head contains the length.
    pub(crate) fn item_length(self, object: &Object) -> usize {
        match self {
            Self::Json | Self::Metadata => 0,
            Self::Protobuf => protobuf::field_length(object.bytes.len()),
        }
    }

    /// Appends an event of a watch.
    pub(crate) fn event(self, out: &mut Vec<u8>, kind: Kind, change: Change, object: &Object, stamp: Stamp) {
        match self {
            Self::Json => kind.texts().json.event(out, change, object, stamp),
            Self::Metadata => json::METADATA.event(out, change, object, stamp),
            Self::Protobuf => protobuf::event(out, kind.texts(), change, object, stamp),
        }
    }

    /// Returns a bookmark. `ends_initial` marks the end of the initial events.
    pub(crate) fn bookmark(self, kind: Kind, version: u64, ends_initial: bool) -> Vec<u8> {
        match self {
            Self::Json => kind.texts().json.bookmark(version, ends_initial),
            Self::Metadata => json::METADATA.bookmark(version, ends_initial),
            Self::Protobuf => protobuf::bookmark(kind, version, ends_initial),
        }
    }

    /// Returns the ERROR event for an expired resourceVersion.
    pub(crate) fn expired(self, asked: u64, oldest: u64) -> Vec<u8> {
        let message = format!("too old resource version: {asked} ({oldest})");
        match self {
            Self::Json | Self::Metadata => json::expired(&message),
            Self::Protobuf => protobuf::expired(&message),
        }
    }

    /// Splits a complete list into its items.
    pub(crate) fn cut_list(self, body: &[u8]) -> Result<CutList<'_>> {
        match self {
            Self::Json | Self::Metadata => json::cut_list(body),
            Self::Protobuf => protobuf::cut_list(body),
        }
        .context("cannot parse the list")
    }

    /// Returns the length of the first event in `bytes`, or `None` if it is incomplete.
    pub(crate) fn frame_length(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Json | Self::Metadata => bytes.iter().position(|&byte| byte == b'\n').map(|end| end + 1),
            Self::Protobuf => protobuf::frame_length(bytes),
        }
    }

    /// Returns the bytes of the object of an event, as in a list.
    pub(crate) fn cut_event(self, kind: Kind, frame: &[u8], change: Change) -> Result<Vec<u8>> {
        match self {
            Self::Json => kind.texts().json.cut_event(frame, change),
            Self::Metadata => json::METADATA.cut_event(frame, change),
            Self::Protobuf => protobuf::cut_event(frame, change),
        }
        .context("cannot parse the event")
    }

    fn outline(self, object: &[u8]) -> Result<Outline> {
        match self {
            Self::Json | Self::Metadata => json::outline(object),
            Self::Protobuf => protobuf::outline(object),
        }
        .context("cannot parse the object")
    }
}

/// Returns the replayed resourceVersion for a recorded one.
pub(crate) fn raise(recorded: u64) -> u64 {
    FIRST_VERSION + recorded
}

/// Parses a decimal number.
fn number(bytes: &[u8], at: &Range<usize>) -> Result<u64> {
    let digits = bytes.get(at.clone()).context("a range exceeds the object")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

impl Object {
    /// Parses an object of a list.
    pub(crate) fn new(wire: Wire, bytes: Bytes) -> Result<Self> {
        let Outline { version, sent, .. } = wire.outline(&bytes)?;
        ensure!(sent.len() == SENT_DIGITS, "the label has {} digits", sent.len());
        let recorded = number(&bytes, &version)?;
        Ok(Self { bytes, version, sent, recorded, unique_parts: Vec::new() })
    }

    /// Converts an object in JSON to a template for generated objects.
    pub(crate) fn into_template(mut self) -> Result<Self> {
        self.unique_parts = unique::unique_parts(&self.bytes)?;
        Ok(self)
    }

    /// Returns the identity of the object.
    pub(crate) fn name(&self, wire: Wire) -> Result<Name> {
        Ok(wire.outline(&self.bytes)?.name)
    }

    /// Returns the recorded values.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { version: self.recorded, sent: NOT_SENT, number: None }
    }

    /// Returns the bytes with a raised resourceVersion, which has the full number of digits.
    pub(crate) fn raised(&self, wire: Wire) -> Result<Vec<u8>> {
        let version = raise(self.recorded);
        match wire {
            Wire::Json | Wire::Metadata => Ok(json::with_version(&self.bytes, &self.version, version)),
            Wire::Protobuf => protobuf::with_version(&self.bytes, version),
        }
    }

    /// Returns true if the resourceVersion has the full number of digits.
    pub(crate) fn is_raised(&self) -> bool {
        self.version.len() == VERSION_DIGITS
    }

    /// Converts an object in JSON to metadata only.
    pub(crate) fn metadata_only(&self) -> Result<Self> {
        Self::new(Wire::Metadata, json::metadata_only(&self.bytes)?.into())
    }

    /// Appends the object with the values of `stamp`, without its first `skipped` bytes.
    fn write(&self, out: &mut Vec<u8>, stamp: Stamp, skipped: usize) {
        let start = out.len();
        out.extend_from_slice(&self.bytes[skipped..]);
        if let Some(number) = stamp.number {
            self.unique_parts.iter().for_each(|part| part.write(&mut out[start..], skipped, number));
        }
        let mut place = |at: &Range<usize>, value: u64| {
            let (mut place, digits) = (&mut out[start + at.start - skipped..][..at.len()], at.len());
            // Writing cannot fail, because the number of digits is fixed.
            let _ = write!(place, "{value:0digits$}");
        };
        place(&self.version, stamp.version);
        place(&self.sent, stamp.sent);
    }
}

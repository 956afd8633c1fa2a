//! The bytes on the wire: how kube-apiserver writes a list, its items and the events of a watch, in JSON, as metadata
//! only, and in protobuf. Pure.
//!
//! An object is kept as its bytes and the places in them that change: its version and the label that says when it was
//! sent. Both have always the same number of digits, so that they are changed in place.

mod json;
mod protobuf;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;

use crate::pods::NOT_SENT;
use crate::scale::own::{self, Own};

/// Replayed versions have so many digits, as those of a cluster that is some months old.
const VERSION_DIGITS: usize = 10;
/// Versions begin here, so that all of them have that many.
const FIRST_VERSION: u64 = 1_000_000_000;
/// So many digits have nanoseconds since 1970.
const SENT_DIGITS: usize = 19;

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wire {
    /// `application/json`
    Json,
    /// `application/json;as=PartialObjectMetadata`
    Metadata,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What a watch says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is part of the state that the watch begins with.
    Added,
    /// It has changed.
    Modified,
}

/// What is told anew each time that an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Its version.
    pub version: u64,
    /// When it is sent, in nanoseconds since 1970; [`NOT_SENT`] where it is part of a list.
    pub sent: u64,
    /// Which object it is sent as, where an object stands for many.
    pub number: Option<u64>,
}

/// A version of an object, to be sent with any [`Stamp`].
#[derive(Clone, Debug)]
pub(crate) struct Object {
    bytes: Bytes,
    /// Where its version stands, and the label.
    version: Range<usize>,
    sent: Range<usize>,
    /// The version with which it was recorded.
    recorded: u64,
    /// What is another in each object that it stands for.
    own: Vec<Own>,
}

/// A recorded list, cut.
pub(crate) struct CutList<'a> {
    pub(crate) version: u64,
    /// As they stand in the list.
    pub(crate) items: Vec<&'a [u8]>,
}

/// Who an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What is found in an object, and where.
pub(crate) struct Outline {
    pub(crate) name: Name,
    version: Range<usize>,
    sent: Range<usize>,
}

impl Wire {
    /// The best that this request accepts.
    pub(crate) fn of(accept: &str) -> Self {
        let first = accept.split(',').next().unwrap_or_default();
        match first {
            _ if first.contains("as=PartialObjectMetadata") => Self::Metadata,
            _ if first.contains("protobuf") => Self::Protobuf,
            _ => Self::Json,
        }
    }

    /// What an answer is called.
    pub(crate) fn content_type(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Self::Json | Self::Metadata, _) => "application/json",
            (Self::Protobuf, false) => "application/vnd.kubernetes.protobuf",
            (Self::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// What to ask a server for.
    pub(crate) fn accept(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Self::Metadata, false) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (Self::Metadata, true) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            _ => self.content_type(watch),
        }
    }

    /// What stands in a list before its items. `items` is their length in total, `next` the continue token and how many
    /// objects are left after this page.
    pub(crate) fn list_head(self, version: u64, next: Option<(&str, u64)>, items: usize) -> Vec<u8> {
        match self {
            Self::Json => json::POD.list_head(version, next),
            Self::Metadata => json::METADATA.list_head(version, next),
            Self::Protobuf => protobuf::list_head(version, next, items),
        }
    }

    /// What stands in a list after its items.
    pub(crate) fn list_tail(self) -> &'static [u8] {
        match self {
            Self::Json | Self::Metadata => json::LIST_TAIL,
            Self::Protobuf => protobuf::ENVELOPE_TAIL,
        }
    }

    /// An item of a list; the first one follows the head.
    pub(crate) fn item(self, out: &mut Vec<u8>, object: &Object, stamp: Stamp, first: bool) {
        match self {
            Self::Json => json::POD.item(out, object, stamp, first),
            Self::Metadata => json::METADATA.item(out, object, stamp, first),
            Self::Protobuf => protobuf::item(out, object, stamp),
        }
    }

    /// How long an item is in a list, where the head must say it.
    pub(crate) fn item_length(self, object: &Object) -> usize {
        match self {
            Self::Json | Self::Metadata => 0,
            Self::Protobuf => protobuf::field_length(object.bytes.len()),
        }
    }

    /// An event of a watch.
    pub(crate) fn event(self, out: &mut Vec<u8>, change: Change, object: &Object, stamp: Stamp) {
        match self {
            Self::Json => json::POD.event(out, change, object, stamp),
            Self::Metadata => json::METADATA.event(out, change, object, stamp),
            Self::Protobuf => protobuf::event(out, change, object, stamp),
        }
    }

    /// A bookmark, and whether it ends the initial events.
    pub(crate) fn bookmark(self, version: u64, ends_initial: bool) -> Vec<u8> {
        match self {
            Self::Json => json::POD.bookmark(version, ends_initial),
            Self::Metadata => json::METADATA.bookmark(version, ends_initial),
            Self::Protobuf => protobuf::bookmark(version, ends_initial),
        }
    }

    /// The event that ends a watch from a version that is no longer known.
    pub(crate) fn expired(self, asked: u64, oldest: u64) -> Vec<u8> {
        let message = format!("too old resource version: {asked} ({oldest})");
        match self {
            Self::Json | Self::Metadata => json::expired(&message),
            Self::Protobuf => protobuf::expired(&message),
        }
    }

    /// Cuts a list in one page into its items.
    pub(crate) fn cut_list(self, body: &[u8]) -> Result<CutList<'_>> {
        match self {
            Self::Json | Self::Metadata => json::cut_list(body),
            Self::Protobuf => protobuf::cut_list(body),
        }
        .context("a list that can't be read")
    }

    /// The first event of these bytes, its end included, and how long it is; `None` where it is not there in full.
    pub(crate) fn frame_length(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Json | Self::Metadata => bytes.iter().position(|&byte| byte == b'\n').map(|end| end + 1),
            Self::Protobuf => protobuf::frame_length(bytes),
        }
    }

    /// The object of an event, as it would stand in a list.
    pub(crate) fn cut_event(self, frame: &[u8], change: Change) -> Result<Vec<u8>> {
        match self {
            Self::Json => json::POD.cut_event(frame, change),
            Self::Metadata => json::METADATA.cut_event(frame, change),
            Self::Protobuf => protobuf::cut_event(frame, change),
        }
        .context("an event that can't be read")
    }

    fn outline(self, object: &[u8]) -> Result<Outline> {
        match self {
            Self::Json | Self::Metadata => json::outline(object),
            Self::Protobuf => protobuf::outline(object),
        }
        .context("an object that can't be read")
    }
}

/// The version that stands for a recorded one.
pub(crate) fn raise(recorded: u64) -> u64 {
    FIRST_VERSION + recorded
}

/// A number in decimal digits.
fn number(bytes: &[u8], at: &Range<usize>) -> Result<u64> {
    let digits = bytes.get(at.clone()).context("a place beyond the end")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

impl Object {
    /// An object as it stands in a list.
    pub(crate) fn new(wire: Wire, bytes: Bytes) -> Result<Self> {
        let Outline { version, sent, .. } = wire.outline(&bytes)?;
        ensure!(sent.len() == SENT_DIGITS, "a label of {} digits", sent.len());
        let recorded = number(&bytes, &version)?;
        Ok(Self { bytes, version, sent, recorded, own: Vec::new() })
    }

    /// The same, so that it can stand for many; it is in JSON.
    pub(crate) fn for_many(mut self) -> Result<Self> {
        self.own = own::places(&self.bytes)?;
        Ok(self)
    }

    /// Who it is.
    pub(crate) fn name(&self, wire: Wire) -> Result<Name> {
        Ok(wire.outline(&self.bytes)?.name)
    }

    /// With what it was recorded.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { version: self.recorded, sent: NOT_SENT, number: None }
    }

    /// Its bytes with its version raised, so that it has all the digits that a version may come to have.
    pub(crate) fn raised(&self, wire: Wire) -> Result<Vec<u8>> {
        let version = raise(self.recorded);
        match wire {
            Wire::Json | Wire::Metadata => Ok(json::with_version(&self.bytes, &self.version, version)),
            Wire::Protobuf => protobuf::with_version(&self.bytes, version),
        }
    }

    /// Whether any version can be written in the place of its own.
    pub(crate) fn is_raised(&self) -> bool {
        self.version.len() == VERSION_DIGITS
    }

    /// The same as metadata only, of an object in JSON.
    pub(crate) fn metadata_only(&self) -> Result<Self> {
        Self::new(Wire::Metadata, json::metadata_only(&self.bytes)?.into())
    }

    /// Appends it without its first `skipped` bytes, which no stamp is in.
    fn write(&self, out: &mut Vec<u8>, stamp: Stamp, skipped: usize) {
        let start = out.len();
        out.extend_from_slice(&self.bytes[skipped..]);
        if let Some(number) = stamp.number {
            self.own.iter().for_each(|own| own.write(&mut out[start..], skipped, number));
        }
        let mut place = |at: &Range<usize>, value: u64| {
            let (mut place, digits) = (&mut out[start + at.start - skipped..][..at.len()], at.len());
            // Writing into memory fails only where it ends, and the digits are counted.
            let _ = write!(place, "{value:0digits$}");
        };
        place(&self.version, stamp.version);
        place(&self.sent, stamp.sent);
    }
}

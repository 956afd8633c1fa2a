//! `Outline`: the properties of an object that are read without decoding it.
//!
//! An API server writes kind and metadata first, so the rest is rarely scanned. Objects in another
//! order are scanned to the end. Duplicate names and unusual notations are left to the deserializer.

use std::{borrow::Cow, fmt, ops::Range};

use super::{
    from_slice,
    loose::Loose,
    managed,
    plain::plain,
    repeat::may_repeat,
    walk::{Field, Fields, Unsure, value_end},
};
use crate::{ObjectId, ObjectIdRef};

/// Contains the identity and kind of an object, and the positions of some of its metadata.
///
/// The outline is correct for valid JSON. For malformed JSON its content is unspecified, and decoding
/// fails. If `metadata` or one of the required fields occurs twice, the deserializer decides which one
/// counts, and most of the outline is empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    /// The start of the first field other than `kind` and `apiVersion`, which most list items lack.
    body: usize,
    id: Option<ObjectIdRef<'a>>,
    kind: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
    managed_fields: Option<Range<usize>>,
    /// Fields that are not in the outline do not exist in the object.
    pub(crate) is_sure: bool,
}

impl<'a> Outline<'a> {
    /// Scans the JSON of an object.
    pub fn of(bytes: &'a [u8]) -> Self {
        let mut outline = Self::nothing(bytes, None);
        match outline.find(Until::NothingRepeats) {
            Ok(_) => Self { is_sure: true, ..outline },
            Err(Unsure) => Self::nothing(bytes, outline.kind),
        }
    }

    /// Scans the object at the start of these bytes. Returns `None` if it does not end.
    pub(super) fn first(bytes: &'a [u8]) -> Option<Self> {
        let mut outline = Self::nothing(bytes, None);
        match outline.find(Until::TheEnd) {
            Ok(end) => Some(Self { bytes: &bytes[..end], is_sure: true, ..outline }),
            Err(Unsure) => Some(Self::nothing(&bytes[..value_end(bytes, 0).ok()?], outline.kind)),
        }
    }

    fn nothing(bytes: &'a [u8], kind: Option<Cow<'a, str>>) -> Self {
        Self { bytes, body: 0, id: None, kind, labels: None, managed_fields: None, is_sure: false }
    }

    /// Returns the complete JSON of the object.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the identity, borrowed from the bytes. Returns `None` if `metadata.name` is missing, or
    /// if a part of the identity is not a string or contains escapes.
    pub fn id(&self) -> Option<&ObjectIdRef<'a>> {
        self.id.as_ref()
    }

    /// Returns the identity, also if it cannot be borrowed. Few types allow names with characters that
    /// Go escapes, for example `&` in the name of a ClusterRole. Parts other than the name that are not
    /// strings count as missing; the decoder rejects them.
    pub fn identify(&self) -> Option<ObjectId> {
        if let Some(id) = &self.id {
            return Some(id.clone().into());
        }
        let object: Loose = from_slice(self.bytes).ok()?;
        let metadata = object.field("metadata")?;
        let text = |name| metadata.field(name).and_then(Loose::text).unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let id = || ObjectIdRef::new(Some(namespace), name, text("uid"), text("resourceVersion"));
        (!name.is_empty()).then(|| id().into())
    }

    /// Returns the kind if it is a string; the first one if there are several.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Returns the range of the JSON of `metadata.labels`.
    pub fn labels(&self) -> Option<Range<usize>> {
        self.labels.clone()
    }

    /// Returns the range of `metadata.managedFields`, with its name and one comma. Returns `None` if it
    /// is not an array; the decoder rejects other types.
    pub fn managed_fields(&self) -> Option<Range<usize>> {
        self.managed_fields.clone()
    }

    /// Returns the object in two parts, without managedFields unless they are kept.
    pub(crate) fn parts(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(0, keep_managed_fields)
    }

    /// Returns the part that an event and a list item have in common, in two parts.
    pub(crate) fn body(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(self.body, keep_managed_fields)
    }

    fn parts_from(&self, begin: usize, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        match self.managed_fields.clone() {
            Some(cut) if !keep_managed_fields => [&self.bytes[begin..cut.start], &self.bytes[cut.end..]],
            _ => [&self.bytes[begin..], &[]],
        }
    }

    /// Returns the reached position.
    fn find(&mut self, until: Until) -> Result<usize, Unsure> {
        let bytes = self.bytes;
        let (mut has_kind, mut has_metadata) = (false, false);
        let mut fields = Fields::of(bytes, 0)?;
        let mut is_body = false;
        while let Some(field) = fields.next()? {
            if !is_body {
                self.body = field.start;
                is_body = !matches!(&*field.name, b"kind" | b"apiVersion");
            }
            match &*field.name {
                b"metadata" if has_metadata => return Err(Unsure),
                b"metadata" => {
                    has_metadata = true;
                    fields.pass(self.metadata(field.value)?);
                    if until == Until::NothingRepeats && !may_repeat(bytes, fields.at(), has_kind) {
                        break;
                    }
                }
                b"kind" if !has_kind => {
                    has_kind = true;
                    let end = value_end(bytes, field.value)?;
                    self.kind = text(&bytes[field.value..end]);
                    fields.pass(end);
                }
                _ => fields.pass(value_end(bytes, field.value)?),
            }
        }
        Ok(fields.at())
    }

    /// Scans the metadata that start at `at`, and returns their end.
    fn metadata(&mut self, at: usize) -> Result<usize, Unsure> {
        if self.bytes.get(at) != Some(&b'{') {
            return value_end(self.bytes, at);
        }
        let mut identity = Identity::default();
        let mut has_managed_fields = false;
        let mut fields = Fields::of(self.bytes, at)?;
        while let Some(field) = fields.next()? {
            let end = match &*field.name {
                b"managedFields" => managed::end(self.bytes, field.value)?,
                _ => value_end(self.bytes, field.value)?,
            };
            fields.pass(end);
            let value = field.value..end;
            match &*field.name {
                b"name" => once(&mut identity.name, &self.bytes[value])?,
                b"namespace" => once(&mut identity.namespace, &self.bytes[value])?,
                b"uid" => once(&mut identity.uid, &self.bytes[value])?,
                b"resourceVersion" => once(&mut identity.version, &self.bytes[value])?,
                b"labels" => once(&mut self.labels, value)?,
                b"managedFields" if has_managed_fields => return Err(Unsure),
                b"managedFields" => {
                    has_managed_fields = true;
                    if self.bytes.get(field.value) == Some(&b'[') {
                        self.managed_fields = Some(with_comma(&field, end, &fields));
                    }
                }
                _ => {}
            }
        }
        self.id = identity.read();
        Ok(fields.at())
    }
}

/// The extent of the scan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// To the end of the object.
    TheEnd,
    /// Until the found fields cannot occur again.
    NothingRepeats,
}

/// Prints no contents of the object.
impl fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outline").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Returns the range to remove with a field.
fn with_comma(field: &Field<'_>, end: usize, fields: &Fields<'_>) -> Range<usize> {
    match (field.comma, fields.comma()) {
        (Some(before), _) => before..end,
        (None, Some(after)) => field.start..after + 1,
        (None, None) => field.start..end,
    }
}

/// Holds the JSON of the parts of an identity.
#[derive(Default)]
struct Identity<'a> {
    namespace: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    uid: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
}

impl<'a> Identity<'a> {
    fn read(&self) -> Option<ObjectIdRef<'a>> {
        Some(ObjectIdRef::new(
            optional(self.namespace)?,
            plain(self.name?).filter(|name| !name.is_empty())?,
            optional(self.uid)?.unwrap_or_default(),
            optional(self.version)?.unwrap_or_default(),
        ))
    }
}

fn once<T>(found: &mut Option<T>, value: T) -> Result<(), Unsure> {
    match found.replace(value) {
        Some(_) => Err(Unsure),
        None => Ok(()),
    }
}

/// A missing or null part is empty. A part that is not a plain string is unknown.
fn optional(value: Option<&[u8]>) -> Option<Option<&str>> {
    match value {
        None | Some(b"null") => Some(None),
        Some(value) => plain(value).map(Some),
    }
}

/// Decodes this JSON string.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    match plain(value) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => from_slice(value).ok().map(Cow::Owned),
    }
}

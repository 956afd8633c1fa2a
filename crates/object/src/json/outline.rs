//! `Outline`: what can be said of an object without decoding it.
//!
//! An API server writes an object's kind and metadata first, and little else has to be looked at. Other orders are
//! walked through to the end. Names that are there twice, and whatever else is not plain, are left to the deserializer.

use std::{borrow::Cow, fmt, ops::Range};

use super::{
    from_slice, managed,
    repeat::may_repeat,
    walk::{Field, Fields, Unsure, value_end},
};
use crate::Id;

/// Who an object is, of which kind, and where in its bytes some of its metadata stands.
///
/// Right where the bytes are JSON. Where they are not, it may say anything: decoding them fails.
#[derive(Clone, PartialEq, Eq)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    id: Option<Id<'a>>,
    kind: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
    managed_fields: Option<Range<usize>>,
}

impl<'a> Outline<'a> {
    /// The outline of the object whose JSON this is.
    ///
    /// `None` where it is no object, or where it has `metadata`, or one of the fields of it that are looked for, twice:
    /// which of them counts is the deserializer's to say.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        Self::find(bytes).ok()
    }

    /// The identity. `None` where there is no `metadata.name`, and where one of its parts has escapes, or is no string.
    pub fn id(&self) -> Option<Id<'a>> {
        self.id
    }

    /// The kind, if it is a string; the first one, where there are more.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Where the value of `metadata.labels` is.
    pub fn labels(&self) -> Option<Range<usize>> {
        self.labels.clone()
    }

    /// Where `metadata.managedFields` is, with its name and the comma that goes with it. `None` where there is no such
    /// array: what has another type is for the decoder to refuse.
    pub fn managed_fields(&self) -> Option<Range<usize>> {
        self.managed_fields.clone()
    }

    /// Appends the object without `metadata.managedFields`.
    pub fn cut(&self, into: &mut Vec<u8>) {
        let Range { start, end } = self.managed_fields.clone().unwrap_or(0..0);
        into.reserve_exact(self.bytes.len() - (end - start));
        into.extend_from_slice(&self.bytes[..start]);
        into.extend_from_slice(&self.bytes[end..]);
    }

    fn find(bytes: &'a [u8]) -> Result<Self, Unsure> {
        let mut outline = Self { bytes, id: None, kind: None, labels: None, managed_fields: None };
        let (mut has_kind, mut has_metadata) = (false, false);
        let mut fields = Fields::of(bytes, 0)?;
        while let Some(field) = fields.next()? {
            match &*field.name {
                b"metadata" if has_metadata => return Err(Unsure),
                b"metadata" => {
                    has_metadata = true;
                    fields.pass(outline.metadata(field.value)?);
                    if !may_repeat(bytes, fields.at(), has_kind) {
                        break;
                    }
                }
                b"kind" if !has_kind => {
                    has_kind = true;
                    let end = value_end(bytes, field.value)?;
                    outline.kind = text(&bytes[field.value..end]);
                    fields.pass(end);
                }
                _ => fields.pass(value_end(bytes, field.value)?),
            }
        }
        Ok(outline)
    }

    /// Looks into the metadata that begin at `at`, and gives their end.
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

/// Shows no contents.
impl fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outline").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What goes with a field that goes.
fn with_comma(field: &Field<'_>, end: usize, fields: &Fields<'_>) -> Range<usize> {
    match (field.comma, fields.comma()) {
        (Some(before), _) => before..end,
        (None, Some(after)) => field.start..after + 1,
        (None, None) => field.start..end,
    }
}

/// The JSON of the parts of an identity.
#[derive(Default)]
struct Identity<'a> {
    namespace: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    uid: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
}

impl<'a> Identity<'a> {
    fn read(&self) -> Option<Id<'a>> {
        Some(Id {
            namespace: optional(self.namespace)?,
            name: plain(self.name?).filter(|name| !name.is_empty())?,
            uid: optional(self.uid)?.unwrap_or_default(),
            resource_version: optional(self.version)?.unwrap_or_default(),
        })
    }
}

/// The kind of the object whose JSON this is, as its outline has it. Servers mostly write it first, and then little is
/// looked at.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let mut fields = Fields::of(bytes, 0).ok()?;
    while let Some(field) = fields.next().ok()? {
        if *field.name == *b"metadata" {
            return Outline::of(bytes)?.kind;
        }
        let end = value_end(bytes, field.value).ok()?;
        if *field.name == *b"kind" {
            return text(&bytes[field.value..end]);
        }
        fields.pass(end);
    }
    None
}

fn once<T>(found: &mut Option<T>, value: T) -> Result<(), Unsure> {
    match found.replace(value) {
        Some(_) => Err(Unsure),
        None => Ok(()),
    }
}

/// What is missing, or null, is none; what is no plain string is not known.
fn optional(value: Option<&[u8]>) -> Option<Option<&str>> {
    match value {
        None | Some(b"null") => Some(None),
        Some(value) => plain(value).map(Some),
    }
}

/// The string that this JSON is, if it has it as it is.
fn plain(value: &[u8]) -> Option<&str> {
    let text = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if text.contains(&b'\\') {
        return None;
    }
    std::str::from_utf8(text).ok()
}

/// The string that this JSON is.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    match plain(value) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => from_slice(value).ok().map(Cow::Owned),
    }
}

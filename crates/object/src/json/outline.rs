//! `Outline`: what can be said of an object without decoding it.
//!
//! An API server writes an object's kind and metadata first, and little else has to be looked at. Other orders are
//! walked through to the end. Names that are there twice, and whatever else is not plain, are left to the deserializer.

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

/// Who an object is, of which kind, and where in its bytes some of its metadata stands.
///
/// Right where the bytes are JSON. Where they are not, it may say anything: decoding them fails. Where `metadata`, or one of
/// the fields of it that are looked for, is there twice, it is the deserializer's to say which of them counts, and little is
/// said here.
#[derive(Clone, PartialEq, Eq)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    /// Where the first field begins that is neither `kind` nor `apiVersion`; these are left out of the items of many a list.
    body: usize,
    id: Option<ObjectIdRef<'a>>,
    kind: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
    managed_fields: Option<Range<usize>>,
    /// What is not here is not there.
    pub(crate) is_sure: bool,
}

impl<'a> Outline<'a> {
    /// The outline of the object whose JSON this is.
    pub fn of(bytes: &'a [u8]) -> Self {
        let mut outline = Self::nothing(bytes, None);
        match outline.find(Until::NothingRepeats) {
            Ok(_) => Self { is_sure: true, ..outline },
            Err(Unsure) => Self::nothing(bytes, outline.kind),
        }
    }

    /// The outline of the object that begins these bytes, whatever comes after it. `None` where it has no end.
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

    /// All of the object's JSON.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The identity, borrowed from the bytes. `None` where there is no `metadata.name`, and where one of its parts has
    /// escapes, or is no string.
    pub fn id(&self) -> Option<&ObjectIdRef<'a>> {
        self.id.as_ref()
    }

    /// The identity, also where it can't be borrowed. API servers write escapes in the identities of the few types whose
    /// names may hold what Go escapes, such as `&` in the name of a ClusterRole. Parts of it other than the name that are no
    /// strings are taken for missing: the decoder refuses them.
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

    /// The kind, if it is a string; the first one, where there are more.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Where the JSON of `metadata.labels` is.
    pub fn labels(&self) -> Option<Range<usize>> {
        self.labels.clone()
    }

    /// Where `metadata.managedFields` is, with its name and the comma that goes with it. `None` where there is no such
    /// array: what has another type is for the decoder to refuse.
    pub fn managed_fields(&self) -> Option<Range<usize>> {
        self.managed_fields.clone()
    }

    /// The object in two parts, between which managedFields may be left out.
    pub(crate) fn parts(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(0, keep_managed_fields)
    }

    /// What an event and an item of a list have in common, in the same way.
    pub(crate) fn body(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(self.body, keep_managed_fields)
    }

    fn parts_from(&self, begin: usize, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        match self.managed_fields.clone() {
            Some(cut) if !keep_managed_fields => [&self.bytes[begin..cut.start], &self.bytes[cut.end..]],
            _ => [&self.bytes[begin..], &[]],
        }
    }

    /// Gives the place that it has come to.
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

/// How far an object is walked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// To its end.
    TheEnd,
    /// Until it is clear that what has been found is not there once more.
    NothingRepeats,
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

/// What is missing, or null, is none; what is no plain string is not known.
fn optional(value: Option<&[u8]>) -> Option<Option<&str>> {
    match value {
        None | Some(b"null") => Some(None),
        Some(value) => plain(value).map(Some),
    }
}

/// The string that this JSON is.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    match plain(value) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => from_slice(value).ok().map(Cow::Owned),
    }
}

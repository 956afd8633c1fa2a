//! `Outline`: the properties of an object that are read without decoding it.
//!
//! An API server writes kind and metadata first, so the remaining fields are rarely scanned.
//! Objects in another order are scanned completely. Only the deserializer handles duplicate names
//! and unusual notations.

use std::{borrow::Cow, fmt, ops::Range};

use super::{
    from_slice,
    loose::Loose,
    managed,
    plain::plain,
    repeat::may_repeat,
    walk::{FieldScanner, ScannedField, UnusualJson, value_end},
};
use crate::{ObjectId, ObjectIdRef};

/// Contains the identity and the kind of an object, and the positions of its labels and
/// managedFields.
///
/// The outline is correct for valid JSON. For malformed JSON, its content is unspecified, and a
/// decoder rejects the object. If `metadata` or a field of the identity occurs twice, the outline
/// contains only the kind. [`Outline::to_id`] still returns the identity.
#[derive(Clone, PartialEq, Eq)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    /// The start of the first field other than `kind` and `apiVersion`. Most list items do not have
    /// these two fields.
    body: usize,
    id: Option<ObjectIdRef<'a>>,
    kind: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
    managed_fields: Option<Range<usize>>,
    /// True if the object does not have the fields that are missing in the outline.
    pub(crate) is_reliable: bool,
}

impl<'a> Outline<'a> {
    /// Scans the JSON of an object.
    pub fn scan(bytes: &'a [u8]) -> Self {
        let mut outline = Self::empty(bytes, None);
        match outline.find(ScanEnd::NoDuplicates) {
            Ok(_) => Self { is_reliable: true, ..outline },
            Err(UnusualJson) => Self::empty(bytes, outline.kind),
        }
    }

    /// Scans the JSON object at the start of these bytes, and finds its end. Returns `None` if the
    /// object is truncated.
    pub fn scan_first(bytes: &'a [u8]) -> Option<Self> {
        let mut outline = Self::empty(bytes, None);
        match outline.find(ScanEnd::EndOfObject) {
            Ok(end) => Some(Self { bytes: &bytes[..end], is_reliable: true, ..outline }),
            Err(UnusualJson) => Some(Self::empty(&bytes[..value_end(bytes, 0).ok()?], outline.kind)),
        }
    }

    fn empty(bytes: &'a [u8], kind: Option<Cow<'a, str>>) -> Self {
        Self { bytes, body: 0, id: None, kind, labels: None, managed_fields: None, is_reliable: false }
    }

    /// Returns the complete JSON of the object.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the identity, with a key that borrows from the bytes. Returns `None` if
    /// `metadata.name` is missing, or if a part of the identity is not a string or contains
    /// escapes.
    pub fn id(&self) -> Option<&ObjectIdRef<'a>> {
        self.id.as_ref()
    }

    /// Returns the identity, even if it contains JSON escapes. Returns `None` if `metadata.name` is
    /// missing.
    ///
    /// Only few types allow names with characters that Go escapes in JSON, for example `&` in the
    /// name of a ClusterRole. A namespace, uid or resourceVersion that is not a string counts as
    /// missing. A decoder rejects such an object.
    pub fn to_id(&self) -> Option<ObjectId> {
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

    /// Returns the kind, if it is a string. If `kind` occurs twice, returns the first value.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Returns the range of the value of `metadata.labels`, in bytes.
    pub fn labels(&self) -> Option<Range<usize>> {
        self.labels.clone()
    }

    /// Returns the range of `metadata.managedFields`, in bytes. The range includes the name of the field
    /// and one comma, so the JSON without this range is valid. Returns `None` if the value is not an
    /// array.
    pub fn managed_fields(&self) -> Option<Range<usize>> {
        self.managed_fields.clone()
    }

    /// Returns the JSON of the object in two parts. Removes managedFields if `keep_managed_fields`
    /// is false.
    pub(crate) fn parts(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(0, keep_managed_fields)
    }

    /// Returns the JSON that is equal in an event and a list item of the same state, in two parts.
    pub(crate) fn body(&self, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        self.parts_from(self.body, keep_managed_fields)
    }

    fn parts_from(&self, start: usize, keep_managed_fields: bool) -> [&'a [u8]; 2] {
        match self.managed_fields.clone() {
            Some(cut) if !keep_managed_fields => [&self.bytes[start..cut.start], &self.bytes[cut.end..]],
            _ => [&self.bytes[start..], &[]],
        }
    }

    /// Scans the fields of the object. Returns the position after the scanned fields.
    fn find(&mut self, scan_end: ScanEnd) -> Result<usize, UnusualJson> {
        let bytes = self.bytes;
        let (mut has_kind, mut has_metadata) = (false, false);
        let mut fields = FieldScanner::of(bytes, 0)?;
        let mut is_body = false;
        while let Some(field) = fields.next()? {
            if !is_body {
                self.body = field.start;
                is_body = !matches!(&*field.name, b"kind" | b"apiVersion");
            }
            match &*field.name {
                b"metadata" if has_metadata => return Err(UnusualJson),
                b"metadata" => {
                    has_metadata = true;
                    fields.skip_value(self.metadata(field.value)?);
                    if scan_end == ScanEnd::NoDuplicates && !may_repeat(bytes, fields.at(), has_kind) {
                        break;
                    }
                }
                b"kind" if !has_kind => {
                    has_kind = true;
                    let end = value_end(bytes, field.value)?;
                    self.kind = text(&bytes[field.value..end]);
                    fields.skip_value(end);
                }
                _ => fields.skip_value(value_end(bytes, field.value)?),
            }
        }
        Ok(fields.at())
    }

    /// Scans the value of `metadata` at `at`. Returns the position after the value.
    fn metadata(&mut self, at: usize) -> Result<usize, UnusualJson> {
        if self.bytes.get(at) != Some(&b'{') {
            return value_end(self.bytes, at);
        }
        let mut identity = Identity::default();
        let mut has_managed_fields = false;
        let mut fields = FieldScanner::of(self.bytes, at)?;
        while let Some(field) = fields.next()? {
            let end = match &*field.name {
                b"managedFields" => managed::end(self.bytes, field.value)?,
                _ => value_end(self.bytes, field.value)?,
            };
            fields.skip_value(end);
            let value = field.value..end;
            match &*field.name {
                b"name" => once(&mut identity.name, &self.bytes[value])?,
                b"namespace" => once(&mut identity.namespace, &self.bytes[value])?,
                b"uid" => once(&mut identity.uid, &self.bytes[value])?,
                b"resourceVersion" => once(&mut identity.version, &self.bytes[value])?,
                b"labels" => once(&mut self.labels, value)?,
                b"managedFields" if has_managed_fields => return Err(UnusualJson),
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

/// The position at which a scan may stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanEnd {
    /// The end of the object.
    EndOfObject,
    /// A position after which the fields of the outline cannot occur again.
    NoDuplicates,
}

/// Prints only the identity and the kind.
impl fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outline").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Returns the range that must be removed with a field: the field and one comma.
fn with_comma(field: &ScannedField<'_>, end: usize, fields: &FieldScanner<'_>) -> Range<usize> {
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

fn once<T>(found: &mut Option<T>, value: T) -> Result<(), UnusualJson> {
    match found.replace(value) {
        Some(_) => Err(UnusualJson),
        None => Ok(()),
    }
}

/// Returns `Some(None)` for a missing or null part, and `None` if the part is not a plain string.
fn optional(value: Option<&[u8]>) -> Option<Option<&str>> {
    match value {
        None | Some(b"null") => Some(None),
        Some(value) => plain(value).map(Some),
    }
}

/// Decodes a JSON string. Returns `None` if the value is not a string.
fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    match plain(value) {
        Some(text) => Some(Cow::Borrowed(text)),
        None => from_slice(value).ok().map(Cow::Owned),
    }
}

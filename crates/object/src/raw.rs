//! `RawObject`: one object as a server has sent it, on its way to a decoder.

use std::{borrow::Cow, ops::Range, sync::Arc};

use kube_core::metadata::TypeMeta;
use serde::de::IgnoredAny;

use crate::{DecodeError, JsonError, ObjectId, Outline, from_slice, json::is_plain_map, labels};

/// What a server was asked for, and how its answers are read.
#[derive(Debug, Clone)]
pub struct DecodeContext {
    /// Items of a list carry no kind of their own.
    pub kind: Arc<TypeMeta>,
    /// The server was asked to leave out everything but the metadata, so that objects come as `PartialObjectMetadata`.
    pub metadata_only: bool,
    /// `metadata.managedFields` are kept. They are half of many an object, and programs that only read don't look at them.
    pub keep_managed_fields: bool,
}

impl DecodeContext {
    /// Whole objects of this kind, without their managedFields.
    pub fn new(kind: TypeMeta) -> Self {
        Self { kind: Arc::new(kind), metadata_only: false, keep_managed_fields: false }
    }

    /// Whether the object with this outline is what was asked for.
    ///
    /// # Errors
    /// [`DecodeError::WrongKind`].
    pub fn check_kind(&self, outline: &Outline<'_>) -> Result<(), DecodeError> {
        let expected = &self.kind.kind;
        let Some(found) = outline.kind() else {
            return Ok(()); // whatever is wrong, the decoder says it better
        };
        let fits = found.is_empty()
            || found == expected
            || (self.metadata_only && found == "PartialObjectMetadata")
            || expected.is_empty();
        if fits {
            return Ok(());
        }
        Err(DecodeError::WrongKind { expected: expected.clone(), found: found.chars().take(64).collect() })
    }
}

/// One object as it came: who it is, and its JSON.
#[derive(Debug)]
pub struct RawObject<'a> {
    /// Who it is.
    pub id: ObjectId,
    outline: Outline<'a>,
    asked: &'a DecodeContext,
}

impl<'a> RawObject<'a> {
    /// The object with this outline.
    ///
    /// # Errors
    /// It can't be found out who it is; the error says why.
    pub fn new(outline: Outline<'a>, asked: &'a DecodeContext) -> Result<Self, DecodeError> {
        match outline.identify() {
            Some(id) => Ok(Self { id, outline, asked }),
            None => Err(why_nameless(&outline, asked)),
        }
    }

    /// The kind that was asked for.
    pub fn kind(&self) -> &'a Arc<TypeMeta> {
        &self.asked.kind
    }

    /// Its JSON, without managedFields unless they are to be kept. A `Vec` here has no more capacity than it needs.
    pub fn json(&self) -> Cow<'a, [u8]> {
        match self.json_parts() {
            [all, []] => Cow::Borrowed(all),
            parts => Cow::Owned(parts.concat()),
        }
    }

    /// The same in two parts, for who wants it in memory of a certain size.
    pub fn json_parts(&self) -> [&'a [u8]; 2] {
        self.outline.parts(self.asked.keep_managed_fields)
    }

    /// Its labels, for [`Labels::of`](crate::Labels::of): borrowed, where they stand in its JSON in a form that can be read.
    pub fn labels(&self) -> Cow<'a, [u8]> {
        match self.outline.is_sure {
            true => self
                .outline
                .labels()
                .map(|at| labels::readable(&self.outline.bytes()[at]))
                .unwrap_or_default(),
            false => labels::of_object(self.outline.bytes()),
        }
    }

    /// Where its labels are in what [`RawObject::json`] gives, if they can be read there.
    pub fn labels_in_json(&self) -> Option<Range<usize>> {
        let Range { start, end } = self.outline.labels()?;
        if !is_plain_map(&self.outline.bytes()[start..end]) {
            return None;
        }
        let cut =
            self.outline.managed_fields().filter(|cut| !self.asked.keep_managed_fields && cut.start < start);
        let before = cut.map_or(0, |cut| cut.len());
        Some(start - before..end - before)
    }

    /// Whether it is what was asked for.
    ///
    /// # Errors
    /// [`DecodeError::WrongKind`].
    pub fn check_kind(&self) -> Result<(), DecodeError> {
        self.asked.check_kind(&self.outline)
    }
}

/// That there is no name says more than which field a decoder would miss first.
fn why_nameless(outline: &Outline<'_>, asked: &DecodeContext) -> DecodeError {
    if let Err(error) = asked.check_kind(outline) {
        return error;
    }
    match from_slice::<IgnoredAny>(outline.bytes()) {
        Err(JsonError::Syntax { position } | JsonError::Truncated { position }) => {
            DecodeError::Syntax { column: position }
        }
        Ok(_) | Err(JsonError::Shape { .. }) => DecodeError::NoName,
    }
}

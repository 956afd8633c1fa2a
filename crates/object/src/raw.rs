//! `RawObject`: one object from a server, before it is decoded.

use std::{borrow::Cow, ops::Range, sync::Arc};

use kube_core::metadata::TypeMeta;
use serde::de::IgnoredAny;

use crate::{DecodeError, JsonError, ObjectId, Outline, from_slice, json::is_plain_map, labels};

/// The context for decoding objects: what was requested, and how the answers are read.
#[derive(Debug, Clone)]
pub struct DecodeContext {
    /// The requested kind. Items of a list do not contain their kind.
    pub kind: Arc<TypeMeta>,
    /// Only metadata was requested, so the server sends `PartialObjectMetadata`.
    pub metadata_only: bool,
    /// Keep `metadata.managedFields`. They are often half of an object, and most programs do not read
    /// them.
    pub keep_managed_fields: bool,
}

impl DecodeContext {
    /// Creates a context for complete objects of this kind, without managedFields.
    pub fn new(kind: TypeMeta) -> Self {
        Self { kind: Arc::new(kind), metadata_only: false, keep_managed_fields: false }
    }

    /// Checks that the object with this outline has the requested kind.
    ///
    /// # Errors
    /// [`DecodeError::WrongKind`] if it has another kind.
    pub fn check_kind(&self, outline: &Outline<'_>) -> Result<(), DecodeError> {
        let expected = &self.kind.kind;
        let Some(found) = outline.kind() else {
            return Ok(()); // the error of the decoder is more precise
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

/// Holds the identity and the JSON of one object.
#[derive(Debug)]
pub struct RawObject<'a> {
    /// The identity of the object.
    pub id: ObjectId,
    outline: Outline<'a>,
    asked: &'a DecodeContext,
}

impl<'a> RawObject<'a> {
    /// Creates a raw object from its outline.
    ///
    /// # Errors
    /// The object has no readable name. The error contains the reason.
    pub fn new(outline: Outline<'a>, asked: &'a DecodeContext) -> Result<Self, DecodeError> {
        match outline.identify() {
            Some(id) => Ok(Self { id, outline, asked }),
            None => Err(why_nameless(&outline, asked)),
        }
    }

    /// Returns the requested kind.
    pub fn kind(&self) -> &'a Arc<TypeMeta> {
        &self.asked.kind
    }

    /// Returns the JSON, without managedFields unless they are kept. The capacity of an owned `Vec` is
    /// exact.
    pub fn json(&self) -> Cow<'a, [u8]> {
        match self.json_parts() {
            [all, []] => Cow::Borrowed(all),
            parts => Cow::Owned(parts.concat()),
        }
    }

    /// Returns the JSON in two parts, for callers that allocate the memory.
    pub fn json_parts(&self) -> [&'a [u8]; 2] {
        self.outline.parts(self.asked.keep_managed_fields)
    }

    /// Returns the labels, for [`Labels::of`](crate::Labels::of). They are borrowed if the JSON
    /// contains them in a readable form.
    pub fn labels(&self) -> Cow<'a, [u8]> {
        if self.outline.is_sure {
            let json = self.outline.labels().map(|at| &self.outline.bytes()[at]);
            json.map(labels::readable).unwrap_or_default()
        } else {
            labels::of_object(self.outline.bytes())
        }
    }

    /// Returns the range of the labels in [`RawObject::json`], if they are readable there.
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

    /// Checks that the object has the requested kind.
    ///
    /// # Errors
    /// [`DecodeError::WrongKind`] if it has another kind.
    pub fn check_kind(&self) -> Result<(), DecodeError> {
        self.asked.check_kind(&self.outline)
    }
}

/// A wrong kind or malformed JSON explains the error better than a missing name.
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

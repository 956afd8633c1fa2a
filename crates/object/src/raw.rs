//! `RawObject`: one object from a server, before it is decoded.

use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};

use kube_core::metadata::TypeMeta;
use serde::de::IgnoredAny;

use crate::{DecodeError, DigestSeed, JsonError, ObjectId, Outline, from_slice, json::is_plain_map, labels};

/// Describes how objects are decoded: the requested kind, and the fields to keep.
#[derive(Debug, Clone)]
pub struct DecodeContext {
    /// The requested kind. Items of a list do not contain their kind.
    pub kind: Arc<TypeMeta>,
    /// Whether only metadata was requested. The server then sends `PartialObjectMetadata`.
    pub metadata_only: bool,
    /// Whether to keep `metadata.managedFields`. This field is often half of the size of an object,
    /// and most programs do not read it.
    pub keep_managed_fields: bool,
    /// The seed of the digests. If it is not set, digests are valid only in this process. Set it before
    /// the first object is decoded.
    pub digest_seed: Arc<OnceLock<DigestSeed>>,
}

impl DecodeContext {
    /// Creates a context for complete objects of this kind, without managedFields.
    pub fn new(kind: TypeMeta) -> Self {
        Self {
            kind: Arc::new(kind),
            metadata_only: false,
            keep_managed_fields: false,
            digest_seed: Arc::default(),
        }
    }

    /// Checks that the object with this outline has the requested kind.
    ///
    /// # Errors
    /// Returns [`DecodeError::WrongKind`] if the object has another kind.
    pub fn check_kind(&self, outline: &Outline<'_>) -> Result<(), DecodeError> {
        let expected = &self.kind.kind;
        let Some(found) = outline.kind() else {
            return Ok(()); // The decoder will report a more precise error.
        };
        let is_expected = found.is_empty()
            || found == expected
            || (self.metadata_only && found == "PartialObjectMetadata")
            || expected.is_empty();
        if is_expected {
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
    context: &'a DecodeContext,
}

impl<'a> RawObject<'a> {
    /// Creates a raw object from its outline.
    ///
    /// # Errors
    /// Returns an error if the object has no readable name. The error describes the cause, for
    /// example a wrong kind or malformed JSON.
    pub fn new(outline: Outline<'a>, context: &'a DecodeContext) -> Result<Self, DecodeError> {
        match outline.to_id() {
            Some(id) => Ok(Self { id, outline, context }),
            None => Err(missing_name_error(&outline, context)),
        }
    }

    /// Returns the requested kind.
    pub fn kind(&self) -> &'a Arc<TypeMeta> {
        &self.context.kind
    }

    /// Returns the JSON of the object. The JSON contains managedFields only with
    /// [`DecodeContext::keep_managed_fields`]. The capacity of an owned `Vec` is exact.
    pub fn json(&self) -> Cow<'a, [u8]> {
        match self.json_parts() {
            [all, []] => Cow::Borrowed(all),
            parts => Cow::Owned(parts.concat()),
        }
    }

    /// Returns [`RawObject::json`] as two slices, so that a caller can copy both slices into one
    /// buffer.
    pub fn json_parts(&self) -> [&'a [u8]; 2] {
        self.outline.parts(self.context.keep_managed_fields)
    }

    /// Returns the labels in the format that [`Labels::new`](crate::Labels::new) reads. The result
    /// is borrowed if the JSON of the labels already has this format.
    pub fn labels(&self) -> Cow<'a, [u8]> {
        if self.outline.is_reliable {
            let json = self.outline.labels().map(|at| &self.outline.bytes()[at]);
            json.map(labels::readable).unwrap_or_default()
        } else {
            labels::of_object(self.outline.bytes())
        }
    }

    /// Returns the range of the labels in [`RawObject::json`]. Returns `None` if
    /// [`Labels::new`](crate::Labels::new) cannot read this range directly.
    pub fn labels_in_json(&self) -> Option<Range<usize>> {
        let Range { start, end } = self.outline.labels()?;
        if !is_plain_map(&self.outline.bytes()[start..end]) {
            return None;
        }
        let removed = self
            .outline
            .managed_fields()
            .filter(|removed| !self.context.keep_managed_fields && removed.start < start);
        let before = removed.map_or(0, |removed| removed.len());
        Some(start - before..end - before)
    }

    /// Checks that the object has the requested kind.
    ///
    /// # Errors
    /// Returns [`DecodeError::WrongKind`] if the object has another kind.
    pub fn check_kind(&self) -> Result<(), DecodeError> {
        self.context.check_kind(&self.outline)
    }
}

/// Returns the error for an object without a readable name. A wrong kind and malformed JSON take
/// precedence, because they explain the missing name.
fn missing_name_error(outline: &Outline<'_>, context: &DecodeContext) -> DecodeError {
    if let Err(error) = context.check_kind(outline) {
        return error;
    }
    match from_slice::<IgnoredAny>(outline.bytes()) {
        Err(JsonError::Syntax { position } | JsonError::Truncated { position }) => {
            DecodeError::Syntax { position }
        }
        Ok(_) | Err(JsonError::Shape { .. }) => DecodeError::NoName,
    }
}

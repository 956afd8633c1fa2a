//! `RawObject`: one object as a server has sent it, on its way to a decoder.

use std::{borrow::Cow, sync::Arc};

use kube_core::metadata::TypeMeta;
use serde::de::IgnoredAny;

use crate::{DecodeError, JsonError, Labels, ObjectId, Outline, from_slice};

/// What a server was asked for, and how its answers are read.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Items of a list carry no kind of their own.
    pub kind: Arc<TypeMeta>,
    /// The server was asked to leave out everything but the metadata, so that objects come as `PartialObjectMetadata`.
    pub metadata_only: bool,
    /// `metadata.managedFields` are kept. They are half of many an object, and programs that only read don't look at them.
    pub keep_managed_fields: bool,
}

impl Asked {
    /// Whole objects of this kind, without their managedFields.
    pub fn of(kind: TypeMeta) -> Self {
        Self { kind: Arc::new(kind), metadata_only: false, keep_managed_fields: false }
    }
}

/// One object as it came: who it is, and its JSON.
#[derive(Debug)]
pub struct RawObject<'a> {
    /// Who it is.
    pub id: ObjectId,
    outline: Outline<'a>,
    asked: &'a Asked,
}

impl<'a> RawObject<'a> {
    /// The object with this outline.
    ///
    /// # Errors
    /// It can't be found out who it is; the error says why.
    pub fn new(outline: Outline<'a>, asked: &'a Asked) -> Result<Self, DecodeError> {
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
        match self.asked.keep_managed_fields {
            true => Cow::Borrowed(self.outline.bytes()),
            false => self.outline.without_managed_fields(),
        }
    }

    /// Its labels.
    pub fn labels(&self) -> Labels {
        match self.outline.is_sure {
            true => self.outline.labels().map(Labels::of_json).unwrap_or_default(),
            false => Labels::of_object(self.outline.bytes()),
        }
    }

    /// Whether it is what was asked for.
    ///
    /// # Errors
    /// [`DecodeError::WrongKind`].
    pub fn check_kind(&self) -> Result<(), DecodeError> {
        check_kind(&self.outline, self.asked)
    }
}

fn check_kind(outline: &Outline<'_>, asked: &Asked) -> Result<(), DecodeError> {
    let expected = &asked.kind.kind;
    let Some(found) = outline.kind() else {
        return Ok(()); // whatever is wrong, the decoder says it better
    };
    let fits = found.is_empty()
        || found == expected
        || (asked.metadata_only && found == "PartialObjectMetadata")
        || expected.is_empty();
    if fits {
        return Ok(());
    }
    Err(DecodeError::WrongKind { expected: expected.clone(), found: found.chars().take(64).collect() })
}

/// That there is no name says more than which field a decoder would miss first.
fn why_nameless(outline: &Outline<'_>, asked: &Asked) -> DecodeError {
    if let Err(error) = check_kind(outline, asked) {
        return error;
    }
    match from_slice::<IgnoredAny>(outline.bytes()) {
        Err(JsonError::Syntax { position } | JsonError::Truncated { position }) => {
            DecodeError::Syntax { column: position }
        }
        Ok(_) | Err(JsonError::Shape { .. }) => DecodeError::NoName,
    }
}

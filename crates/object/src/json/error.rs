//! `JsonError`: the category and position of a JSON error, without text of the object.

use std::fmt;

/// Reports why JSON could not be read.
///
/// The error can be logged. It does not contain the message of serde, because this message may
/// contain values of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The bytes are not valid JSON in UTF-8, contain a number that is too large for every type, or
    /// are nested too deeply.
    #[error("malformed JSON at byte {position}")]
    Syntax {
        /// The offset of the error in bytes.
        position: usize,
    },
    /// The JSON is incomplete.
    #[error("JSON is truncated after {position} bytes")]
    Truncated {
        /// The length of the JSON in bytes.
        position: usize,
    },
    /// The JSON does not match the type: a field is missing, duplicate, or has a wrong type.
    #[error(
        "JSON does not match the type (detected at byte {position}): a field is missing, duplicate, or has a wrong type"
    )]
    Shape {
        /// The offset in bytes at which the error was detected. The error is in the value before
        /// this offset.
        position: usize,
    },
}

/// The category of an error. The deserializer adds the position at the end. Each result of the
/// deserializer contains a fault, so the type is only one byte and does not implement `Drop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Syntax,
    Truncated,
    Shape,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Syntax => "malformed JSON",
            Fault::Truncated => "JSON is truncated",
            Fault::Shape => "JSON does not match the type",
        })
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(_: T) -> Self {
        Fault::Shape
    }

    // The default methods would format the values before `custom` discards them.
    #[cold]
    fn invalid_type(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Fault::Shape
    }

    #[cold]
    fn invalid_value(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Fault::Shape
    }
}

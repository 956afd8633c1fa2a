//! `JsonError`: where and why some text is not the JSON of a type, and nothing of the text itself.

use std::fmt;

/// Why some bytes are not the JSON of the type that was asked for.
///
/// It has no message: those of serde quote the values that did not fit, and what is said in an error ends in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, not UTF-8, a number that no type holds, or nested too deep.
    #[error("malformed JSON at byte {position}")]
    Syntax {
        /// Bytes before the place where it was noticed.
        position: usize,
    },
    /// JSON as far as it goes, and it ends in the middle.
    #[error("JSON that ends in the middle, after {position} bytes")]
    Truncated {
        /// Bytes that there are.
        position: usize,
    },
    /// JSON of another shape than the type has: a field is missing, twice there, or of another type.
    #[error("JSON of another shape than its type, before byte {position}")]
    Shape {
        /// Bytes before the place where it was noticed: after the value that does not fit.
        position: usize,
    },
}

/// The same without its position, which the deserializer knows. One byte, nothing to drop: it is part of every result
/// on the way.
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
            Fault::Truncated => "JSON that ends in the middle",
            Fault::Shape => "JSON of another shape than its type",
        })
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(_: T) -> Self {
        Fault::Shape
    }

    // The defaults would format the values before `custom` drops them.
    #[cold]
    fn invalid_type(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Fault::Shape
    }

    #[cold]
    fn invalid_value(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Fault::Shape
    }
}

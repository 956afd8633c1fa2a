//! The text of a label selector: `app=web, tier in (a, b), env != test, generation > 3, !draft`.
//!
//! Source: `k8s.io/apimachinery/pkg/labels/selector.go`.

use std::str::FromStr;

use super::{Condition, LabelSelector, Requirement, sorted};

/// The maximum length of a label's name or value, in bytes.
const MAX_NAME_BYTES: usize = 63;
/// The maximum length of a label's prefix, in bytes.
const MAX_PREFIX_BYTES: usize = 253;

/// Reports that a text is not a valid label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid label selector: expected {expected} at byte {position}")]
pub struct ParseSelectorError {
    /// The token that the parser expected at this position.
    pub expected: &'static str,
    /// The offset of the error in the text, in bytes.
    pub position: usize,
}

impl FromStr for LabelSelector {
    type Err = ParseSelectorError;

    /// Parses a selector. An empty text matches every object.
    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let mut parser = Parser { text, at: 0 };
        let mut requirements = Vec::new();
        if parser.is_at_end() {
            return Ok(Self(requirements));
        }
        loop {
            requirements.push(parser.requirement()?);
            if parser.is_at_end() {
                return Ok(Self(requirements));
            }
            parser.expect(",", "a comma or the end of the text")?;
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Returns the remaining text, without leading whitespace.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start_matches(is_space);
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn is_at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), ParseSelectorError> {
        if self.take(token) { Ok(()) } else { Err(ParseSelectorError { expected, position: self.at }) }
    }

    /// Consumes and returns the characters up to the next whitespace or operator. The result may be
    /// empty.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| is_space(c) || "=!,()<>".contains(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn requirement(&mut self) -> Result<Requirement, ParseSelectorError> {
        let absent = self.take("!");
        let label = self.label()?;
        let condition = if absent { Condition::NotExists } else { self.condition()? };
        Ok(Requirement { label, condition })
    }

    fn condition(&mut self) -> Result<Condition, ParseSelectorError> {
        if self.take("!=") {
            return self.value().map(Condition::NotEquals);
        }
        if self.take("==") || self.take("=") {
            return self.value().map(Condition::Equals);
        }
        if self.take(">") {
            return self.bound().map(Condition::GreaterThan);
        }
        if self.take("<") {
            return self.bound().map(Condition::LessThan);
        }
        let at = self.at;
        match self.word() {
            "" => Ok(Condition::Exists),
            "in" => self.values().map(Condition::In),
            "notin" => self.values().map(Condition::NotIn),
            _ => Err(ParseSelectorError { expected: "an operator", position: at }),
        }
    }

    fn label(&mut self) -> Result<String, ParseSelectorError> {
        self.rest();
        let at = self.at;
        let label = self.word();
        let (prefix, name) = match label.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, label),
        };
        let prefix_fits = prefix.is_none_or(is_prefix);
        if prefix_fits && is_name(name) {
            return Ok(label.to_owned());
        }
        Err(ParseSelectorError { expected: "a label name", position: at })
    }

    fn value(&mut self) -> Result<String, ParseSelectorError> {
        self.rest();
        let at = self.at;
        let value = self.word();
        if value.is_empty() || is_name(value) {
            return Ok(value.to_owned());
        }
        Err(ParseSelectorError { expected: "a label value", position: at })
    }

    /// Parses an integer. The API server also requires a label value, so the integer has no sign.
    fn bound(&mut self) -> Result<i64, ParseSelectorError> {
        self.rest();
        let position = self.at;
        let text = self.word();
        let bound = text.parse().ok().filter(|_| is_name(text));
        bound.ok_or(ParseSelectorError { expected: "an integer without a sign", position })
    }

    /// Parses a list in parentheses. A missing value is the empty value, so `()` contains the empty
    /// value, as in the API server.
    fn values(&mut self) -> Result<Vec<String>, ParseSelectorError> {
        self.expect("(", "an opening parenthesis")?;
        let mut values = vec![self.value()?];
        while self.take(",") {
            values.push(self.value()?);
        }
        self.expect(")", "a comma or a closing parenthesis")?;
        Ok(sorted(values))
    }
}

/// Returns whether the API server skips the character between tokens. It does not skip other whitespace
/// of Unicode.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Returns whether the text is a valid name or value: letters, digits, `-`, `_` and `.`, with a
/// letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.len() <= MAX_NAME_BYTES
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inside)
}

/// Returns whether the text is a DNS subdomain.
fn is_prefix(text: &str) -> bool {
    let is_part = |part: &str| {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(inside)
    };
    text.len() <= MAX_PREFIX_BYTES && text.split('.').all(is_part)
}

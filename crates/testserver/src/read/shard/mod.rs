//! `shardSelector`: restricts a list or watch to objects whose uid or namespace hashes into certain
//! ranges.

mod expression;

use crate::status::Status;
use crate::storage::entry::Essentials;
use expression::{Expression, Literal};

/// Selects objects by ranges of hashes. An object is in the shard if its hash is in one of the ranges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardSelector {
    field: Field,
    ranges: Vec<Range>,
}

/// The field whose value is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

/// A range that includes `start` and excludes `end`. `end` may be 2^64.
#[derive(Clone, Debug, PartialEq)]
struct Range {
    start: u128,
    end: u128,
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

impl Range {
    fn text(&self, field: Field) -> String {
        format!("shardRange({}, '0x{:016x}', '0x{:016x}')", field.path(), self.start, self.end)
    }
}

impl ShardSelector {
    /// Parses `shardRange(FIELD, 'START', 'END')`, or several joined by `||`.
    ///
    /// # Errors
    /// Returns the error of the real server, which is not a BadRequest.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        read(text).map_err(|detail| Status::internal(format!("invalid shard selector: {detail}")))
    }

    pub(crate) fn matches(&self, object: &Essentials) -> bool {
        self.holds(match self.field {
            Field::Uid => &object.uid,
            Field::Namespace => object.namespace.as_deref().unwrap_or(""),
        })
    }

    /// Returns whether the hash of a uid or namespace is in one of the ranges.
    fn holds(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a(value));
        self.ranges.iter().any(|range| (range.start..range.end).contains(&hash))
    }
}

/// Formats the selector in the canonical form that lists contain.
impl std::fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(|range| range.text(self.field)).collect();
        f.write_str(&ranges.join(" || "))
    }
}

/// Returns the 64-bit FNV-1a hash of a text. All servers and clients must use the same hash.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn read(text: &str) -> Result<ShardSelector, String> {
    if text.trim().is_empty() {
        return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".into());
    }
    let expression =
        expression::parse(text).map_err(|detail| format!("CEL parse error: Syntax error: {detail}"))?;
    let mut found = Vec::new();
    collect(&expression, &mut found)?;
    let Some((field, _)) = found.first() else { return Err("no shard range".into()) };
    let field = *field;
    if let Some((other, _)) = found.iter().find(|(other, _)| *other != field) {
        let (first, other) = (field.path(), other.path());
        return Err(format!("all shard ranges must use the same field, got \"{first}\" and \"{other}\""));
    }
    Ok(ShardSelector { field, ranges: found.into_iter().map(|(_, range)| range).collect() })
}

fn collect(expression: &Expression, found: &mut Vec<(Field, Range)>) -> Result<(), String> {
    match expression {
        Expression::Or(parts) => parts.iter().try_for_each(|part| collect(part, found)),
        Expression::Call { function, arguments } if function == "shardRange" => {
            found.push(range(arguments)?);
            Ok(())
        }
        Expression::Call { function, .. } => {
            Err(format!("unsupported function \"{function}\"; only shardRange() and || are allowed"))
        }
        other => {
            let kind = other.kind();
            Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"))
        }
    }
}

fn range(arguments: &[Expression]) -> Result<(Field, Range), String> {
    let [field, start, end] = arguments else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let Expression::Path(path) = field else {
        let kind = field.kind();
        return Err(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}"
        ));
    };
    let field = [Field::Uid, Field::Namespace].into_iter().find(|field| field.path() == path);
    let field = field.ok_or_else(|| {
        format!(
            "unsupported field path \"{path}\"; supported: object.metadata.uid, object.metadata.namespace"
        )
    })?;
    let range = Range { start: bound("hexStart", start)?, end: bound("hexEnd", end)? };
    if range.start >= range.end {
        let (start, end) = (range.start, range.end);
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((field, range))
}

fn bound(name: &str, expression: &Expression) -> Result<u128, String> {
    let text = match expression {
        Expression::Literal(Literal::Text(text)) => text,
        Expression::Literal(other) => {
            return Err(format!("{name} must be a string literal, got {}", other.type_name()));
        }
        other => {
            let kind = other.kind();
            return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
        }
    };
    let digits =
        text.strip_prefix("0x").ok_or_else(|| format!("{name} must have '0x' prefix, got {text:?}"))?;
    if let Some(wrong) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!("{name}: invalid hex character \"{wrong}\" in {text:?}"));
    }
    match digits.len() {
        16 => {}
        17 if digits == "10000000000000000" => {}
        17 => {
            let wanted = "17-digit hex value must be '0x10000000000000000' (2^64)";
            return Err(format!("{name}: {wanted}, got {text:?}"));
        }
        ..16 => {
            return Err(format!(
                "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean \"0x{digits:0>16}\"?)"
            ));
        }
        long => return Err(format!("{name}: hex value too long ({long} chars, max 17): {digits:?}")),
    }
    u128::from_str_radix(digits, 16).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests;

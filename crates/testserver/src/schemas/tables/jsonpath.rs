//! The JSONPath dialect of Kubernetes, which printer columns use: fields, indexes, wildcards and filters.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `*`: all children.
    Wildcard,
    /// `[n]`, or `[start:end]`. A negative number counts from the end.
    Slice(i64, Option<i64>),
    Filter(Path, Option<(String, Path)>),
    Literal(Value),
}

impl Path {
    /// Parses the content of an action `{…}`. Returns `None` if the syntax is invalid or unsupported.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut steps, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let tail = rest.get(first.len_utf8()..)?;
            rest = match first {
                ' ' | '@' | '$' => tail,
                '[' if tail.starts_with("?(") => filter(tail.get(2..)?, &mut steps)?,
                '[' => array(tail, &mut steps)?,
                '.' if tail.starts_with('.') => return None,
                '.' => field(tail, &mut steps),
                quote @ ('"' | '\'') => {
                    let (text, tail) = tail.split_once(quote)?;
                    steps.push(Step::Literal(text.into()));
                    tail
                }
                _ => {
                    let (word, tail) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
                    steps.push(Step::Literal(serde_json::from_str(word).ok()?));
                    tail
                }
            };
        }
        Some(Self(steps))
    }

    /// Returns the values at this path. A missing field has no values.
    pub(crate) fn find<'a>(&'a self, root: &'a Value) -> Vec<&'a Value> {
        self.0.iter().fold(vec![root], |values, step| match step {
            Step::Literal(value) => vec![value],
            step => values.into_iter().flat_map(|value| step.find(value)).collect(),
        })
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses a field name, and returns the text after it. A backslash escapes the next character.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let (mut name, mut chars) = (String::new(), text.chars());
    while let Some(next) = chars.clone().next().filter(|c| !is_terminator(*c)) {
        chars.next();
        name.extend(if next == '\\' { chars.next() } else { Some(next) });
    }
    steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name) });
    chars.as_str()
}

/// Parses the content of `[…]`: a wildcard, a key, an index or a range.
fn array<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inner, tail) = text.split_once(']')?;
    let key = inner.strip_prefix(['\'', '"']).and_then(|key| key.strip_suffix(['\'', '"']));
    match (key, inner.split_once(':')) {
        (Some(key), _) => steps.extend(Path::parse(&format!(".{key}"))?.0),
        _ if inner == "*" => steps.push(Step::Wildcard),
        (None, None) => {
            let index: i64 = inner.parse().ok()?;
            steps.push(Step::Slice(index, index.checked_add(1).filter(|end| *end != 0)));
        }
        (None, Some((start, end))) => {
            let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
            steps.push(Step::Slice(bound(start)?.unwrap_or(0), bound(end)?));
        }
    }
    Some(tail)
}

/// Parses the filter after `[?(`.
fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inner, tail) = text.split_once(")]")?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '=' | '>');
    let comparison = match inner.find(is_operator) {
        None => None,
        Some(at) => {
            let right = inner.get(at..)?.trim_start_matches(is_operator);
            let operator = inner.get(at..inner.len() - right.len())?;
            Some((operator.to_owned(), Path::parse(right)?))
        }
    };
    let left = inner.split(is_operator).next()?;
    steps.push(Step::Filter(Path::parse(left)?, comparison));
    Some(tail)
}

impl Step {
    fn find<'a>(&'a self, value: &'a Value) -> Vec<&'a Value> {
        let items = || value.as_array().map_or(&[][..], Vec::as_slice);
        match self {
            Self::Literal(value) => vec![value],
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Wildcard => match value {
                Value::Object(map) => map.values().collect(),
                _ => items().iter().collect(),
            },
            Self::Slice(start, end) => {
                let length = items().len();
                let from_end = |index: i64| match usize::try_from(index) {
                    Ok(index) => Some(index),
                    Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
                };
                let end = end.map_or(Some(length), from_end);
                let part = from_end(*start).zip(end).and_then(|(start, end)| items().get(start..end));
                part.unwrap_or_default().iter().collect()
            }
            Self::Filter(left, comparison) => {
                items().iter().filter(|item| accepts(item, left, comparison.as_ref())).collect()
            }
        }
    }
}

/// Returns whether a filter accepts an item. Values of different types do not match.
fn accepts(item: &Value, left: &Path, comparison: Option<&(String, Path)>) -> bool {
    let lefts = left.find(item);
    let Some((operator, right)) = comparison else { return !lefts.is_empty() };
    let rights = right.find(item);
    let (Some(left), Some(right)) = (lefts.first(), rights.first()) else { return false };
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    order.is_some_and(|order| match operator.as_str() {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        ">" => order == Ordering::Greater,
        "<=" => order != Ordering::Greater,
        ">=" => order != Ordering::Less,
        _ => false,
    })
}

//! The JSONPath dialect of Kubernetes, which printer columns use: fields, indexes, wildcards and
//! filters.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `*`: all children.
    Wildcard,
    /// `[n]`. A negative number counts from the end.
    Item(i64),
    /// `[?(left == right)]` or `[?(left != right)]`. Without `right`, the item must contain `left`.
    Filter {
        left: Path,
        right: Option<Path>,
        is_equal: bool,
    },
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

/// Parses the content of `[…]`: a wildcard, a key or an index.
fn array<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inner, tail) = text.split_once(']')?;
    let key = inner.strip_prefix(['\'', '"']).and_then(|key| key.strip_suffix(['\'', '"']));
    match key {
        Some(key) => steps.extend(Path::parse(&format!(".{key}"))?.0),
        None if inner == "*" => steps.push(Step::Wildcard),
        None => steps.push(Step::Item(inner.parse().ok()?)),
    }
    Some(tail)
}

/// Parses the filter after `[?(`.
fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inner, tail) = text.split_once(")]")?;
    let is_equal = !inner.contains("!=");
    let (left, right) = match inner.split_once("==").or_else(|| inner.split_once("!=")) {
        Some((left, right)) => (left, Some(Path::parse(right)?)),
        None if inner.contains(['<', '>']) => return None,
        None => (inner, None),
    };
    steps.push(Step::Filter { left: Path::parse(left)?, right, is_equal });
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
            Self::Item(index) => {
                let from_end = || items().len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
                let index = usize::try_from(*index).ok().or_else(from_end);
                index.and_then(|index| items().get(index)).into_iter().collect()
            }
            Self::Filter { left, right, is_equal } => {
                let accepts = |item: &&Value| {
                    let lefts = left.find(item);
                    let Some(right) = right else { return !lefts.is_empty() };
                    let both = lefts.first().zip(right.find(item).first().copied());
                    both.is_some_and(|(left, right)| (*left == right) == *is_equal)
                };
                items().iter().filter(accepts).collect()
            }
        }
    }
}

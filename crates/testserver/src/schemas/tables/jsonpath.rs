//! The JSONPath dialect of Kubernetes, without `range` and `end`. Printer columns use it.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `*`: all children.
    Wildcard,
    /// `..`: all values that have children.
    Recursive,
    Slice(Slice),
    Union(Vec<Path>),
    Filter(Path, Option<(String, Path)>),
    Literal(Value),
    /// A keyword. Its evaluation fails, because a column cannot contain a range.
    Keyword,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// True for `[n]`, whose end is derived from its start.
    single: bool,
}

/// The evaluation of a path failed, for example because an index is out of bounds.
#[derive(Debug, PartialEq)]
pub(crate) struct Failed;

type Found<'a> = Result<Vec<&'a Value>, Failed>;

impl Path {
    /// Parses the content of an action `{…}`. Returns `None` if the syntax is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut steps, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let tail = rest.get(first.len_utf8()..)?;
            rest = match first {
                // The real server ignores the result of a second action.
                '}' => break,
                ' ' | '@' | '$' => tail,
                '[' if tail.starts_with("?(") => filter(tail.get(2..)?, &mut steps)?,
                '[' => array(tail, &mut steps)?,
                '.' if tail.starts_with('.') => {
                    if steps.last() == Some(&Step::Recursive) {
                        return None;
                    }
                    steps.push(Step::Recursive);
                    let tail = tail.get(1..)?;
                    if tail.starts_with(is_word) { field(tail, &mut steps) } else { tail }
                }
                '.' => field(tail, &mut steps),
                quote @ ('"' | '\'') => {
                    let (text, tail) = quoted(tail, quote)?;
                    steps.push(Step::Literal(text.into()));
                    tail
                }
                '+' | '-' | '0'..='9' => number(rest, &mut steps)?,
                _ if is_word(first) => keyword(rest, &mut steps),
                _ => return None,
            };
        }
        Some(Self(steps))
    }

    /// Returns the values at this path. A missing field has no values.
    pub(crate) fn find<'a>(&'a self, root: &'a Value) -> Found<'a> {
        self.walk(vec![root])
    }

    fn walk<'a>(&'a self, values: Vec<&'a Value>) -> Found<'a> {
        self.0.iter().try_fold(values, |values, step| step.find(values))
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
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

fn keyword<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let (word, tail) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    steps.push(word.parse::<bool>().map_or(Step::Keyword, |value| Step::Literal(value.into())));
    tail
}

fn number<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let length = body.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(body.len());
    let (number, tail) = text.split_at(text.len() - body.len() + length);
    let float = || number.parse::<f64>().ok().map(Value::from);
    steps.push(Step::Literal(number.parse::<i64>().ok().map(Value::from).or_else(float)?));
    Some(tail)
}

/// Returns the text up to the closing quote, and the text after it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let (mut content, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '\\' => content.push(chars.next()?),
            c if c == quote => return Some((content, chars.as_str())),
            c => content.push(c),
        }
    }
}

/// Parses the content of `[…]`: a union, a key or a slice.
fn array<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inner, tail) = text.split_once(']')?;
    if inner.contains(',') {
        let parts = inner.split(',').map(|part| Path::parse(&format!("[{}]", part.trim_matches(' '))));
        steps.push(Step::Union(parts.collect::<Option<_>>()?));
    } else if let Some(key) = inner.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
        steps.extend(Path::parse(&format!(".{key}"))?.0);
    } else {
        steps.push(Step::Slice(slice(if inner == "*" { ":" } else { inner })?));
    }
    Some(tail)
}

fn slice(text: &str) -> Option<Slice> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    let bound = |index: usize| match parts.get(index) {
        None | Some(&"") => Some(None),
        Some(text) => text.parse::<i64>().ok().filter(|_| !text.starts_with('+')).map(Some),
    };
    Some(Slice { start: bound(0)?, end: bound(1)?, step: bound(2)?, single: parts.len() == 1 })
}

/// Parses the filter after `[?(`.
fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (mut quote, mut closed, mut end) = (None, false, None);
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open && previous != '\\' => closed = true,
            (')', _) if quote.is_none() || closed => {
                end = Some(at);
                break;
            }
            _ => {}
        }
        previous = c;
    }
    let inner = text.get(..end?)?;
    let tail = text.get(end? + 1..)?.strip_prefix(']')?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '=' | '>');
    let split = inner.find(is_operator).filter(|at| *at > 0);
    let comparison = split.and_then(|at| {
        let (left, rest) = inner.split_at(at);
        let length = rest.find(|c| !is_operator(c))?;
        Some((left, rest.split_at(length)))
    });
    steps.push(match comparison {
        None => Step::Filter(Path::parse(inner)?, None),
        Some((left, (operator, right))) => {
            Step::Filter(Path::parse(left)?, Some((operator.into(), Path::parse(right)?)))
        }
    });
    Some(tail)
}

impl Step {
    fn find<'a>(&'a self, values: Vec<&'a Value>) -> Found<'a> {
        let mut found = Vec::new();
        match self {
            Self::Keyword => return Err(Failed),
            Self::Literal(value) => found.push(value),
            Self::Field(name) => found.extend(values.into_iter().filter_map(|value| value.get(name))),
            Self::Wildcard => found.extend(values.into_iter().flat_map(children)),
            Self::Recursive => values.into_iter().for_each(|value| descend(value, &mut found)),
            Self::Slice(slice) => {
                for value in values.into_iter().filter(|value| !value.is_null()) {
                    found.extend(slice.select(value.as_array().ok_or(Failed)?)?);
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    found.extend(path.walk(values.clone())?);
                }
            }
            Self::Filter(left, comparison) => {
                for value in values {
                    for item in value.as_array().ok_or(Failed)? {
                        if accepts(item, left, comparison.as_ref())? {
                            found.push(item);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let children = children(value);
    if !children.is_empty() {
        found.push(value);
        children.into_iter().for_each(|child| descend(child, found));
    }
}

impl Slice {
    fn select<'a>(&self, list: &'a [Value]) -> Result<impl Iterator<Item = &'a Value>, Failed> {
        let length = i64::try_from(list.len()).map_err(|_| Failed)?;
        let first = self.start.unwrap_or(0);
        let start = if first < 0 { first.saturating_add(length) } else { first };
        let end = if self.single { first.saturating_add(1) } else { self.end.unwrap_or(length) };
        let end = if end < 0 || (end == 0 && self.single) { end.saturating_add(length) } else { end };
        let bounds = 0..=length;
        if start != end && (!(0..length).contains(&start) || !bounds.contains(&end) || start > end) {
            return Err(Failed);
        }
        let step = usize::try_from(self.step.unwrap_or(1)).ok().filter(|step| *step > 0).ok_or(Failed)?;
        let index = |at: i64| usize::try_from(at).unwrap_or(0);
        let part = if start == end { None } else { list.get(index(start)..index(end)) };
        Ok(part.unwrap_or_default().iter().step_by(step))
    }
}

/// Returns whether a filter accepts an item.
fn accepts(item: &Value, left: &Path, comparison: Option<&(String, Path)>) -> Result<bool, Failed> {
    let lefts = left.find(item);
    let Some((operator, right)) = comparison else {
        // A path that fails exists, as on the real server.
        return Ok(lefts != Ok(Vec::new()));
    };
    let (lefts, rights) = (lefts?, right.find(item)?);
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, operator, right),
        _ => Err(Failed),
    }
}

/// Compares two values of the same type.
fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, Failed> {
    use std::cmp::Ordering;
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => Some(a.cmp(b)),
        _ => return Err(Failed),
    };
    match operator {
        "==" => Ok(order == Some(Ordering::Equal)),
        "!=" => Ok(order != Some(Ordering::Equal)),
        "<" => Ok(order == Some(Ordering::Less)),
        ">" => Ok(order == Some(Ordering::Greater)),
        "<=" => Ok(matches!(order, Some(Ordering::Less | Ordering::Equal))),
        ">=" => Ok(matches!(order, Some(Ordering::Greater | Ordering::Equal))),
        _ => Err(Failed),
    }
}

//! Label selectors and field selectors: the grammar and the messages of kube-apiserver, and matching.

use crate::status::Status;
use crate::wire::qualified::{name_complaints, value_complaints};

/// Selects objects by labels. An empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// The label has none of these values, or is absent.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

/// An object's labels, sorted by name.
pub(crate) type Labels = [(Box<str>, Box<str>)];

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        Parser::new(text).selector().map(Self).map_err(Status::bad_request)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels
            .binary_search_by(|(name, _)| (**name).cmp(self.key.as_str()))
            .ok()
            .and_then(|at| labels.get(at))
            .map(|(_, value)| &**value);
        match (&self.test, value) {
            (Test::Exists, found) => found.is_some(),
            (Test::Absent, found) => found.is_none(),
            (Test::In(_) | Test::Above(_) | Test::Below(_), None) => false,
            (Test::NotIn(_), None) => true,
            (Test::In(allowed), Some(value)) => allowed.iter().any(|a| a == value),
            (Test::NotIn(refused), Some(value)) => !refused.iter().any(|r| r == value),
            (Test::Above(bound), Some(value)) => value.parse::<i64>().is_ok_and(|v| v > *bound),
            (Test::Below(bound), Some(value)) => value.parse::<i64>().is_ok_and(|v| v < *bound),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

/// The symbols of the grammar. Longer symbols are tried first, so `==` is not read as two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let (token, length) = match SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            Some(symbol) => (Token::Symbol(symbol), symbol.len()),
            None => {
                let end = rest.find(|c: char| is_space(c) || "=!(),><".contains(c)).unwrap_or(rest.len());
                let end = end.max(first.len_utf8());
                (Token::Word(rest.get(..end).unwrap_or(rest).to_owned()), end)
            }
        };
        found.push(token);
        rest = rest.get(length..).unwrap_or("").trim_start_matches(is_space);
    }
    found
}

/// Returns whether the character separates tokens. Other whitespace of Unicode does not.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

impl Parser {
    fn new(text: &str) -> Self {
        Self { tokens: tokens(text).into_iter() }
    }

    fn peek(&self) -> Token {
        self.tokens.as_slice().first().cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|detail| format!("unable to parse requirement: {detail}"))?);
            match self.next() {
                Token::End => break,
                Token::Symbol(",") => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        let test = match self.peek() {
            _ if absent => Test::Absent,
            Token::End | Token::Symbol(",") => Test::Exists,
            _ => self.operation(&key)?,
        };
        if let Test::In(values) | Test::NotIn(values) = &test {
            check_values(&key, values)?;
        }
        Ok(Requirement { key, test })
    }

    fn operation(&mut self, key: &str) -> Result<Test, String> {
        let operator = self.next();
        match operator.text() {
            "in" => self.values().map(Test::In),
            "notin" => self.values().map(Test::NotIn),
            "=" | "==" => self.value().map(|value| Test::In(vec![value])),
            "!=" => self.value().map(|value| Test::NotIn(vec![value])),
            ">" => self.bound(key).map(Test::Above),
            "<" => self.bound(key).map(Test::Below),
            other => Err(format!("found '{other}', expected: {OPERATORS}")),
        }
    }

    /// Reads an integer that is also a label value, so it has no sign.
    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value()?;
        check_values(key, std::slice::from_ref(&value))?;
        value.parse().map_err(|_| format!("values[0]: Invalid value: \"{value}\": must be an integer"))
    }

    /// Reads one value. A missing value counts as an empty text.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol("," | ")") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let complaints = name_complaints(key);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("<nil>: Invalid value: \"{key}\": {}", complaints.join("; ")))
}

/// Checks the values of a requirement.
fn check_values(key: &str, values: &[String]) -> Result<(), String> {
    for (place, value) in values.iter().enumerate() {
        let complaints = value_complaints(value).join("; ");
        if !complaints.is_empty() {
            return Err(format!("values[{place}][{key}]: Invalid value: \"{value}\": {complaints}"));
        }
    }
    Ok(())
}

/// Selects objects by fields. A field is identified by its index among the selectable fields of the kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSelector(Vec<FieldTest>);

#[derive(Clone, Debug, PartialEq)]
struct FieldTest {
    place: usize,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses `text`; `place` returns the index of a field, or an error if the field is not selectable.
    pub(crate) fn parse(text: &str, place: impl Fn(&str) -> Result<usize, Status>) -> Result<Self, Status> {
        let mut tests = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (name, value, equal) = split_term(term).ok_or_else(|| {
                Status::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            let value = unescape(value)
                .map_err(|detail| Status::bad_request(format!("invalid field selector: {detail}")))?;
            // A term with an empty name and an empty value matches everything with any operator.
            if !(name.is_empty() && value.is_empty()) {
                tests.push(FieldTest { place: place(name)?, value, equal });
            }
        }
        Ok(Self(tests))
    }

    /// Returns the value that the selector requires for the field at this index. Returns `None` if
    /// several values are possible.
    pub(crate) fn exactly(&self, place: usize) -> Option<&str> {
        self.0.iter().find(|test| test.place == place && test.equal).map(|test| test.value.as_str())
    }

    /// Adds a requirement for this name, which has index 0.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.0.push(FieldTest { place: 0, value: name.into(), equal: true });
        self
    }

    /// Returns whether the selector requires exactly one name, which has index 0.
    pub(crate) fn is_one_name(&self) -> bool {
        self.0.iter().any(|test| test.place == 0 && test.equal)
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, fields: &[Box<str>]) -> bool {
        self.0.iter().all(|test| {
            let value = fields.get(test.place).map_or("", |v| &**v);
            (value == test.value) == test.equal
        })
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(text.get(start..at).unwrap_or(""));
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or(""));
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find(['=', '!'])?;
    let (name, rest) = term.split_at_checked(at)?;
    let operators = [("!=", false), ("==", true), ("=", true)];
    operators.into_iter().find_map(|(op, equal)| Some((name, rest.strip_prefix(op)?, equal)))
}

/// Removes the backslashes, which may precede only `\`, `,` and `=`. Returns an error for other uses.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid escape sequence: \\{shown}"));
                }
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;

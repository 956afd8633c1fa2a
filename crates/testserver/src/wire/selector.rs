//! Label selectors and field selectors: the grammar of kube-apiserver, and matching.

use std::sync::LazyLock;

use regex::Regex;

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
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        parts(text)
            .map(requirement)
            .collect::<Result<_, _>>()
            .map(Self)
            .map_err(|detail| Status::bad_request(format!("unable to parse requirement: {detail}")))
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

/// One requirement: `key`, `!key`, a comparison such as `key=value`, or a set such as `key in (a,b)`.
static REQUIREMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let (space, word) = (r"[ \t\r\n]", r"[^ \t\r\n=!(),><]+");
    let comparison = format!(r"{space}*(?<operator>==?|!=|>|<){space}*(?<value>(?:{word})?)");
    let set = format!(r"{space}+(?<set>in|notin){space}*\((?<values>[^()]*)\)");
    Regex::new(&format!(r"^{space}*(?<absent>!)?{space}*(?<key>{word})(?:{comparison}|{set})?{space}*$")).ok()
});

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut in_set = false;
    text.split(move |c| {
        in_set = c == '(' || in_set && c != ')';
        c == ',' && !in_set
    })
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let found = REQUIREMENT.as_ref().and_then(|requirement| requirement.captures(text));
    let malformed = || format!("{text:?} is not a requirement");
    let found = found.ok_or_else(malformed)?;
    let part = |name: &str| found.name(name).map(|part| part.as_str());
    let key = part("key").unwrap_or_default();
    let complaints = name_complaints(key);
    if !complaints.is_empty() {
        return Err(format!("<nil>: Invalid value: \"{key}\": {}", complaints.join("; ")));
    }
    let listed = part("values").or(part("value")).into_iter().flat_map(|values| values.split(','));
    let values: Vec<String> = listed.map(|value| value.trim().to_owned()).collect();
    check_values(key, &values)?;
    let bound = || {
        let value = values.concat();
        value.parse().map_err(|_| format!("values[0]: Invalid value: \"{value}\": must be an integer"))
    };
    let test = match (part("operator").or(part("set")), part("absent")) {
        (None, None) => Test::Exists,
        (None, Some(_)) => Test::Absent,
        (Some(_), Some(_)) => return Err(malformed()),
        (Some(">"), _) => Test::Above(bound()?),
        (Some("<"), _) => Test::Below(bound()?),
        (Some("!=" | "notin"), _) => Test::NotIn(values),
        (Some(_), _) => Test::In(values),
    };
    Ok(Requirement { key: key.into(), test })
}

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

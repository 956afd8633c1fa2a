//! `LabelSelector`: selects objects by their labels.

mod parse;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube_core::{Expression, ParseExpressionError, Selector};
use kube_object::Object;

pub use parse::ParseSelectorError;

/// Selects objects whose labels meet all requirements.
///
/// You can build a selector with methods, parse the text that `kubectl -l` accepts, or convert a
/// label selector of k8s-openapi or kube.
///
/// ```
/// # use kube_store::LabelSelector;
/// let built = LabelSelector::everything().equals("app", "web").is_in("tier", ["a", "b"]).not_exists("draft");
/// let parsed: LabelSelector = "app=web, tier in (a, b), !draft".parse()?;
/// assert_eq!(built, parsed);
/// assert_eq!(built.to_string(), "app=web,tier in (a,b),!draft");
/// # Ok::<(), kube_store::ParseSelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    label: String,
    condition: Condition,
}

/// The condition for the value of one label. A negated condition also accepts an absent label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Equals(String),
    NotEquals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
    Exists,
    NotExists,
}

impl LabelSelector {
    /// Returns a selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns whether the selector has no requirements, so that it matches every object.
    pub fn matches_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Requires that the label has this value.
    pub fn equals(self, label: &str, value: &str) -> Self {
        self.and(label, Condition::Equals(value.to_owned()))
    }

    /// Requires that the label is absent or has another value.
    pub fn not_equals(self, label: &str, value: &str) -> Self {
        self.and(label, Condition::NotEquals(value.to_owned()))
    }

    /// Requires that the label has one of these values.
    pub fn is_in<S: Into<String>>(self, label: &str, values: impl IntoIterator<Item = S>) -> Self {
        self.and(label, Condition::In(sorted(values)))
    }

    /// Requires that the label is absent, or has a value other than these values.
    pub fn not_in<S: Into<String>>(self, label: &str, values: impl IntoIterator<Item = S>) -> Self {
        self.and(label, Condition::NotIn(sorted(values)))
    }

    /// Requires that the label has an integer value above this bound. A value that is not an integer does
    /// not match.
    ///
    /// API servers reject the text of a selector with a negative bound.
    pub fn greater_than(self, label: &str, bound: i64) -> Self {
        self.and(label, Condition::GreaterThan(bound))
    }

    /// Requires that the label has an integer value below this bound. A value that is not an integer
    /// does not match.
    ///
    /// API servers reject the text of a selector with a negative bound.
    pub fn less_than(self, label: &str, bound: i64) -> Self {
        self.and(label, Condition::LessThan(bound))
    }

    /// Requires that the label exists.
    pub fn exists(self, label: &str) -> Self {
        self.and(label, Condition::Exists)
    }

    /// Requires that the label is absent.
    pub fn not_exists(self, label: &str) -> Self {
        self.and(label, Condition::NotExists)
    }

    fn and(mut self, label: &str, condition: Condition) -> Self {
        self.0.push(Requirement { label: label.to_owned(), condition });
        self
    }

    /// Returns whether the labels of the object meet all requirements.
    pub fn matches(&self, object: &impl Object) -> bool {
        self.0.iter().all(|requirement| requirement.condition.matches_value(object.label(&requirement.label)))
    }
}

impl Condition {
    fn matches_value(&self, value: Option<&str>) -> bool {
        match self {
            Condition::Equals(wanted) => value == Some(wanted),
            Condition::NotEquals(unwanted) => value != Some(unwanted),
            Condition::In(wanted) => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
            Condition::NotIn(unwanted) => !value.is_some_and(|value| unwanted.iter().any(|one| one == value)),
            Condition::GreaterThan(bound) => integer(value).is_some_and(|value| value > *bound),
            Condition::LessThan(bound) => integer(value).is_some_and(|value| value < *bound),
            Condition::Exists => value.is_some(),
            Condition::NotExists => value.is_none(),
        }
    }
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Sorts the values, so that equal sets compare equal.
fn sorted<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Writes the text that `kubectl -l` and the API server accept.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, condition } = self;
        match condition {
            Condition::Equals(value) => write!(f, "{label}={value}"),
            Condition::NotEquals(value) => write!(f, "{label}!={value}"),
            Condition::In(values) => write!(f, "{label} in ({})", values.join(",")),
            Condition::NotIn(values) => write!(f, "{label} notin ({})", values.join(",")),
            Condition::GreaterThan(bound) => write!(f, "{label}>{bound}"),
            Condition::LessThan(bound) => write!(f, "{label}<{bound}"),
            Condition::Exists => write!(f, "{label}"),
            Condition::NotExists => write!(f, "!{label}"),
        }
    }
}

impl From<Selector> for LabelSelector {
    fn from(selector: Selector) -> Self {
        selector.into_iter().fold(Self::everything(), |built, expression| match expression {
            Expression::Equal(label, value) => built.equals(&label, &value),
            Expression::NotEqual(label, value) => built.not_equals(&label, &value),
            Expression::In(label, values) => built.is_in(&label, values),
            Expression::NotIn(label, values) => built.not_in(&label, values),
            Expression::Exists(label) => built.exists(&label),
            Expression::DoesNotExist(label) => built.not_exists(&label),
        })
    }
}

/// Converts the `LabelSelector` of an object's spec, for example of a Deployment or a
/// NetworkPolicy.
impl TryFrom<meta::LabelSelector> for LabelSelector {
    type Error = ParseExpressionError;

    fn try_from(selector: meta::LabelSelector) -> Result<Self, ParseExpressionError> {
        Selector::try_from(selector).map(Self::from)
    }
}

#[cfg(test)]
mod tests;

//! `LabelSelector`: which objects are meant, by their labels.

mod parse;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube_core::{Expression, ParseExpressionError, Selector};
use kube_object::Object;

pub use parse::ParseSelectorError;

/// Requirements on the labels of an object, all of which must hold.
///
/// Built by methods, parsed from the text that `kubectl -l` takes, or converted from the selector
/// in a spec or from kube's.
///
/// ```
/// use kube_store::LabelSelector;
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
    test: Test,
}

/// What must be true of one label. The two negations are true of an absent label as well.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Equals(String),
    NotEquals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    NotExists,
}

impl LabelSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether there is no requirement.
    pub fn matches_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The label is there and has this value.
    pub fn equals(self, label: &str, value: &str) -> Self {
        self.and(label, Test::Equals(value.to_owned()))
    }

    /// The label is not there or has another value.
    pub fn not_equals(self, label: &str, value: &str) -> Self {
        self.and(label, Test::NotEquals(value.to_owned()))
    }

    /// The label is there and has one of these values.
    pub fn is_in<S: Into<String>>(self, label: &str, values: impl IntoIterator<Item = S>) -> Self {
        self.and(label, Test::In(sorted(values)))
    }

    /// The label is not there or has none of these values.
    pub fn not_in<S: Into<String>>(self, label: &str, values: impl IntoIterator<Item = S>) -> Self {
        self.and(label, Test::NotIn(sorted(values)))
    }

    /// The label is there.
    pub fn exists(self, label: &str) -> Self {
        self.and(label, Test::Exists)
    }

    /// The label is not there.
    pub fn not_exists(self, label: &str) -> Self {
        self.and(label, Test::NotExists)
    }

    fn and(mut self, label: &str, test: Test) -> Self {
        self.0.push(Requirement { label: label.to_owned(), test });
        self
    }

    /// Whether the object's labels meet every requirement.
    pub fn matches(&self, object: &impl Object) -> bool {
        self.0.iter().all(|requirement| requirement.test.holds(object.label(&requirement.label)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Test::Equals(wanted) => value == Some(wanted),
            Test::NotEquals(unwanted) => value != Some(unwanted),
            Test::In(wanted) => value.is_some_and(|value| wanted.iter().any(|one| one == value)),
            Test::NotIn(unwanted) => !value.is_some_and(|value| unwanted.iter().any(|one| one == value)),
            Test::Exists => value.is_some(),
            Test::NotExists => value.is_none(),
        }
    }
}

/// Sets are equal whatever the order in which they were written.
fn sorted<S: Into<String>>(values: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The text that `kubectl -l` and the API server take.
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
        let Self { label, test } = self;
        match test {
            Test::Equals(value) => write!(f, "{label}={value}"),
            Test::NotEquals(value) => write!(f, "{label}!={value}"),
            Test::In(values) => write!(f, "{label} in ({})", values.join(",")),
            Test::NotIn(values) => write!(f, "{label} notin ({})", values.join(",")),
            Test::Exists => write!(f, "{label}"),
            Test::NotExists => write!(f, "!{label}"),
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

/// The selector of a spec: of a Deployment, a Service, a NetworkPolicy.
impl TryFrom<meta::LabelSelector> for LabelSelector {
    type Error = ParseExpressionError;

    fn try_from(selector: meta::LabelSelector) -> Result<Self, ParseExpressionError> {
        Selector::try_from(selector).map(Self::from)
    }
}

#[cfg(test)]
mod tests;

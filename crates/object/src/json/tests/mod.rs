//! Compares the deserializer with serde_json. Both accept the same texts with the same values, and
//! reject other texts with the same category of error.
//!
//! If a text has several faults, the categories may differ. The deserializer reports a wrong type
//! before a missing bracket, because [`Nested`](super::nesting::Nested) checks the bracket later.

mod hints;
mod kubernetes;
mod numbers;
mod outline;
mod shapes;
mod strings;
mod text;

use std::fmt::Debug;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::error::Category;

use super::{JsonError, from_str};

/// Returns an error if the results of serde_json and of this crate differ.
fn difference<'de, T>(text: &'de str, equal: impl Fn(&T, &T) -> bool) -> Result<(), String>
where
    T: Deserialize<'de> + Debug,
{
    let expected = serde_json::from_str::<T>(text);
    let actual = from_str::<T>(text);
    let same = match (&expected, &actual) {
        (Ok(expected), Ok(actual)) => equal(expected, actual),
        (Err(expected), Err(actual)) => {
            same_category(expected, *actual) || matches!(actual, JsonError::Shape { .. }) && !is_json(text)
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{text:?}\nexpected: {expected:?}\nactual:   {actual:?}")) }
}

fn same_category(expected: &serde_json::Error, actual: JsonError) -> bool {
    matches!(
        (expected.classify(), actual),
        (Category::Syntax, JsonError::Syntax { .. })
            | (Category::Eof, JsonError::Truncated { .. })
            | (Category::Data, JsonError::Shape { .. })
    )
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Panics if the results of serde_json and of this crate differ.
#[track_caller]
fn check_same<'de, T: Deserialize<'de> + PartialEq + Debug>(text: &'de str) {
    difference::<T>(text, T::eq).unwrap();
}

/// Panics if the values differ by more than the rounding of floats in serde_json.
#[track_caller]
fn check_same_value(text: &str) {
    difference(text, nearly_equal_values).unwrap();
}

fn nearly_equal_values(expected: &serde_json::Value, actual: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (expected, actual) {
        (Array(expected), Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| nearly_equal_values(expected, actual))
        }
        (Object(expected), Object(actual)) => {
            let same = |((expected_name, expected), (actual_name, actual))| {
                expected_name == actual_name && nearly_equal_values(expected, actual)
            };
            expected.len() == actual.len() && expected.iter().zip(actual).all(same)
        }
        (Number(expected), Number(actual)) if expected.is_f64() => {
            actual.is_f64() && nearly_equal(expected.as_f64().unwrap(), actual.as_f64().unwrap())
        }
        _ => expected == actual,
    }
}

/// A value that `nearly_equal_values` compares.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct NearlyEqualValue(serde_json::Value);

impl PartialEq for NearlyEqualValue {
    fn eq(&self, other: &Self) -> bool {
        nearly_equal_values(&self.0, &other.0)
    }
}

fn nearly_equal(expected: f64, actual: f64) -> bool {
    expected == actual || (expected - actual).abs() <= actual.abs() * 1e-15 + 1e-320
}

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
    let theirs = serde_json::from_str::<T>(text);
    let ours = from_str::<T>(text);
    let same = match (&theirs, &ours) {
        (Ok(theirs), Ok(ours)) => equal(theirs, ours),
        (Err(theirs), Err(ours)) => {
            same_category(theirs, *ours) || matches!(ours, JsonError::Shape { .. }) && !is_json(text)
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{text:?}\ntheirs: {theirs:?}\nours:   {ours:?}")) }
}

fn same_category(theirs: &serde_json::Error, ours: JsonError) -> bool {
    matches!(
        (theirs.classify(), ours),
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
fn same<'de, T: Deserialize<'de> + PartialEq + Debug>(text: &'de str) {
    difference::<T>(text, T::eq).unwrap();
}

/// Panics if the values differ by more than the rounding of floats in serde_json.
#[track_caller]
fn same_value(text: &str) {
    difference(text, nearly_equal_values).unwrap();
}

fn nearly_equal_values(theirs: &serde_json::Value, ours: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (theirs, ours) {
        (Array(theirs), Array(ours)) => {
            theirs.len() == ours.len()
                && theirs.iter().zip(ours).all(|(theirs, ours)| nearly_equal_values(theirs, ours))
        }
        (Object(theirs), Object(ours)) => {
            let same = |((their_name, theirs), (our_name, ours))| {
                their_name == our_name && nearly_equal_values(theirs, ours)
            };
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(same)
        }
        (Number(theirs), Number(ours)) if theirs.is_f64() => {
            ours.is_f64() && nearly_equal(theirs.as_f64().unwrap(), ours.as_f64().unwrap())
        }
        _ => theirs == ours,
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

fn nearly_equal(theirs: f64, ours: f64) -> bool {
    theirs == ours || (theirs - ours).abs() <= ours.abs() * 1e-15 + 1e-320
}

//! The schema of a custom resource: what it drops, what it fills in and what it refuses.

pub(crate) mod compile;
pub(crate) mod defaulting;
pub(crate) mod embedded;
pub(crate) mod formats;
pub(crate) mod lists;
pub(crate) mod path;
pub(crate) mod place;
pub(crate) mod prune;
pub(crate) mod ratchet;
pub(crate) mod shape;
pub(crate) mod validate;
pub(crate) mod words;

use std::sync::OnceLock;

use serde_json::{Map, Number, Value};

use crate::crd::schema::compile::{Compiled, compile};
use crate::crd::schema::validate::{Before, complaints};
use crate::crd::schema::words::NOWHERE;
use crate::status::Cause;

type Object = Map<String, Value>;

/// The schema of one version of a custom resource. Its validators are made when the first object comes.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    has_rules: bool,
    whole: OnceLock<Option<Compiled>>,
    status: OnceLock<Option<Compiled>>,
}

/// Which part of an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Whole,
    Status,
}

impl Schema {
    pub(crate) fn new(root: Value) -> Self {
        let has_rules = shape::any(&root, &|node| {
            node.get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .is_some_and(|rules| !rules.is_empty())
        });
        Self { root, has_rules, whole: OnceLock::new(), status: OnceLock::new() }
    }

    /// Takes from an object what the schema does not know, and nulls that it does not allow; gives the paths of
    /// unknown fields in the order of kube-apiserver.
    ///
    /// # Errors
    /// The words for metadata, of the object or inside of it, that can't be read.
    pub(crate) fn read(&self, object: &mut Object) -> Result<Vec<String>, String> {
        let mut unknown = match object.get_mut("metadata") {
            Some(metadata) => crate::types::take_metadata(metadata)?,
            None => Vec::new(),
        };
        object.values_mut().for_each(use_integers);
        unknown.extend(prune::prune(object, &self.root));
        defaulting::drop_nulls(object, &self.root);
        unknown.extend(embedded::tidy(object, &self.root)?);
        Ok(unknown)
    }

    /// Fills in the defaults.
    pub(crate) fn fill(&self, object: &mut Object) {
        defaulting::fill(object, &self.root);
    }

    /// What is wrong with an object; `before` is what an update changes.
    pub(crate) fn complaints(&self, scope: Scope, object: &Object, before: Option<&Object>) -> Vec<Cause> {
        let mut causes = match scope {
            Scope::Whole => self.of_whole(object, before),
            Scope::Status => self.of_status(object, before),
        };
        if scope == Scope::Whole {
            causes.extend(embedded::complaints(object, &self.root));
        }
        let repeated = lists::duplicates(object, &self.root);
        if before.is_none_or(|before| lists::duplicates(before, &self.root).is_empty()) {
            causes.extend(repeated);
        }
        if self.has_rules && causes.iter().any(Cause::is_blocking) {
            let text = "some validation rules were not checked because the object was invalid; correct the \
                        existing errors to complete validation";
            causes.push(Cause::invalid(NOWHERE, "null", text));
        }
        causes
    }

    fn of_whole(&self, object: &Object, before: Option<&Object>) -> Vec<Cause> {
        let Some(compiled) = self.whole.get_or_init(|| compile(&self.root)) else { return Vec::new() };
        let before = before.map(|before| Value::Object(before.clone()));
        let before = before.as_ref().map(|value| Before { value, schema: &self.root });
        complaints(compiled, &Value::Object(object.clone()), "", before)
    }

    fn of_status(&self, object: &Object, before: Option<&Object>) -> Vec<Cause> {
        let (Some(value), Some(schema)) = (object.get("status"), shape::property(&self.root, "status"))
        else {
            return Vec::new();
        };
        let Some(compiled) = self.status.get_or_init(|| compile(schema)) else { return Vec::new() };
        let before = before.and_then(|before| before.get("status")).map(|value| Before { value, schema });
        complaints(compiled, value, "status", before)
    }
}

/// A number without a fraction is an integer, as in Go's JSON once it was read back.
fn use_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
            // Beyond 2^53 neighbours can't be told apart, so those stay what they are.
            if let Some(float) = whole.filter(|float| float.abs() < 9_007_199_254_740_992.0) {
                // Exact within the bound above.
                *number = Number::from(float as i64);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(use_integers),
        Value::Object(map) => map.values_mut().for_each(use_integers),
        _ => {}
    }
}

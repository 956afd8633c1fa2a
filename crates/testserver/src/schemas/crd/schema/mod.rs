//! The schema of a custom resource: pruning, defaults and validation.

pub(crate) mod defaulting;
pub(crate) mod formats;
pub(crate) mod lists;
pub(crate) mod node;
pub(crate) mod path;
pub(crate) mod prune;
mod scalars;
pub(crate) mod validate;

use std::sync::OnceLock;

use serde_json::{Map, Value};

#[cfg(feature = "cel")]
use crate::schemas::crd::cel::{self, Rules};
use crate::schemas::crd::schema::validate::{Before, NO_FIELD, Validator};
use crate::schemas::types;
use crate::status::Cause;

type Object = Map<String, Value>;

/// The schema of one version of a custom resource. Its patterns and rules are compiled for the first object.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    has_rules: bool,
    validator: OnceLock<Validator>,
    #[cfg(feature = "cel")]
    rules: OnceLock<Rules>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Object,
    Status,
}

impl Schema {
    pub(crate) fn new(root: Value) -> Self {
        Self {
            has_rules: node::any(&root, &node::has_rules),
            root,
            validator: OnceLock::new(),
            #[cfg(feature = "cel")]
            rules: OnceLock::new(),
        }
    }

    #[cfg(feature = "openapi")]
    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Removes unknown fields, and nulls that the schema does not allow. Returns the paths of unknown
    /// fields in the order of kube-apiserver.
    ///
    /// # Errors
    /// Returns the message for invalid metadata of the object.
    pub(crate) fn read(&self, object: &mut Object) -> Result<Vec<String>, String> {
        let mut unknown = match object.get_mut("metadata") {
            Some(metadata) => types::take_metadata(metadata)?,
            None => Vec::new(),
        };
        object.values_mut().for_each(use_integers);
        unknown.extend(prune::prune(object, &self.root));
        defaulting::drop_nulls(object, &self.root);
        Ok(unknown)
    }

    pub(crate) fn fill(&self, object: &mut Object) {
        defaulting::fill(object, &self.root);
    }

    /// Validates an object. `before` is the previous object of an update. Adds warnings for failed rules
    /// that the update tolerates.
    pub(crate) fn validate(
        &self,
        scope: Scope,
        object: &Object,
        before: Option<&Object>,
        warnings: &mut Vec<String>,
    ) -> Vec<Cause> {
        let object = &Value::Object(object.clone());
        let before = before.map(|before| Value::Object(before.clone()));
        let before = before.as_ref();
        let mut causes = match scope {
            Scope::Object => {
                let before = before.map(|value| Before { value, schema: &self.root });
                self.validator().validate(&self.root, object, "", before)
            }
            Scope::Status => self.validate_status(object, before),
        };
        let repeated = lists::duplicates(object, &self.root);
        if before.is_none_or(|before| lists::duplicates(before, &self.root).is_empty()) {
            causes.extend(repeated);
        }
        if self.has_rules && causes.iter().any(Cause::is_blocking) {
            let text = "some validation rules were not checked because the object was invalid; correct the \
                        existing errors to complete validation";
            causes.push(Cause::invalid(NO_FIELD, "null", text));
        } else if self.has_rules {
            causes.extend(self.evaluate_rules(object, before, warnings));
        }
        causes
    }

    /// Evaluates the rules. Even a write of the status evaluates the rules of the entire object.
    #[cfg(feature = "cel")]
    fn evaluate_rules(
        &self,
        object: &Value,
        before: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Vec<Cause> {
        let rules = self.rules.get_or_init(|| cel::compile(&self.root, "").0);
        let outcome = rules.validate(&self.root, object, before);
        warnings.extend(outcome.tolerated.iter().map(Cause::line));
        outcome.causes
    }

    /// Without the feature `cel`, only a restored CRD has rules. Each object of such a CRD is rejected.
    #[cfg(not(feature = "cel"))]
    fn evaluate_rules(&self, _: &Value, _: Option<&Value>, _: &mut Vec<String>) -> Vec<Cause> {
        let detail =
            "kube-testserver was built without its feature `cel`, so it cannot evaluate the rules of the CRD";
        vec![Cause::forbidden(NO_FIELD, detail)]
    }

    fn validate_status(&self, object: &Value, before: Option<&Value>) -> Vec<Cause> {
        let (Some(value), Some(schema)) = (object.get("status"), node::property(&self.root, "status")) else {
            return Vec::new();
        };
        let before = before.and_then(|before| before.get("status")).map(|value| Before { value, schema });
        self.validator().validate(schema, value, "status", before)
    }

    fn validator(&self) -> &Validator {
        self.validator.get_or_init(|| Validator::new(&self.root))
    }
}

/// Converts numbers without a fraction to integers, like a round trip through Go's JSON.
fn use_integers(value: &mut Value) {
    match value {
        Value::Number(_) => types::use_integer(value),
        Value::Array(list) => list.iter_mut().for_each(use_integers),
        Value::Object(map) => map.values_mut().for_each(use_integers),
        _ => {}
    }
}

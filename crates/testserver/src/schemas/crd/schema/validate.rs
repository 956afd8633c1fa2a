//! Validates an object, with the error messages of kube-apiserver.

use serde_json::Value;

use crate::schemas::crd::schema::compile::Compiled;
use crate::schemas::crd::schema::location::{ErrorLocation, Step};
use crate::schemas::crd::schema::messages;
use crate::schemas::crd::schema::ratchet;
use crate::status::Cause;

/// The previous value of an update, and its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub value: &'a Value,
    pub schema: &'a Value,
}

/// Validates `value`, the value of `field`. An empty field means the object. Errors in unchanged values
/// are tolerated.
pub(crate) fn validate(
    compiled: &Compiled,
    value: &Value,
    field: &str,
    before: Option<Before<'_>>,
) -> Vec<Cause> {
    let errors: Vec<_> = compiled.validator.iter_errors(value).collect();
    let tolerated = |steps: &[Step]| {
        before.is_some_and(|before| ratchet::is_unchanged(value, before.value, before.schema, steps))
    };
    messages::causes(&errors, &compiled.translated, field, &tolerated)
}

/// Returns the location of an error.
pub(crate) fn location<'a>(
    error: &jsonschema::ValidationError<'_>,
    translated: &'a Value,
) -> ErrorLocation<'a> {
    let text = |location: &jsonschema::paths::Location| location.into_iter().map(|s| s.to_string()).collect();
    let (schema, instance): (Vec<String>, Vec<String>) =
        (text(error.schema_path()), text(error.instance_path()));
    ErrorLocation::find(translated, &schema, &instance)
}

#[cfg(test)]
mod tests;

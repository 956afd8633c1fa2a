//! Asks a validator about an object and says what it found, as kube-apiserver says it.

use serde_json::Value;

use crate::crd::schema::compile::Compiled;
use crate::crd::schema::place::{Place, Step};
use crate::crd::schema::ratchet;
use crate::crd::schema::words;
use crate::status::Cause;

/// What an update is held against: the value before, and its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub value: &'a Value,
    pub schema: &'a Value,
}

/// What is wrong with `value`, which stands at `field` of its object (empty: it is the object). What an update has
/// not touched is not wrong.
pub(crate) fn complaints(
    compiled: &Compiled,
    value: &Value,
    field: &str,
    before: Option<Before<'_>>,
) -> Vec<Cause> {
    let errors: Vec<_> = compiled.validator.iter_errors(value).collect();
    let tolerated = |steps: &[Step]| {
        before.is_some_and(|before| ratchet::is_unchanged(value, before.value, before.schema, steps))
    };
    words::causes(&errors, &compiled.translated, field, &tolerated)
}

/// Where an error is.
pub(crate) fn place<'a>(error: &jsonschema::ValidationError<'_>, translated: &'a Value) -> Place<'a> {
    let text = |location: &jsonschema::paths::Location| location.into_iter().map(|s| s.to_string()).collect();
    let (schema, instance): (Vec<String>, Vec<String>) =
        (text(error.schema_path()), text(error.instance_path()));
    Place::find(translated, &schema, &instance)
}

#[cfg(test)]
mod tests;

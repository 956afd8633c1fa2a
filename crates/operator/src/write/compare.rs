//! Compares cached objects with requested fields, and with responses.

use kube_informer::ApiObject;
use serde::Serialize;
use serde_json::Value;

use super::{
    json::{first_difference, json_contains, json_equal},
    written::OperationResult,
};

/// Returns whether the object contains all requested fields.
pub(super) fn contains_all(cached: &impl Serialize, requested: &Value) -> Result<bool, serde_json::Error> {
    let cached = serde_json::to_value(cached)?;
    Ok(comparable_fields(requested)
        .all(|(field, requested)| json_contains(&cached[field.as_str()], requested)))
}

/// Returns the path of the first requested field that the object does not contain. The path contains no
/// values.
pub(super) fn first_requested_difference(cached: &impl Serialize, requested: &Value) -> Option<String> {
    let fields = comparable_fields(requested).map(|(field, value)| (field.clone(), value.clone()));
    first_difference(&serde_json::to_value(cached).ok()?, &Value::Object(fields.collect()))
}

/// Cached objects may lack `apiVersion` and `kind`, and the type is known already.
fn comparable_fields(requested: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let is_type = |field: &String| matches!(field.as_str(), "apiVersion" | "kind");
    requested.as_object().into_iter().flatten().filter(move |(field, _)| !is_type(field))
}

/// Compares the cached object with the response to a dry run, which has the resourceVersion of the stored
/// object even if it differs from the stored object.
pub(super) fn result_of_dry_run<K: ApiObject>(
    cached: Option<&K>,
    response: &K,
) -> Result<OperationResult, serde_json::Error> {
    let Some(cached) = cached else { return Ok(OperationResult::Created) };
    let comparable = |object: &K| {
        let mut object = object.clone();
        object.meta_mut().managed_fields = None; // the response does not contain them
        serde_json::to_value(object)
    };
    Ok(if json_equal(&comparable(cached)?, &comparable(response)?) {
        OperationResult::Unchanged
    } else {
        OperationResult::Updated
    })
}

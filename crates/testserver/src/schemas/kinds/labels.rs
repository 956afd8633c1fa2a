//! Validation of labels.

use serde_json::{Map, Value};

use crate::status::Cause;
use crate::wire::qualified::{name_complaints, value_complaints};

pub(crate) fn labels(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let invalid = |text: &str, detail: &String| Cause::invalid_text("metadata.labels", text, detail);
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or("");
        causes.extend(name_complaints(key).iter().map(|detail| invalid(key, detail)));
        causes.extend(value_complaints(value).iter().map(|detail| invalid(value, detail)));
    }
}

//! The fields whose values are never printed.

use serde_json::Value;

use super::path::{FieldPath, Step};

/// The annotation with a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns whether the value of a field must not be printed. All contents and all annotations of a sensitive
/// object are sensitive. In other objects, only the copy of the object in an annotation is sensitive.
pub(crate) fn is_hidden(is_sensitive: bool, path: &FieldPath) -> bool {
    let field = |index: usize| match path.steps().get(index) {
        Some(Step::Field(name)) => name.as_str(),
        _ => "",
    };
    match (field(0), field(1)) {
        ("metadata", "annotations") => is_sensitive || field(2) == LAST_APPLIED || path.steps().len() < 3,
        ("apiVersion" | "kind" | "type" | "immutable" | "metadata", _) => false,
        _ => is_sensitive,
    }
}

/// Calls `visit` with each text, number and boolean in an object, and its path. List items have their
/// position in the path.
pub(crate) fn visit_scalars(value: &mut Value, visit: &mut impl FnMut(&FieldPath, &mut Value)) {
    visit_below(&FieldPath::default(), value, visit);
}

fn visit_below(path: &FieldPath, value: &mut Value, visit: &mut impl FnMut(&FieldPath, &mut Value)) {
    match value {
        Value::Null => {}
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                visit_below(&path.join(Step::Index(index)), item, visit);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                visit_below(&path.join(Step::Field(name.clone())), field, visit);
            }
        }
        scalar => visit(path, scalar),
    }
}

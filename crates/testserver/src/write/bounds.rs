//! Limits of objects: stored objects must be readable again, and a patch must not enlarge them without
//! bound.

use serde_json::Value;

use crate::status::Status;
use crate::wire::object::Object;

/// The maximum nesting. The parser of stored objects accepts 127 levels, and `managedFields` are nested
/// slightly deeper than the fields they describe.
pub(crate) const DEPTH: usize = 100;
/// The maximum number of operations in a JSON patch, as on the real server.
const OPERATIONS: usize = 10_000;
/// The maximum number of bytes that the copies of one JSON patch may add, as on the real server.
const COPIES: usize = 3 * 1024 * 1024;

pub(crate) fn check_depth(object: &Object) -> Result<(), Status> {
    if object.values().all(|value| fits_at(1, value)) { Ok(()) } else { Err(too_deep()) }
}

pub(crate) fn too_deep() -> Status {
    Status::bad_request(format!("json: exceeded max depth: an object may be nested {DEPTH} levels deep"))
}

/// Returns whether a value is nested within the limit if it is inside this number of objects and lists.
pub(crate) fn fits_at(levels: usize, value: &Value) -> bool {
    DEPTH.checked_sub(levels).is_some_and(|depth| fits(value, depth))
}

fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) if depth == 0 => false,
        Value::Object(map) => map.values().all(|inner| fits(inner, depth - 1)),
        Value::Array(list) => list.iter().all(|inner| fits(inner, depth - 1)),
        _ => true,
    }
}

/// Rejects a JSON patch with too many operations.
pub(crate) fn check_operations(count: usize) -> Result<(), Status> {
    if count <= OPERATIONS {
        return Ok(());
    }
    let message = format!(
        "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}"
    );
    Err(Status::new(413, "RequestEntityTooLarge", message))
}

/// The number of bytes that the copies of one JSON patch have added.
#[derive(Debug, Default)]
pub(crate) struct Copies(usize);

impl Copies {
    /// Counts a value that will be copied; returns `false` beyond the limit.
    pub(crate) fn count(&mut self, copied: &Value) -> bool {
        self.0 += copied.to_string().len();
        self.0 <= COPIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn object_nesting_is_limited() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(check_depth(nested(DEPTH).as_object().unwrap()).is_ok());
        assert!(check_depth(nested(DEPTH + 1).as_object().unwrap()).is_err());
    }

    #[test]
    fn copied_bytes_are_limited() {
        let value = json!("x".repeat(COPIES / 2));
        let mut copies = Copies::default();
        assert!(copies.count(&value));
        assert!(!copies.count(&value));
    }
}

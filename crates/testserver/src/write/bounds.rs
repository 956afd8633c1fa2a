//! How far an object may go: what is stored must be readable again, and no patch may blow it up.

use serde_json::Value;

use crate::status::Status;
use crate::write::Object;

/// Nested at most so deep. The parser of what is stored takes 127, and owners of fields (`managedFields`) are nested
/// a little deeper than what they own.
const DEPTH: usize = 100;
/// A JSON patch may have so many operations, as in the real server.
const OPERATIONS: usize = 10_000;
/// The copies of one JSON patch may add so many bytes, as in the real server.
const COPIES: usize = 3 * 1024 * 1024;

/// Refuses an object that is nested too deep.
pub(crate) fn check_depth(object: &Object) -> Result<(), Status> {
    if object.values().all(|value| fits(value, DEPTH - 1)) {
        return Ok(());
    }
    Err(Status::bad_request(format!("json: exceeded max depth: an object may be nested {DEPTH} levels deep")))
}

fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) if depth == 0 => false,
        Value::Object(map) => map.values().all(|inner| fits(inner, depth - 1)),
        Value::Array(list) => list.iter().all(|inner| fits(inner, depth - 1)),
        _ => true,
    }
}

/// Refuses a JSON patch of too many operations.
pub(crate) fn check_operations(count: usize) -> Result<(), Status> {
    if count <= OPERATIONS {
        return Ok(());
    }
    let message = format!(
        "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS}, got {count}"
    );
    Err(Status::new(413, "RequestEntityTooLarge", message))
}

/// What the copies of one JSON patch have added so far.
#[derive(Debug, Default)]
pub(crate) struct Copies(usize);

impl Copies {
    /// Counts a value that is about to be copied; `false` beyond the bound.
    pub(crate) fn count(&mut self, copied: &Value) -> bool {
        self.0 += copied.to_string().len();
        // A copy may also be put into itself; what is too deep is never built.
        self.0 <= COPIES && fits(copied, DEPTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_may_be_deep_but_not_too_deep() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(check_depth(nested(DEPTH).as_object().unwrap()).is_ok());
        assert!(check_depth(nested(DEPTH + 1).as_object().unwrap()).is_err());
    }

    #[test]
    fn copies_add_up() {
        let value = json!("x".repeat(COPIES / 2));
        let mut copies = Copies::default();
        assert!(copies.count(&value));
        assert!(!copies.count(&value));
    }
}

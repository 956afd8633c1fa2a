//! JSON patches (RFC 6902), applied by `json-patch`. Like the real server, this module lets `replace` add an
//! absent field, and an operation without a value has null.

use bytes::Bytes;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::status::Status;
use crate::wire::object::parse_json;
use crate::write::bounds::{self, Copies};

/// A JSON patch that was read but not applied. An operation is `None` if it is unknown or incomplete.
#[derive(Clone, Debug)]
pub(crate) struct JsonPatch(Vec<Option<PatchOperation>>);

impl JsonPatch {
    /// Reads a body.
    ///
    /// # Errors
    /// Returns BadRequest if the body is not a list of operations, and 413 if the list is too long.
    pub(crate) fn read(body: &Bytes) -> Result<Self, Status> {
        let decoding = |detail: &str| Status::bad_request(format!("error decoding patch: {detail}"));
        let operations = match parse_json(body) {
            Ok(Value::Array(operations)) => operations,
            Ok(Value::Null) => Vec::new(),
            Ok(_) => return Err(decoding("the patch is not a list of operations")),
            Err(detail) => return Err(decoding(&detail)),
        };
        bounds::check_operations(operations.len())?;
        let operation = |mut value: Value| match &mut value {
            Value::Null => Ok(None),
            Value::Object(fields) => {
                let is_text =
                    |key: &&str| fields.get(*key).is_none_or(|text| text.is_string() || text.is_null());
                if !["op", "path", "from"].iter().all(is_text) {
                    return Err(decoding("an operation has invalid types"));
                }
                fields.entry("value").or_insert(Value::Null);
                Ok(serde_json::from_value(value).ok())
            }
            _ => Err(decoding("an operation is not an object")),
        };
        Ok(Self(operations.into_iter().map(operation).collect::<Result<_, _>>()?))
    }

    /// Returns the document with all operations applied.
    ///
    /// # Errors
    /// Returns 422 if an operation does not apply, and 400 if its result is nested too deeply.
    pub(crate) fn apply(&self, mut document: Value) -> Result<Value, Status> {
        let mut copies = Copies::default();
        for operation in &self.0 {
            let operation = operation.clone().ok_or_else(Status::patch_rejected)?;
            apply(operation, &mut document, &mut copies)?;
        }
        Ok(document)
    }
}

/// Applies one operation.
///
/// Invariant: the document is never nested deeper than [`bounds::DEPTH`], because clone and drop recurse.
fn apply(operation: PatchOperation, document: &mut Value, copies: &mut Copies) -> Result<(), Status> {
    let operation = match operation {
        // An absent source is null.
        PatchOperation::Copy(copy) => {
            let value = document.pointer(copy.from.as_str()).cloned().unwrap_or_default();
            if !copies.count(&value) {
                return Err(Status::patch_rejected());
            }
            PatchOperation::Add(AddOperation { path: copy.path, value })
        }
        PatchOperation::Replace(replace) if is_absent_field(document, &replace.path) => {
            PatchOperation::Add(AddOperation { path: replace.path, value: replace.value })
        }
        PatchOperation::Test(test) if test.value.is_null() && is_absent_field(document, &test.path) => {
            return Ok(());
        }
        other => other,
    };
    let result = match &operation {
        PatchOperation::Add(add) => Some((&add.path, Some(&add.value))),
        PatchOperation::Move(moved) => Some((&moved.path, document.pointer(moved.from.as_str()))),
        PatchOperation::Replace(replace) => Some((&replace.path, Some(&replace.value))),
        PatchOperation::Copy(_) | PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    };
    if let Some((path, value)) = result {
        let value = value.ok_or_else(Status::patch_rejected)?;
        if !bounds::fits_at(path.as_str().matches('/').count(), value) {
            return Err(bounds::too_deep());
        }
    }
    if matches!(&operation, PatchOperation::Add(add) if add.path.as_str().is_empty()) {
        return Err(Status::patch_rejected());
    }
    json_patch::patch(document, &[operation]).map_err(|_| Status::patch_rejected())
}

/// Returns whether the object that contains this field exists, but the field does not.
fn is_absent_field(document: &Value, path: &PointerBuf) -> bool {
    let parent = path.as_str().rsplit_once('/').and_then(|(parent, _)| document.pointer(parent));
    parent.is_some_and(Value::is_object) && document.pointer(path.as_str()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(operations: &Value) -> Result<Value, Status> {
        let document = json!({"map": {"a": 1, "b~": 2, "c/d": 3}, "list": ["x", "y", "z"]});
        JsonPatch::read(&operations.to_string().into())?.apply(document)
    }

    fn list(operation: &Value) -> Option<Value> {
        patched(&json!([operation])).ok().map(|after| after["list"].clone())
    }

    fn map(operation: &Value) -> Option<Value> {
        patched(&json!([operation])).ok().map(|after| after["map"].clone())
    }

    #[test]
    fn json_patch_changes_items_by_index() {
        let add = |step: &str| list(&json!({"op": "add", "path": format!("/list/{step}"), "value": "n"}));
        assert_eq!(add("-"), Some(json!(["x", "y", "z", "n"])));
        assert_eq!(add("1"), Some(json!(["x", "n", "y", "z"])));
        assert_eq!((add("4"), add("x")), (None, None));
        let replaced = list(&json!({"op": "replace", "path": "/list/1", "value": "n"}));
        assert_eq!(replaced, Some(json!(["x", "n", "z"])));
        assert_eq!(list(&json!({"op": "replace", "path": "/list/3", "value": "n"})), None);
    }

    #[test]
    fn absent_member_can_be_replaced_but_not_removed() {
        let lacking = |op: &str| json!({"op": op, "path": "/map/n", "from": "/map/q", "value": null});
        let with_null = json!({"a": 1, "b~": 2, "c/d": 3, "n": null});
        assert_eq!(map(&lacking("replace")), Some(with_null.clone()));
        assert_eq!(map(&lacking("copy")), Some(with_null));
        assert!(map(&lacking("test")).is_some());
        assert_eq!((map(&lacking("remove")), map(&lacking("move"))), (None, None));
        assert!(map(&json!({"op": "test", "path": "/nowhere/n", "value": null})).is_none());
    }

    #[test]
    fn json_patch_path_escapes_slashes_and_tildes() {
        let test =
            |path: &str, value: i64| map(&json!({"op": "test", "path": path, "value": value})).is_some();
        assert!(test("/map/b~0", 2) && test("/map/c~1d", 3));
        assert!(!test("/map/c/d", 3) && !test("map", 1));
    }

    #[test]
    fn root_document_can_be_replaced_and_tested() {
        let whole = |op: &str, value: Value| patched(&json!([{"op": op, "path": "", "value": value}]));
        assert_eq!(whole("replace", json!({"a": 1})).unwrap(), json!({"a": 1}));
        assert!(whole("test", json!({"map": {"a": 1, "b~": 2, "c/d": 3}, "list": ["x", "y", "z"]})).is_ok());
        for (op, value) in [("add", json!({})), ("remove", json!(null)), ("test", json!({}))] {
            assert_eq!(whole(op, value).unwrap_err().code(), 422);
        }
    }

    #[test]
    fn body_must_be_list_of_operations() {
        for undecodable in [json!({}), json!([1]), json!([{"op": "add", "path": 1}])] {
            assert_eq!(patched(&undecodable).unwrap_err().code(), 400);
        }
        assert!(patched(&Value::Null).is_ok());
        for rejected in [json!([null]), json!([{}]), json!([{"op": "move", "path": "/map/a"}])] {
            assert_eq!(patched(&rejected).unwrap_err().code(), 422);
        }
    }

    #[test]
    fn each_operation_limits_the_depth() {
        let nested = (0..90).fold(json!(1), |inner, _| json!({"a": inner}));
        let inner = format!("/x{}", "/a".repeat(89));
        let deepen = |op: &str| {
            json!([
                {"op": "add", "path": "/x", "value": nested},
                {"op": "add", "path": "/y", "value": nested},
                {"op": op, "from": "/y", "path": inner, "value": nested},
            ])
        };
        for op in ["add", "replace", "move", "copy"] {
            let refused = patched(&deepen(op)).unwrap_err();
            assert!(refused.message().contains("exceeded max depth"), "{op}: {refused}");
        }
        let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(
            patched(&json!([{"op": "replace", "path": "", "value": [deep]}])).unwrap_err().code(),
            400
        );
    }

    #[test]
    fn json_patch_is_atomic() {
        let set = json!({"op": "replace", "path": "/map/a", "value": 9});
        assert_eq!(patched(&json!([set])).unwrap()["map"]["a"], 9);
        let wrong = json!([set, {"op": "test", "path": "/map/a", "value": 1}]);
        assert_eq!(patched(&wrong).unwrap_err().code(), 422);
    }
}

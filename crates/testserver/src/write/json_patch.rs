//! JSON patches (RFC 6902) as the library of the real server accepts them. It is more lenient: an index may
//! count from the end, replacing an absent member adds it, and an operation without a value has null. Each
//! operation is translated to the RFC and then applied by `json-patch`.

use bytes::Bytes;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use crate::status::Status;
use crate::wire::object::{parse_json, type_name};
use crate::write::bounds::{self, Copies};

/// A JSON patch that was read but not applied.
#[derive(Clone, Debug)]
pub(crate) struct JsonPatch(Vec<Operation>);

#[derive(Clone, Debug)]
enum Operation {
    Add(Path, Value),
    Remove(Path),
    Replace(Path, Value),
    Move(Path, Path),
    Copy(Path, Path),
    Test(Path, Value),
    /// An unknown operation, or one without a path.
    Unknown,
}

/// The steps to a value. A path without steps is the entire document, or invalid if the text did not begin
/// with a slash.
#[derive(Clone, Debug)]
struct Path {
    steps: Vec<String>,
    is_whole: bool,
}

impl Path {
    fn read(text: &str) -> Self {
        let steps = text.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
        Self { steps: steps.collect(), is_whole: text.is_empty() }
    }
}

/// An operation that does not apply. The response contains no more details.
#[derive(Debug)]
enum Refused {
    DoesNotApply,
    /// The result would be nested too deeply.
    TooDeep,
}

impl Refused {
    fn status(&self) -> Status {
        match self {
            Self::DoesNotApply => Status::patch_rejected(),
            Self::TooDeep => bounds::too_deep(),
        }
    }
}

impl JsonPatch {
    /// Reads a body.
    ///
    /// # Errors
    /// Returns BadRequest if the body is not a list of operations, and 413 if the list is too long.
    pub(crate) fn read(body: &Bytes) -> Result<Self, Status> {
        let decoding = |detail: String| Status::bad_request(format!("error decoding patch: {detail}"));
        let operations = match parse_json(body) {
            Ok(Value::Array(operations)) => operations,
            Ok(Value::Null) => Vec::new(),
            Ok(other) => {
                let found = type_name(&other);
                let detail =
                    format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp");
                return Err(decoding(detail));
            }
            Err(detail) => return Err(decoding(detail)),
        };
        let count = operations.len();
        let operations = operations.into_iter().map(operation).collect::<Result<_, _>>().map_err(decoding)?;
        bounds::check_operations(count)?;
        Ok(Self(operations))
    }

    /// Returns the document with all operations applied.
    ///
    /// # Errors
    /// Returns 422 if an operation does not apply, and 400 if its result is nested too deeply.
    pub(crate) fn apply(&self, mut document: Value) -> Result<Value, Status> {
        let mut copies = Copies::default();
        for operation in &self.0 {
            apply(operation, &mut document, &mut copies).map_err(|refused| refused.status())?;
        }
        Ok(document)
    }
}

fn operation(value: Value) -> Result<Operation, String> {
    let mut fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Operation::Unknown),
        other => {
            let found = type_name(&other);
            return Err(format!("json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"));
        }
    };
    for (key, value) in &fields {
        if matches!(key.as_str(), "op" | "path" | "from") && !value.is_string() && !value.is_null() {
            let found = type_name(value);
            let field = format!("jsonPatchOp.{key} of type string");
            return Err(format!("json: cannot unmarshal {found} into Go struct field {field}"));
        }
    }
    let value = fields.remove("value").unwrap_or_default();
    let path = |key: &str| fields.get(key).and_then(Value::as_str).map(Path::read);
    let operation = match (fields.get("op").and_then(Value::as_str), path("path"), path("from")) {
        (Some("add"), Some(path), _) => Operation::Add(path, value),
        (Some("remove"), Some(path), _) => Operation::Remove(path),
        (Some("replace"), Some(path), _) => Operation::Replace(path, value),
        (Some("move"), Some(path), Some(from)) => Operation::Move(from, path),
        (Some("copy"), Some(path), Some(from)) => Operation::Copy(from, path),
        (Some("test"), Some(path), _) => Operation::Test(path, value),
        _ => Operation::Unknown,
    };
    Ok(operation)
}

/// Applies one operation. The translation to RFC 6902 depends on the document.
///
/// Invariant: the document is never nested deeper than [`bounds::DEPTH`], because clone and drop recurse.
fn apply(operation: &Operation, document: &mut Value, copies: &mut Copies) -> Result<(), Refused> {
    match operation {
        Operation::Add(path, value) => add(document, path, value.clone()),
        Operation::Remove(path) => remove(document, path),
        Operation::Replace(path, value) if path.is_whole && (value.is_object() || value.is_array()) => {
            check_depth(path, value)?;
            *document = value.clone();
            Ok(())
        }
        Operation::Replace(path, value) => match find(document, path)? {
            Some(_) => {
                check_depth(path, value)?;
                let (path, value) = (place(document, path, 0)?, value.clone());
                carry_out(document, PatchOperation::Replace(ReplaceOperation { path, value }))
            }
            None => add(document, path, value.clone()),
        },
        Operation::Move(from, path) => {
            let place = place(document, from, 0)?;
            let moved = document.pointer_mut(place.as_str()).map(Value::take).ok_or(Refused::DoesNotApply)?;
            remove(document, from)?;
            add(document, path, moved)
        }
        Operation::Copy(from, path) => {
            let copied = find(document, from)?.cloned().unwrap_or_default();
            if !copies.count(&copied) {
                return Err(Refused::DoesNotApply);
            }
            add(document, path, copied)
        }
        Operation::Test(path, value) if path.is_whole => {
            (document == value).then_some(()).ok_or(Refused::DoesNotApply)
        }
        Operation::Test(path, value) => (find(document, path)?.unwrap_or(&Value::Null) == value)
            .then_some(())
            .ok_or(Refused::DoesNotApply),
        Operation::Unknown => Err(Refused::DoesNotApply),
    }
}

fn add(document: &mut Value, path: &Path, value: Value) -> Result<(), Refused> {
    check_depth(path, &value)?;
    let path = place(document, path, 1)?;
    carry_out(document, PatchOperation::Add(AddOperation { path, value }))
}

fn remove(document: &mut Value, path: &Path) -> Result<(), Refused> {
    let path = place(document, path, 0)?;
    carry_out(document, PatchOperation::Remove(RemoveOperation { path }))
}

/// Rejects a value that would be nested too deeply at this path.
fn check_depth(path: &Path, value: &Value) -> Result<(), Refused> {
    if bounds::fits_at(path.steps.len(), value) { Ok(()) } else { Err(Refused::TooDeep) }
}

fn carry_out(document: &mut Value, operation: PatchOperation) -> Result<(), Refused> {
    json_patch::patch(document, &[operation]).map_err(|_| Refused::DoesNotApply)
}

/// Returns the value at a path; `None` if the object does not contain it.
fn find<'a>(document: &'a Value, path: &Path) -> Result<Option<&'a Value>, Refused> {
    let place = place(document, path, 0)?;
    Ok(document.pointer(place.as_str()))
}

/// Returns the path with each index in the notation of RFC 6902. The parent is an object or a list. `more`
/// is 1 if the index may be one past the end, to add an element.
fn place(document: &Value, path: &Path, more: usize) -> Result<PointerBuf, Refused> {
    let (last, steps) = path.steps.split_last().ok_or(Refused::DoesNotApply)?;
    let (mut at, mut place) = (document, PointerBuf::new());
    for step in steps {
        let token = token(at, step, 0).ok_or(Refused::DoesNotApply)?;
        at = match at {
            Value::Object(map) => map.get(step),
            other => token.parse().ok().and_then(|index: usize| other.get(index)),
        }
        .ok_or(Refused::DoesNotApply)?;
        place.push_back(token.as_str());
    }
    place.push_back(token(at, last, more).ok_or(Refused::DoesNotApply)?.as_str());
    Ok(place)
}

/// Translates a step within this object or list; a negative index counts from the end.
fn token(parent: &Value, step: &str, more: usize) -> Option<String> {
    let list = match parent {
        Value::Object(_) => return Some(step.to_owned()),
        Value::Array(_) if step == "-" && more > 0 => return Some(step.to_owned()),
        Value::Array(list) => list,
        _ => return None,
    };
    let (count, index) = (list.len() + more, step.parse::<isize>().ok()?);
    let index = if index < 0 { count.checked_sub(index.unsigned_abs())? } else { index.unsigned_abs() };
    (index < count).then(|| index.to_string())
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
    fn json_patch_index_may_count_from_end() {
        let add = |step: &str| list(&json!({"op": "add", "path": format!("/list/{step}"), "value": "n"}));
        assert_eq!(add("-"), Some(json!(["x", "y", "z", "n"])));
        assert_eq!(add("-1"), Some(json!(["x", "y", "z", "n"])));
        assert_eq!(add("-4"), Some(json!(["n", "x", "y", "z"])));
        assert_eq!(add("+1"), Some(json!(["x", "n", "y", "z"])));
        assert_eq!((add("-5"), add("4"), add("x")), (None, None, None));
        let remove = |step: &str| list(&json!({"op": "remove", "path": format!("/list/{step}")}));
        assert_eq!(remove("-1"), Some(json!(["x", "y"])));
        assert_eq!(remove("00"), Some(json!(["y", "z"])));
        assert_eq!((remove("-"), remove("3"), remove("-4")), (None, None, None));
        let moved = list(&json!({"op": "move", "from": "/list/-1", "path": "/list/0"}));
        assert_eq!(moved, Some(json!(["z", "x", "y"])));
        let replaced = list(&json!({"op": "replace", "path": "/list/-2", "value": "n"}));
        assert_eq!(replaced, Some(json!(["x", "n", "z"])));
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
        assert!(test("/map/b~0", 2) && test("/map/b~", 2) && test("/map/c~1d", 3));
        assert!(!test("/map/c/d", 3) && !test("map", 1));
    }

    #[test]
    fn root_document_can_only_be_replaced_and_tested() {
        let whole = |op: &str, value: Value| patched(&json!([{"op": op, "path": "", "value": value}]));
        assert_eq!(whole("replace", json!({"a": 1})).unwrap(), json!({"a": 1}));
        assert!(whole("test", json!({"map": {"a": 1, "b~": 2, "c/d": 3}, "list": ["x", "y", "z"]})).is_ok());
        for (op, value) in
            [("replace", json!(1)), ("add", json!({})), ("remove", json!(null)), ("test", json!({}))]
        {
            assert_eq!(whole(op, value).unwrap_err().code(), 422);
        }
    }

    #[test]
    fn body_must_be_list_of_operations() {
        let message = |patch: Value| patched(&patch).unwrap_err().message().to_owned();
        let prefix = "error decoding patch: json: cannot unmarshal";
        assert_eq!(
            message(json!({})),
            format!("{prefix} object into Go value of type []handlers.jsonPatchOp")
        );
        assert_eq!(
            message(json!([1])),
            format!("{prefix} number into Go value of type handlers.jsonPatchOp")
        );
        let field = format!("{prefix} number into Go struct field jsonPatchOp.path of type string");
        assert_eq!(message(json!([{"op": "add", "path": 1}])), field);
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

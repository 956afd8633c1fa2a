//! PATCH: merge patches, JSON patches, strategic merge patches and applies, with the refusals of the real server.

use bytes::Bytes;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};

use crate::apply;
use crate::apply::managers::Operation;
use crate::apply::schema::{PLAIN, Schema};
use crate::apply::server_side::Applied;
use crate::apply::track::Write;
use crate::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::Status;
use crate::write::bounds::{self, Copies};
use crate::write::decode::{meta, metadata_mut, type_name};
use crate::write::{self, Mode, Object, Part, Target, Written};

/// A patch, read but not yet applied.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Merge(Object),
    Strategic(Object),
    Json(json_patch::Patch),
}

/// The kinds of patches that are no applies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Merge,
    Strategic,
    Json,
}

impl Form {
    /// By the media type. Custom resources have no strategic merge patches.
    pub(crate) fn of(media_type: &str, kind: &Kind) -> Result<Self, Status> {
        match media_type {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            "application/strategic-merge-patch+json" if !kind.rules.custom => Ok(Self::Strategic),
            "application/strategic-merge-patch+json" => Err(Status::unsupported_body(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::unsupported_patch()),
        }
    }
}

/// What a PATCH carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub media_type: &'a str,
    pub body: &'a Bytes,
    /// An apply takes fields from their owners.
    pub force: bool,
}

/// PATCH: changes an object; an apply also creates it.
pub(crate) fn patch(shared: &Shared, target: &Target, mode: Mode, sent: Sent<'_>) -> Result<Written, Status> {
    if sent.media_type == apply::options::APPLY {
        return apply(shared, target, mode, sent);
    }
    let kind = target.kind();
    let form = Form::of(sent.media_type, kind)?;
    write::update(shared, target, &mode, |object| {
        let patched = Patch::read(form, sent.body)?.apply(&kind.merging, object.clone())?;
        match form {
            Form::Merge | Form::Json => write::type_meta::check_patched(&patched, kind)?,
            // The real server does not decode what such a patch has made, so another type means nothing.
            Form::Strategic => write::type_meta::check_texts(&patched, kind)?,
        }
        Ok(patched)
    })
}

/// PATCH of `/scale`, which `edited` carries out on a Scale.
pub(crate) fn patch_scale(
    shared: &Shared,
    target: &Target,
    mut mode: Mode,
    sent: Sent<'_>,
    edited: impl Fn(&Object, &dyn Fn(Object) -> Result<Object, Status>) -> Result<Object, Status>,
) -> Result<Written, Status> {
    if sent.media_type != apply::options::APPLY {
        let form = Form::of(sent.media_type, target.kind())?;
        return write::update(shared, target, &mode, |object| {
            edited(object, &|scale| Patch::read(form, sent.body)?.apply(&PLAIN, scale))
        });
    }
    mode.options.operation = Operation::Apply;
    let scale = apply::server_side::read(sent.body, mode.options.validation)?;
    let object = apply::server_side::scaled(target.kind(), &scale)?;
    let applied = Applied { object, force: sent.force };
    let now = shared.config.clock.timestamp(0);
    let write = Write { kind: target.kind(), part: mode.part, manager: &mode.options.manager, now: &now };
    write::update(shared, target, &mode, |live| applied.over(write, Some(live)))
}

/// Server-side apply. An object that is not there is created, but not by its parts.
fn apply(shared: &Shared, target: &Target, mut mode: Mode, sent: Sent<'_>) -> Result<Written, Status> {
    mode.options.operation = Operation::Apply;
    let applied =
        Applied { object: apply::server_side::read(sent.body, mode.options.validation)?, force: sent.force };
    loop {
        let now = shared.config.clock.timestamp(0);
        let write = Write { kind: target.kind(), part: mode.part, manager: &mode.options.manager, now: &now };
        match write::update(shared, target, &mode, |live| applied.over(write, Some(live))) {
            Err(status) if status.reason() == "NotFound" && mode.part == Part::Main => {}
            done => return done,
        }
        let object = new_object(target, applied.over(write, None)?)?;
        match write::create(shared, target, object, &mode.options) {
            Err(status) if status.reason() == "AlreadyExists" => {}
            done => return done,
        }
    }
}

/// What an apply creates: the object that the URL names.
fn new_object(target: &Target, mut object: Object) -> Result<Object, Status> {
    let uid = meta(&object, "uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(target.kind().named(), &target.name, &why));
    }
    write::create::place(target, &mut object)?;
    write::update::check_named(target, &object)?;
    metadata_mut(&mut object).remove("resourceVersion");
    Ok(object)
}

impl Patch {
    fn read(form: Form, body: &Bytes) -> Result<Self, Status> {
        match form {
            Form::Merge => merge(body).map(Self::Merge).map_err(decoding),
            Form::Strategic => merge(body).map(Self::Strategic).map_err(Status::bad_request),
            Form::Json => operations(body).map(Self::Json),
        }
    }

    /// The object with the patch applied.
    fn apply(&self, schema: &Schema, object: Object) -> Result<Object, Status> {
        let mut value = Value::Object(object);
        match self {
            Self::Strategic(patch) => {
                let object = value.as_object_mut().map(std::mem::take).unwrap_or_default();
                return apply::strategic::patched(schema, object, patch);
            }
            Self::Merge(patch) => merge_into(&mut value, patch),
            Self::Json(operations) => {
                let mut copies = Copies::default();
                for operation in operations.iter() {
                    if is_absent_as_expected(operation, &value) {
                        continue;
                    }
                    let operation = as_server(operation, &value);
                    copies.count(&operation, &value)?;
                    json_patch::patch(&mut value, &[operation]).map_err(|_| Status::patch_rejected())?;
                }
            }
        }
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(Status::patch_rejected()),
        }
    }
}

/// Whether it tests for null what an object does not have, which holds for the real server. Programs ask so whether an
/// object has finalizers before they add the first.
fn is_absent_as_expected(operation: &PatchOperation, of: &Value) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    let parent = test.path.parent().and_then(|parent| of.pointer(parent.as_str()));
    test.value.is_null() && parent.is_some_and(Value::is_object) && of.pointer(test.path.as_str()).is_none()
}

/// The operation as the real server takes it: to replace what an object does not have is to add it.
fn as_server(operation: &PatchOperation, to: &Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation.clone() };
    let parent = replace.path.parent().and_then(|parent| to.pointer(parent.as_str()));
    let absent = to.pointer(replace.path.as_str()).is_none();
    if absent && parent.is_some_and(Value::is_object) {
        let (path, value) = (replace.path.clone(), replace.value.clone());
        return PatchOperation::Add(AddOperation { path, value });
    }
    operation.clone()
}

fn decoding(why: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

fn complaint(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".into() } else { error.to_string() }
}

fn merge(body: &Bytes) -> Result<Object, String> {
    match serde_json::from_slice(body).map_err(|error| complaint(&error))? {
        Value::Object(patch) => Ok(patch),
        other => {
            let found = type_name(&other);
            Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
    }
}

fn operations(body: &Bytes) -> Result<json_patch::Patch, Status> {
    let value: Value = serde_json::from_slice(body).map_err(|error| complaint(&error)).map_err(decoding)?;
    if !value.is_array() {
        let found = type_name(&value);
        return Err(decoding(format!(
            "json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )));
    }
    bounds::check_operations(value.as_array().map_or(0, Vec::len))?;
    serde_json::from_value(value).map_err(|_| Status::patch_rejected())
}

/// RFC 7386: null removes, maps merge, everything else replaces.
fn merge_into(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(inner) => merge_into(target.entry(key.as_str()).or_insert(Value::Null), inner),
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(form: Form, patch: &Value) -> Result<Value, Status> {
        let object = json!({"data": {"a": "1", "b": "2"}});
        let patch = Patch::read(form, &patch.to_string().into())?;
        patch.apply(&Schema::default(), object.as_object().unwrap().clone()).map(Value::Object)
    }

    #[test]
    fn a_merge_patch_merges_maps_and_removes_by_null() {
        let patch = json!({"data": {"a": null, "c": "3"}, "new": {"x": {"y": null, "z": 1}}});
        let result = patched(Form::Merge, &patch).unwrap();
        assert_eq!(result, json!({"data": {"b": "2", "c": "3"}, "new": {"x": {"z": 1}}}));
    }

    #[test]
    fn a_json_patch_applies_or_is_rejected_as_a_whole() {
        let good = json!([{"op": "replace", "path": "/data/a", "value": "9"}]);
        assert_eq!(patched(Form::Json, &good).unwrap()["data"]["a"], "9");
        let absent = json!([{"op": "test", "path": "/data/z", "value": null}, {"op": "add", "path": "/data/z", "value": "1"}]);
        assert_eq!(patched(Form::Json, &absent).unwrap()["data"]["z"], "1");
        let nowhere = json!([{"op": "test", "path": "/nowhere/z", "value": null}]);
        assert_eq!(patched(Form::Json, &nowhere).unwrap_err().code(), 422);
        let bad = json!([{"op": "test", "path": "/data/a", "value": "nope"}]);
        assert_eq!(patched(Form::Json, &bad).unwrap_err().code(), 422);
        let message = patched(Form::Json, &json!({})).unwrap_err().message().to_owned();
        assert_eq!(
            message,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
    }
}

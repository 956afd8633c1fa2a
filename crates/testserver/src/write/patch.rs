//! PATCH: merge patches, JSON patches, strategic merge patches and applies, with the errors of the real
//! server.

use bytes::Bytes;
use kube_managed_fields::{Operation, PatchError, Schema, strategic_merge_patch};
use serde_json::{Map, Value};

use crate::access::attributes::Attributes;
use crate::access::users::User;
use crate::schemas::kinds::kind::{Kind, ScalePaths};
use crate::state::Shared;
use crate::status::Status;
use crate::wire::object::{meta, metadata_mut, parse_json, type_name};
use crate::write::apply;
use crate::write::apply::server_side::Applied;
use crate::write::apply::track::Write;
use crate::write::json_patch::JsonPatch;
use crate::write::{self, Mode, Object, Part, Target, Written, scale_body};

#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Merge(Object),
    Strategic(Object),
    Json(JsonPatch),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Merge,
    Strategic,
    Json,
}

impl Form {
    /// Selects the format by the media type. Custom resources do not support strategic merge patches.
    pub(crate) fn of(media_type: &str, kind: &Kind) -> Result<Self, Status> {
        match media_type {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            "application/strategic-merge-patch+json" if !kind.rules.custom => Ok(Self::Strategic),
            _ if kind.rules.custom => Err(Status::unsupported_body(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::unsupported_patch()),
        }
    }

    /// Returns whether the result of the patch can depend on `managedFields`. May return true if it does
    /// not.
    fn sees_managers(self, body: &[u8]) -> bool {
        let text = std::str::from_utf8(body).unwrap_or("\\");
        // An escape can spell the name in another way.
        let is_named = text.contains('\\') || text.contains("managedFields");
        is_named || matches!(self, Self::Json) && (text.contains("/metadata\"") || text.contains("\"\""))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PatchRequest<'a> {
    pub media_type: &'a str,
    pub body: &'a Bytes,
    /// True if an apply takes conflicting fields from their managers.
    pub force: bool,
    /// The user and its request. If an apply creates the object, the user also needs the right to create it.
    /// `None` for a user with all rights.
    pub caller: Option<(&'a User, &'a Attributes)>,
}

/// Executes a PATCH: changes an object. A server-side apply can also create the object.
pub(crate) async fn patch(
    shared: &Shared,
    target: &Target,
    mode: Mode,
    sent: PatchRequest<'_>,
) -> Result<Written, Status> {
    if sent.media_type == apply::options::APPLY {
        return Box::pin(apply(shared, target, mode, sent)).await;
    }
    let form = Form::of(sent.media_type, target.kind())?;
    let edit = |target: &Target, object: &Object| {
        let kind = target.kind();
        let patched = Patch::read(form, sent.body)?.apply(&kind.merging, object.clone())?;
        match form {
            Form::Merge | Form::Json => write::type_meta::check_patched(&patched, kind, &target.name)?,
            // The real server does not decode the result of this patch, so a different type is accepted.
            Form::Strategic => write::type_meta::check_texts(&patched, kind)?,
        }
        Ok(patched)
    };
    write::update_by(shared, target, &mode, form.sees_managers(sent.body), edit).await
}

/// Executes a PATCH of `/scale`, except for an apply.
pub(crate) async fn patch_scale(
    shared: &Shared,
    target: &Target,
    mode: Mode,
    sent: PatchRequest<'_>,
    paths: &ScalePaths,
) -> Result<Written, Status> {
    if sent.media_type == apply::options::APPLY {
        return Err(Status::unsupported_patch());
    }
    let form = Form::of(sent.media_type, target.kind())?;
    write::update(shared, target, &mode, |target, object| {
        scale_body::patched(target, object, paths, &mode.options, |scale| {
            Patch::read(form, sent.body)?.apply(&Schema::default(), scale)
        })
    })
    .await
}

/// Server-side apply. It creates an absent object, except through a subresource.
async fn apply(
    shared: &Shared,
    target: &Target,
    mut mode: Mode,
    sent: PatchRequest<'_>,
) -> Result<Written, Status> {
    mode.options.operation = Operation::Apply;
    let applied = Applied { object: apply::server_side::read(sent.body)?, force: sent.force };
    loop {
        let target = &shared.read(|state| target.current(state))?;
        let now = shared.config.clock.timestamp(0);
        let over =
            |target: &Target, live: &Object| applied.over(Write::new(target.kind(), &mode, &now), Some(live));
        match write::update(shared, target, &mode, over).await {
            Err(status) if status.reason() == "NotFound" && mode.part == Part::Main => {}
            done => return done,
        }
        if let Some((user, request)) = sent.caller {
            shared.access.authorize(user, &request.creation())?;
        }
        let object = new_object(target, applied.over(Write::new(target.kind(), &mode, &now), None)?)?;
        match write::create(shared, target, object, &mode.options).await {
            Err(status) if status.reason() == "AlreadyExists" => {}
            done => return done,
        }
    }
}

/// Returns the object that an apply creates, with the name in the URL.
fn new_object(target: &Target, mut object: Object) -> Result<Object, Status> {
    let uid = meta(&object, "uid");
    if !uid.is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(target.kind().named(), &target.name, &detail));
    }
    write::create::place(target, &mut object)?;
    write::update::check_named(target, &object)?;
    metadata_mut(&mut object).remove("resourceVersion");
    Ok(object)
}

impl Patch {
    fn read(form: Form, body: &Bytes) -> Result<Self, Status> {
        let decoding = |detail: String| Status::bad_request(format!("error decoding patch: {detail}"));
        match form {
            Form::Merge => match merge(body).map_err(decoding)? {
                Some(patch) => Ok(Self::Merge(patch)),
                None => Err(Status::bad_request("Invalid JSON Patch")),
            },
            Form::Strategic => {
                Ok(Self::Strategic(merge(body).map_err(Status::bad_request)?.unwrap_or_default()))
            }
            Form::Json => JsonPatch::read(body).map(Self::Json),
        }
    }

    fn apply(&self, schema: &Schema, object: Object) -> Result<Object, Status> {
        let mut value = Value::Object(object);
        match self {
            Self::Strategic(patch) => {
                let object = value.as_object_mut().map(std::mem::take).unwrap_or_default();
                return strategic_merge_patch(schema, object, patch).map_err(invalid);
            }
            Self::Merge(patch) => merge_into(&mut value, patch),
            Self::Json(operations) => value = operations.apply(value)?,
        }
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(Status::patch_rejected()),
        }
    }
}

fn invalid(error: PatchError) -> Status {
    match error {
        PatchError::Directive(_) => Status::bad_request(error.to_string()),
        error => Status::internal(error.to_string()),
    }
}

/// Reads the fields of a merge patch; `None` if it is null.
fn merge(body: &Bytes) -> Result<Option<Object>, String> {
    match parse_json(body)? {
        Value::Object(patch) => Ok(Some(patch)),
        Value::Null => Ok(None),
        other => {
            let found = type_name(&other);
            Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
    }
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
    fn merge_patch_merges_maps_and_removes_null() {
        let patch = json!({"data": {"a": null, "c": "3"}, "new": {"x": {"y": null, "z": 1}}});
        let result = patched(Form::Merge, &patch).unwrap();
        assert_eq!(result, json!({"data": {"b": "2", "c": "3"}, "new": {"x": {"z": 1}}}));
    }

    #[test]
    fn null_is_valid_only_as_strategic_patch() {
        let refused = patched(Form::Merge, &Value::Null).unwrap_err();
        assert_eq!((refused.code(), refused.message()), (400, "Invalid JSON Patch"));
        assert!(patched(Form::Strategic, &Value::Null).is_ok());
    }
}

//! The AdmissionReview that a webhook receives, and its response.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::access::users::User;
use crate::encoding::scale::Scale;
use crate::read::conversion;
use crate::schemas::kinds::kind::group_version;
use crate::status::Status;
use crate::wire::names;
use crate::wire::object::Object;
use crate::write::admission::Admission;
use crate::write::admission::hook::Hook;
use crate::write::json_patch::JsonPatch;

impl Admission<'_> {
    /// Returns the review for a webhook.
    ///
    /// # Errors
    /// Returns 500 if the conversion webhook of the CRD fails.
    pub(super) async fn review(
        &self,
        hook: &Hook,
        object: Option<&Object>,
        old: Option<&Object>,
    ) -> Result<Value, Status> {
        let (kind, caller) = (self.target.kind(), self.caller);
        let resource =
            |version: &str| json!({"group": kind.group, "version": version, "resource": kind.plural});
        let object_kind = |version: &str| {
            let [group, version, kind] = self.object_kind(version);
            json!({"group": group, "version": version, "kind": kind})
        };
        let subresource = Some(self.subresource).filter(|subresource| !subresource.is_empty());
        let namespace = if kind.is_namespace() { Some(&self.name) } else { self.target.namespace.as_ref() };
        let mut options = caller.options.clone();
        options["kind"] = json!(format!("{:?}Options", self.operation));
        options["apiVersion"] = json!("meta.k8s.io/v1");
        let User { name, uid, groups, extra } = &caller.user;
        let request = json!({
            "uid": self.shared.random(names::uid), "name": if caller.is_collection { "" } else { &self.name },
            "namespace": namespace, "operation": self.operation.name(), "dryRun": caller.dry_run,
            "kind": object_kind(&hook.version), "resource": resource(&hook.version), "subResource": subresource,
            "requestKind": object_kind(&kind.version), "requestResource": resource(&kind.version),
            "requestSubResource": subresource, "options": options,
            "userInfo": {"username": name, "uid": uid, "groups": groups, "extra": extra},
            "object": self.shown(hook, object).await?, "oldObject": self.shown(hook, old).await?,
        });
        Ok(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}))
    }

    /// Returns the object that a client of the subresource reads, in the version that the webhook expects.
    ///
    /// # Errors
    /// See [`Admission::review`].
    pub(super) async fn shown(&self, hook: &Hook, object: Option<&Object>) -> Result<Value, Status> {
        let Some(object) = object else { return Ok(Value::Null) };
        if let Some(paths) = self.scale() {
            return Ok(Scale::of(object, paths).json());
        }
        let (mut object, target) = (object.clone(), self.target.kind());
        let [group, version, kind] = self.object_kind(&target.version);
        object.insert("apiVersion".into(), json!(group_version(group, version)));
        object.insert("kind".into(), json!(kind));
        if hook.version != target.version {
            object = conversion::to_version(self.shared, target, object, &hook.version).await?;
        }
        Ok(Value::Object(object))
    }
}

pub(super) struct Response {
    pub allowed: bool,
    pub status: Value,
    pub patch: Option<JsonPatch>,
    pub warnings: Vec<String>,
}

impl Response {
    /// Reads and checks a response.
    ///
    /// # Errors
    /// Returns the violation.
    pub(super) fn read(mut review: Value, uid: &Value, mutating: bool) -> Result<Self, String> {
        let invalid = |text: &str| Err(format!("received invalid webhook response: {text}"));
        let Some(mut response) = review.get_mut("response").map(Value::take).filter(Value::is_object) else {
            return invalid("webhook response was absent");
        };
        if response["uid"] != *uid {
            let found = response["uid"].as_str().unwrap_or_default();
            return invalid(&format!("expected response.uid={uid}, got {found:?}"));
        }
        let found = ["apiVersion", "kind"].map(|key| review[key].as_str().unwrap_or_default().to_owned());
        if found != ["admission.k8s.io/v1", "AdmissionReview"] {
            let [version, kind] = found;
            let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
            return invalid(&format!("expected webhook response of {expected}, got {version}, Kind={kind}"));
        }
        let patch = patch(&response["patch"])?;
        let kind = &response["patchType"];
        if !(mutating || patch.is_empty() && kind.is_null()) {
            return invalid("validating webhook may not return response.patch");
        }
        if patch.is_empty() != kind.is_null() || !kind.is_null() && kind != "JSONPatch" {
            return invalid("response.patch requires the response.patchType JSONPatch, and conversely");
        }
        let warnings = response["warnings"].take();
        let operations = (!patch.is_empty()).then(|| JsonPatch::read(&patch)).transpose();
        Ok(Self {
            allowed: response["allowed"] == true,
            status: response["status"].take(),
            patch: operations.map_err(|error: Status| {
                format!("received undecodable patch in webhook response: {}", error.message())
            })?,
            warnings: serde_json::from_value(warnings).unwrap_or_default(),
        })
    }
}

/// Decodes a patch. Go writes bytes as base64, and serde as a list of numbers. Go reads both.
fn patch(patch: &Value) -> Result<Bytes, String> {
    let bytes = match patch {
        Value::String(text) => BASE64_STANDARD.decode(text).map_err(|error| error.to_string()),
        Value::Null => Ok(Vec::new()),
        other => serde_json::from_value(other.clone()).map_err(|error| error.to_string()),
    };
    bytes.map(Bytes::from).map_err(|error| format!("response.patch has no bytes: {error}"))
}

//! The AdmissionReview that a webhook receives, and its response.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::encoding::scale::Scale;
use crate::status::Status;
use crate::wire::names;
use crate::wire::object::Object;
use crate::write::admission::hook::Hook;
use crate::write::admission::{Admission, Operation};
use crate::write::json_patch::JsonPatch;

impl Admission<'_> {
    /// Returns the review of a write for a webhook.
    pub(super) fn review(&self, hook: &Hook, object: Option<&Object>, old: Option<&Object>) -> Value {
        let (kind, caller) = (self.target.kind(), self.caller);
        let mut request = Map::new();
        let mut set = |key: &str, value: Value| {
            let is_unset = value.is_null() || value == "";
            if !is_unset {
                request.insert(key.into(), value);
            }
        };
        let resource =
            |version: &str| json!({"group": kind.group, "version": version, "resource": kind.plural});
        let requested = self.object_kind();
        let mut own = requested.clone();
        if !matches!(self.subresource, "scale" | "binding" | "eviction") {
            own["version"] = json!(hook.version);
        }
        let is_new = self.operation == Operation::Create && self.subresource.is_empty();
        let namespace = if kind.is_namespace() { Some(&self.name) } else { self.target.namespace.as_ref() };
        set("uid", json!(self.shared.random(names::uid)));
        set("kind", own);
        set("resource", resource(&hook.version));
        set("subResource", json!(self.subresource));
        set("requestKind", requested);
        set("requestResource", resource(&kind.version));
        set("requestSubResource", json!(self.subresource));
        set("name", if caller.is_collection { Value::Null } else { json!(self.name) });
        set("namespace", json!(namespace));
        set("operation", json!(self.operation.name()));
        set("object", self.shown(hook, object, is_new));
        set("oldObject", self.shown(hook, old, false));
        set("options", self.options());
        request.entry("object").or_insert(Value::Null);
        request.entry("oldObject").or_insert(Value::Null);
        request.insert("userInfo".into(), self.user());
        request.insert("dryRun".into(), json!(caller.dry_run));
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    }

    /// Returns the object that a client of the subresource reads. A new object has no system fields before it
    /// is stored.
    fn shown(&self, hook: &Hook, object: Option<&Object>, is_new: bool) -> Value {
        if let (Some(paths), Some(object)) = (self.scale(), object) {
            return Value::Object(Scale::of(object, paths).object());
        }
        let mut shown = hook.versioned(self, object);
        if let (true, Some(metadata)) = (is_new, shown.get_mut("metadata").and_then(Value::as_object_mut)) {
            for key in ["uid", "creationTimestamp", "generation"] {
                metadata.remove(key);
            }
        }
        shown
    }

    fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = self.caller.options.clone();
        options["kind"] = json!(kind);
        options["apiVersion"] = json!("meta.k8s.io/v1");
        options
    }

    fn user(&self) -> Value {
        let user = &self.caller.user;
        let mut info = json!({"username": user.name, "groups": user.groups});
        if !user.uid.is_empty() {
            info["uid"] = json!(user.uid);
        }
        if !user.extra.is_empty() {
            info["extra"] = json!(user.extra);
        }
        info
    }
}

/// The response of a webhook.
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
        match (patch.is_empty(), kind.is_null(), mutating) {
            (false, _, false) => return invalid("validating webhook may not return response.patch"),
            (_, false, false) => return invalid("validating webhook may not return response.patchType"),
            (false, true, true) => {
                return invalid("webhook returned response.patch but not response.patchType");
            }
            (true, false, true) => {
                return invalid("webhook returned response.patchType but not response.patch");
            }
            (false, false, true) if kind != "JSONPatch" => {
                return Err(format!("unsupported patch type {kind}"));
            }
            _ => {}
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

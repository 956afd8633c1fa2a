//! `Status`: the error responses of the API server, with the exact messages of kube-apiserver.
//!
//! Each kind of error has one constructor. Each message is therefore written once.

mod webhook;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Holds an error response of the API server: code, reason, message, details and causes.
///
/// The value has the size of one pointer. It serialises to the exact body that kube-apiserver sends.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}", .0.code, .0.message)]
pub struct Status(Box<Failure>);

#[derive(Clone, Debug, Serialize)]
struct Failure {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: ListMeta,
    status: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Clone, Debug, Default, Serialize)]
struct ListMeta {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    continue_token: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

/// One of the causes in the 422 response for an invalid object.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

impl Cause {
    pub(crate) fn new(reason: &str, message: impl Into<String>, field: &str) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }

    pub(crate) fn required(field: &str, text: &str) -> Self {
        let message =
            if text.is_empty() { "Required value".into() } else { format!("Required value: {text}") };
        Self::new("FieldValueRequired", message, field)
    }

    pub(crate) fn forbidden(field: &str, text: &str) -> Self {
        Self::new("FieldValueForbidden", format!("Forbidden: {text}"), field)
    }

    /// Reports an invalid value. `shown` is the value as Go formats it, for example a text with
    /// quotation marks.
    pub(crate) fn invalid(field: &str, shown: &str, text: &str) -> Self {
        Self::new("FieldValueInvalid", format!("Invalid value: {shown}: {text}"), field)
    }

    /// Reports an invalid text.
    pub(crate) fn invalid_text(field: &str, value: &str, text: &str) -> Self {
        Self::invalid(field, &format!("{value:?}"), text)
    }

    /// Reports a text that is missing or invalid.
    pub(crate) fn wrong_text(field: &str, value: &str, text: &str) -> Self {
        if value.is_empty() { Self::required(field, text) } else { Self::invalid_text(field, value, text) }
    }

    /// Reports an invalid value without the value.
    #[cfg(feature = "cel")]
    pub(crate) fn invalid_omitted(field: &str, text: &str) -> Self {
        Self::new("FieldValueInvalid", format!("Invalid value: {text}"), field)
    }

    #[cfg(feature = "cel")]
    pub(crate) fn internal(field: &str, text: &str) -> Self {
        Self::new("InternalError", format!("Internal error: {text}"), field)
    }

    /// Reports a value of a wrong type. `shown` is the value as Go formats it.
    pub(crate) fn wrong_type(field: &str, shown: &str, text: &str) -> Self {
        Self::new("FieldValueTypeInvalid", format!("Invalid value: {shown}: {text}"), field)
    }

    pub(crate) fn duplicate(field: &str, shown: &str) -> Self {
        Self::new("FieldValueDuplicate", format!("Duplicate value: {shown}"), field)
    }

    /// Reports a duplicate without the value.
    #[cfg(feature = "cel")]
    pub(crate) fn duplicate_omitted(field: &str) -> Self {
        Self::new("FieldValueDuplicate", "Duplicate value", field)
    }

    pub(crate) fn too_long(field: &str, limit: u64) -> Self {
        Self::new("FieldValueTooLong", format!("Too long: may not be more than {limit} bytes"), field)
    }

    pub(crate) fn too_many(field: &str, count: usize, limit: u64) -> Self {
        let text = format!("Too many: {count}: must have at most {limit} items");
        Self::new("FieldValueTooMany", text, field)
    }

    /// Returns whether the value is missing, of the wrong type, too long or unsupported.
    pub(crate) fn is_blocking(&self) -> bool {
        let blocking = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.reason.strip_prefix("FieldValue").is_some_and(|reason| blocking.contains(&reason))
    }

    pub(crate) fn unsupported(field: &str, value: &str, supported: &[&str]) -> Self {
        Self::not_supported(field, &format!("{value:?}"), supported)
    }

    /// Reports a value that is not one of the supported values. `shown` is the value as Go formats it.
    pub(crate) fn not_supported(field: &str, shown: &str, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let text = format!("Unsupported value: {shown}: supported values: {}", list.join(", "));
        Self::new("FieldValueNotSupported", text, field)
    }

    /// Reports a field that another manager owns.
    pub(crate) fn owned(owner: &str, path: &str) -> Self {
        Self::new("FieldManagerConflict", format!("conflict with {owner}"), path)
    }

    /// Formats the field and its error as they appear in messages.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

/// A resource in the notation of messages: `pods` or `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub group: &'a str,
    pub resource: &'a str,
}

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group {
            "" => f.write_str(self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl Named<'_> {
    fn details(&self, name: &str) -> Details {
        Details {
            name: name.into(),
            group: self.group.into(),
            kind: self.resource.into(),
            ..Details::default()
        }
    }
}

/// The codec error of the real server for undecodable bytes of a built-in kind.
const UNDECODABLE: &str = "illegal base64 data at input byte 4";

impl Status {
    /// Creates a status with a code, a reason and a message, without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta::default(),
            status: "Failure",
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
        }))
    }

    fn with(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.0.details.get_or_insert_default().causes.extend(causes);
        self
    }

    /// Adds empty details if the status has none.
    pub(crate) fn detailed(mut self) -> Self {
        self.0.details.get_or_insert_default();
        self
    }

    /// Sets `details.retryAfterSeconds` and the header `Retry-After` to this number of seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// Returns the reason, which is one word such as `NotFound`. The reason is empty if kube-apiserver
    /// sends no reason for the error.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the error message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.0.details.as_ref()?.retry_after_seconds
    }

    /// Returns the body, without the final newline.
    pub(crate) fn json(&self) -> Vec<u8> {
        // A struct of strings and numbers always serialises; the fallback avoids a panic.
        serde_json::to_vec(&self.0).unwrap_or_else(|_| b"{}".to_vec())
    }

    /// Returns the watch frame that closes a watch with this status.
    pub(crate) fn frame(&self) -> Bytes {
        let json = self.json();
        [b"{\"type\":\"ERROR\",\"object\":".as_slice(), &json, b"}\n"].concat().into()
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Creates a status with code 500 and without a reason, for an unexpected failure of the real
    /// server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// Creates a status with code 500 and the reason InternalError, for example for a storage failure.
    pub fn internal_error(detail: &str) -> Self {
        let status = Self::new(500, "InternalError", format!("Internal error occurred: {detail}"));
        status.with_causes(vec![Cause::new("", detail, "")])
    }

    /// Rejects an eviction that the disruption budget does not allow now.
    pub(crate) fn over_budget(detail: String) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cause = Cause::new("DisruptionBudget", detail, "");
        Self::new(429, "TooManyRequests", message).with_causes(vec![cause])
    }

    /// Creates a status with code 410 and the reason Expired, for an expired resourceVersion. If a watch
    /// fails with this status, its client lists again.
    pub fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version")
    }

    /// Creates the response to a read of an object that cannot be decoded.
    pub(crate) fn undecodable() -> Self {
        Self::internal(UNDECODABLE)
    }

    /// Creates the ERROR event of a watch for an object that cannot be decoded.
    pub(crate) fn undecodable_event() -> Self {
        Self::internal_error(UNDECODABLE)
    }

    pub(crate) fn not_found(what: Named<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} \"{name}\" not found")).with(what.details(name))
    }

    /// Creates the response if the group and version exist, but the resource or subresource does not.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// Rejects a verb that a subresource of a custom resource does not support.
    pub(crate) fn verb_not_supported(what: Named<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{what}\"");
        Self::new(405, "MethodNotAllowed", message).with(what.details(""))
    }

    pub(crate) fn already_exists(what: Named<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{what} \"{name}\" already exists")).with(what.details(name))
    }

    pub(crate) fn conflict(what: Named<'_>, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {detail}");
        Self::new(409, "Conflict", message).with(what.details(name))
    }

    /// Rejects an update whose resourceVersion differs from the stored one.
    pub(crate) fn modified(what: Named<'_>, name: &str) -> Self {
        let detail =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(what, name, detail)
    }

    /// Rejects an apply of fields that other managers own.
    pub(crate) fn apply_conflict(message: &str, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message).with_causes(causes)
    }

    pub(crate) fn forbidden(what: Named<'_>, name: &str, detail: &str) -> Self {
        let message = match name {
            "" => format!("{what} is forbidden: {detail}"),
            _ => format!("{what} \"{name}\" is forbidden: {detail}"),
        };
        Self::new(403, "Forbidden", message).with(what.details(name))
    }

    /// Rejects a path that does not identify a resource (403).
    pub(crate) fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        Self::new(403, "Forbidden", message).with(Details::default())
    }

    pub(crate) fn terminating(what: Named<'_>, name: &str, namespace: &str) -> Self {
        let detail =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let cause = Cause::new("NamespaceTerminating", message, "metadata.namespace");
        Self::forbidden(what, name, &detail).with_causes(vec![cause])
    }

    /// Rejects an invalid object (`what.resource` is then the kind) or invalid options.
    pub(crate) fn invalid(what: Named<'_>, name: &str, causes: Vec<Cause>) -> Self {
        // If two validators find the same cause, the real server lists it twice, but its message contains
        // it once.
        let mut lines: Vec<String> = Vec::with_capacity(causes.len());
        for line in causes.iter().map(Cause::line) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let detail =
            if let [one] = lines.as_slice() { one.clone() } else { format!("[{}]", lines.join(", ")) };
        let message = format!("{what} \"{name}\" is invalid: {detail}");
        Self::new(422, "Invalid", message).with(what.details(name)).with_causes(causes)
    }

    pub(crate) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        Self::invalid(Named { group: "meta.k8s.io", resource: kind }, "", causes)
    }

    /// Rejects a patch that does not apply.
    pub(crate) fn patch_rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with(Details::default())
    }

    pub(crate) fn unsupported_body(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with(Details::default())
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(crate) fn too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = Cause::new("ResourceVersionTooLarge", "Too large resource version", "");
        Self::new(504, "Timeout", message).with_causes(vec![cause])
    }

    /// Rejects a watch from a version whose events were dropped.
    pub(crate) fn watch_expired(requested: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {requested} ({oldest})"))
    }

    /// Rejects a watch from a revision whose events were dropped, on a server without a watch cache.
    pub(crate) fn watch_compacted() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }

    pub(crate) fn list_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// Rejects a page whose snapshot was dropped. With `token`, the client can continue the list without
    /// consistency.
    pub(crate) fn continue_expired(token: String) -> Self {
        let mut status = Self::new(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You can start a \
             new list without the continue parameter, or use the continue token in this response to retrieve \
             the remainder of the results. Continuing with the provided token results in an inconsistent list \
             - objects that were created, modified, or deleted between the time the first chunk was returned \
             and now may show up in the list.",
        );
        status.0.metadata.continue_token = Some(token);
        status
    }

    /// Creates a status with code 401 and the reason Unauthorized, for missing or wrong credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }
}

/// Returns the body of the response for a delete that removed its object immediately.
pub(crate) fn deleted(what: Named<'_>, name: &str, uid: &str) -> Vec<u8> {
    let details = Details { uid: uid.into(), ..what.details(name) };
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_bodies_equal_real_server() {
        let status = Status::not_found(Named { group: "apps", resource: "deployments" }, "absent");
        assert_eq!(
            String::from_utf8_lossy(&status.json()),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"absent\" not found","reason":"NotFound","details":{"name":"absent","group":"apps","kind":"deployments"},"code":404}"#
        );
        assert_eq!(
            String::from_utf8_lossy(&Status::too_large(999_999_999, 244).retry_after(1).json()),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 244","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
        );
        assert_eq!(
            String::from_utf8_lossy(&Status::internal("x").json()),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"x","code":500}"#
        );
    }
}

//! Checks `apiVersion` and `kind` of a body, which must match the resource in the URL.

use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::Types;
use crate::status::{Cause, Named, Status};
use crate::wire::object::{Object, meta};
use crate::write::Via;
use crate::write::strict::unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TypeMeta<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> TypeMeta<'a> {
    /// Reads the apiVersion and kind of an object. Absent values are empty.
    fn of(object: &'a Object) -> Result<Self, String> {
        for (key, value) in object {
            if matches!(key.as_str(), "kind" | "apiVersion") && !value.is_string() && !value.is_null() {
                return Err(format!("couldn't get version/kind; {key} is not a string: {value}"));
            }
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
        let (whole, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = whole.split_once('/').unwrap_or(("", whole));
        if version.contains('/') {
            return Err(format!("unexpected GroupVersion string: {whole}"));
        }
        Ok(Self { group, version, kind })
    }

    fn api_version(self) -> String {
        match self.group {
            "" => self.version.into(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns the reason why the decoder of built-in kinds rejects this type for `wanted`, if it does.
    fn complaint(self, wanted: &Kind) -> Option<String> {
        let api_version = self.api_version();
        // Another version of the same kind is converted.
        let is_known = Types::get().kind(&api_version, self.kind).is_some();
        (self.kind != wanted.kind || !is_known)
            .then(|| format!("kind \"{}\" of version \"{api_version}\" is another kind", self.kind))
    }
}

/// Checks the body of a POST or a PUT. Built-in kinds may omit both fields.
///
/// # Errors
/// Returns BadRequest. `unrecognized` creates the error for a body that is not an object.
pub(crate) fn check_sent(
    object: &Object,
    kind: &Kind,
    unrecognized: impl Fn(String) -> Status,
) -> Result<(), Status> {
    let mut said = TypeMeta::of(object).map_err(unrecognized)?;
    let cannot = |found: TypeMeta<'_>, detail: &str| {
        let (found, version, wanted) = (found.kind, found.version, &kind.kind);
        Err(Status::bad_request(format!(
            "{found} in version \"{version}\" cannot be handled as a {wanted}: {detail}"
        )))
    };
    if !kind.rules.custom {
        if said.kind.is_empty() {
            said.kind = &kind.kind;
        }
        if said.group.is_empty() && said.version.is_empty() {
            (said.group, said.version) = (&kind.group, &kind.version);
        }
        if let Some(detail) = said.complaint(kind) {
            return cannot(said, &detail);
        }
    }
    let (version, expected) = (said.api_version(), kind.api_version());
    if version == expected {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({expected})"
    )))
}

/// Checks the result of a patch.
///
/// # Errors
/// Usually returns Invalid. Without an apiVersion the real server returns other errors.
pub(crate) fn check_patched(object: &Object, kind: &Kind, name: &str) -> Result<(), Status> {
    let invalid = |detail: &str| Err(unreadable(kind, Via::Patch, object, detail));
    let mut said = match TypeMeta::of(object) {
        Ok(said) => said,
        Err(detail) => return invalid(&detail),
    };
    if kind.rules.custom {
        if said.kind.is_empty() {
            return invalid("Object 'Kind' is missing");
        }
        if said.version.is_empty() {
            let detail = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(Status::internal_error(detail));
        }
        return Ok(());
    }
    if said.kind.is_empty() {
        said.kind = &kind.kind;
    }
    if said.group.is_empty() && said.version.is_empty() {
        // The real server decodes it as an internal object. The fields of internal objects have other
        // names.
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    said.complaint(kind).map_or(Ok(()), |detail| invalid(&detail))
}

/// Checks that both fields are texts in the result of a patch.
///
/// # Errors
/// Returns Invalid.
pub(crate) fn check_texts(object: &Object, kind: &Kind) -> Result<(), Status> {
    TypeMeta::of(object).map(|_| ()).map_err(|detail| unreadable(kind, Via::Patch, object, &detail))
}

/// Checks that a custom resource has the type of its definition.
///
/// # Errors
/// Returns Invalid. The error contains the type in the body.
pub(crate) fn check_kept(object: &Map<String, Value>, kind: &Kind) -> Result<(), Status> {
    let Some(said) = TypeMeta::of(object).ok().filter(|_| kind.rules.custom) else { return Ok(()) };
    let mut causes = Vec::new();
    let mut keep = |field: &str, found: &str, expected: &str| {
        if found != expected {
            causes.push(Cause::invalid_text(field, found, &format!("must be {expected}")));
        }
    };
    keep("kind", said.kind, &kind.kind);
    keep("apiVersion", &said.api_version(), &kind.api_version());
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(Named { group: said.group, resource: said.kind }, meta(object, "name"), causes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::kinds::builtin;
    use serde_json::json;

    fn of(plural: &str) -> Kind {
        builtin::kinds().into_iter().find(|kind| kind.plural == plural).unwrap()
    }

    fn sent(plural: &str, object: &Value) -> String {
        match check_sent(object.as_object().unwrap(), &of(plural), Status::bad_request) {
            Ok(()) => String::new(),
            Err(status) => status.message().into(),
        }
    }

    #[test]
    fn built_in_kind_may_be_omitted_but_must_match() {
        for own in [json!({}), json!({"kind": null, "apiVersion": ""}), json!({"apiVersion": "/v1"})] {
            assert_eq!(sent("configmaps", &own), "");
        }
        for other in [
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            json!({"apiVersion": "x/v2"}),
            json!({"kind": "x"}),
        ] {
            let message = sent("configmaps", &other);
            assert!(message.contains("cannot be handled as a ConfigMap: "), "{message}");
        }
        assert_eq!(
            sent("events", &json!({"apiVersion": "events.k8s.io/v1"})),
            "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
        );
    }

    #[test]
    fn invalid_types_are_rejected() {
        assert!(sent("configmaps", &json!({"kind": 1})).starts_with("couldn't get version/kind"));
        assert_eq!(
            sent("configmaps", &json!({"apiVersion": "a/b/c"})),
            "unexpected GroupVersion string: a/b/c"
        );
    }
}

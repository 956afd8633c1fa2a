//! Validation of ConfigMaps and Secrets: keys, size and immutability.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::status::Cause;
use crate::wire::object::Object;

/// The maximum size of all values together, in bytes.
const LIMIT: usize = 1024 * 1024;
const KEY_LIMIT: usize = 253;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
     'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const IMMUTABLE: &str = "field is immutable when `immutable` is set";
const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(crate) fn config_map(object: &Object, before: Option<&Object>) -> Vec<Cause> {
    let mut causes = frozen(object, before, &["data", "binaryData"]);
    let (texts, bytes) = (entries(object, "data"), entries(object, "binaryData"));
    for (key, _) in texts.into_iter().flatten() {
        causes.extend(key_causes("data", key));
        if bytes.is_some_and(|bytes| bytes.contains_key(key)) {
            let field = format!("data[{key}]");
            causes.push(Cause::invalid_text(&field, key, "duplicate of key present in binaryData"));
        }
    }
    for (key, _) in bytes.into_iter().flatten() {
        causes.extend(key_causes("binaryData", key));
    }
    let texts = texts.into_iter().flatten().map(|(_, text)| text.as_str().map_or(0, str::len));
    let bytes = bytes.into_iter().flatten().map(|(_, bytes)| decoded_length(bytes));
    if texts.chain(bytes).sum::<usize>() > LIMIT {
        // The real server does not include a field here.
        causes.push(Cause::too_long("[]", LIMIT as u64));
    }
    causes
}

pub(crate) fn secret(object: &Object, before: Option<&Object>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = object.get("type").and_then(Value::as_str).unwrap_or("");
    if before.is_some_and(|before| before.get("type") != object.get("type")) {
        causes.push(Cause::invalid_text("type", kind, "field is immutable"));
    }
    causes.extend(frozen(object, before, &["data"]));
    let data = entries(object, "data");
    causes.extend(data.into_iter().flatten().flat_map(|(key, _)| key_causes("data", key)));
    if data.into_iter().flatten().map(|(_, bytes)| decoded_length(bytes)).sum::<usize>() > LIMIT {
        causes.push(Cause::too_long("data", LIMIT as u64));
    }
    causes.extend(of_type(kind, object, data));
    causes
}

fn of_type(kind: &str, object: &Object, data: Option<&Map<String, Value>>) -> Vec<Cause> {
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let missing = |keys: &[&str]| {
        let missing = keys.iter().filter(|key| !has(key));
        missing.map(|key| Cause::required(&format!("data[{key}]"), "")).collect()
    };
    match kind {
        "kubernetes.io/service-account-token" => {
            let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
            match annotations.and_then(|annotations| annotations.get(SERVICE_ACCOUNT)?.as_str()) {
                None | Some("") => {
                    vec![Cause::required(&format!("metadata.annotations[{SERVICE_ACCOUNT}]"), "")]
                }
                Some(_) => Vec::new(),
            }
        }
        "kubernetes.io/dockercfg" if has(".dockercfg") => no_json(".dockercfg", data),
        "kubernetes.io/dockercfg" => missing(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" if has(".dockerconfigjson") => no_json(".dockerconfigjson", data),
        "kubernetes.io/dockerconfigjson" => missing(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            missing(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.and_then(|data| data.get("ssh-privatekey")?.as_str()).unwrap_or("");
            if key.is_empty() { vec![Cause::required("data[ssh-privatekey]", "")] } else { Vec::new() }
        }
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

/// Reports an entry that does not contain a JSON object.
fn no_json(key: &str, data: Option<&Map<String, Value>>) -> Vec<Cause> {
    let text = data.and_then(|data| data.get(key)?.as_str()).unwrap_or("");
    let bytes = STANDARD.decode(text).unwrap_or_default();
    if serde_json::from_slice::<Option<Map<String, Value>>>(&bytes).is_ok() {
        return Vec::new();
    }
    vec![Cause::invalid(&format!("data[{key}]"), "\"<secret contents redacted>\"", "must be a JSON object")]
}

/// Reports changes of immutable fields, and of `immutable` itself.
fn frozen(object: &Object, before: Option<&Object>, fields: &[&str]) -> Vec<Cause> {
    let is_immutable = |object: &Object| object.get("immutable").and_then(Value::as_bool) == Some(true);
    let Some(before) = before.filter(|before| is_immutable(before)) else { return Vec::new() };
    let thawed = Some("immutable").filter(|_| !is_immutable(object));
    let changed = fields.iter().copied().filter(|field| before.get(*field) != object.get(*field));
    thawed.into_iter().chain(changed).map(|field| Cause::forbidden(field, IMMUTABLE)).collect()
}

fn entries<'a>(object: &'a Object, field: &str) -> Option<&'a Map<String, Value>> {
    object.get(field).and_then(Value::as_object)
}

/// Returns the decoded length of a base64 text, which was validated before.
fn decoded_length(bytes: &Value) -> usize {
    let text = bytes.as_str().unwrap_or("");
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn key_causes(field: &str, key: &str) -> Vec<Cause> {
    let mut complaints = Vec::new();
    if key.len() > KEY_LIMIT {
        complaints.push(format!("must be no more than {KEY_LIMIT} characters"));
    }
    if key.is_empty() || key.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"-_.".contains(&byte)) {
        complaints.push(KEY.into());
    }
    if key == "." || key.starts_with("..") {
        complaints.push("must not be '.' and must not start with '..'".into());
    }
    let field = format!("{field}[{key}]");
    complaints.iter().map(|detail| Cause::invalid_text(&field, key, detail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(causes: &[Cause]) -> Vec<String> {
        causes.iter().map(Cause::line).collect()
    }

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn config_keys_must_be_file_names() {
        for good in ["a", "A_b-c.d", ".a", "a..b", &"x".repeat(253)] {
            assert!(key_causes("data", good).is_empty(), "{good}");
        }
        for (bad, detail) in [
            (".", "must not be '.' and must not start with '..'"),
            ("..a", "must not be '.' and must not start with '..'"),
            (&"x".repeat(254), "must be no more than 253 characters"),
            ("", KEY),
            ("a/b", KEY),
        ] {
            assert_eq!(
                lines(&key_causes("data", bad)),
                [format!("data[{bad}]: Invalid value: {bad:?}: {detail}")]
            );
        }
    }

    #[test]
    fn size_limit_counts_decoded_bytes() {
        let half = STANDARD.encode(vec![0; LIMIT / 2]);
        let with = |rest: &str| {
            object(&json!({"data": {"a": "x".repeat(LIMIT / 2)}, "binaryData": {"b": half, "c": rest}}))
        };
        assert!(config_map(&with(""), None).is_empty());
        assert_eq!(
            lines(&config_map(&with("AA=="), None)),
            ["[]: Too long: may not be more than 1048576 bytes"]
        );
    }

    #[test]
    fn secret_type_requires_its_keys() {
        let missing =
            |kind: &str, data: Value| lines(&secret(&object(&json!({"type": kind, "data": data})), None));
        assert_eq!(missing("kubernetes.io/tls", json!({"tls.crt": ""})), ["data[tls.key]: Required value"]);
        assert_eq!(missing("kubernetes.io/basic-auth", json!({"username": ""})), [""; 0]);
        assert_eq!(
            missing("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
            ["data[ssh-privatekey]: Required value"]
        );
        assert_eq!(missing("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "e30="})), [""; 0]);
        assert_eq!(missing("kubernetes.io/dockercfg", json!({".dockercfg": "eA=="})).len(), 1);
    }
}

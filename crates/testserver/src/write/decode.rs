//! Decodes the bytes of a request to an object of the expected kind.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::schemas::kinds::kind::Kind;
use crate::status::Status;
use crate::wire::object::{excerpt, media_type, parse_json, type_name};
use crate::write::type_meta;

/// Rejects bodies that are not JSON. A body without a media type counts as JSON.
pub(crate) fn check_json(headers: &HeaderMap) -> Result<(), Status> {
    let whole = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let parameters = whole.split(';').skip(1).map(str::trim);
    let readable = parameters.filter(|one| !one.is_empty()).all(|one| one.contains('='));
    match media_type(headers) {
        "" if whole.trim().is_empty() => Ok(()),
        found if found.eq_ignore_ascii_case("application/json") && readable => Ok(()),
        _ => Err(Status::unsupported_body(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Parses a YAML body; JSON is also YAML. Only the first of several documents counts, and only the last
/// value of a repeated key. The error is the core of the message.
pub(crate) fn json_or_yaml(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    yaml_documents(&mut &*body).next().unwrap_or(Ok(Value::Null)).map_err(|error| format!("yaml: {error}"))
}

/// Parses the documents of a YAML stream. Empty documents are skipped.
pub(crate) fn yaml_documents(body: &mut &[u8]) -> impl Iterator<Item = Result<Value, String>> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::read_with_options(body, options).map(|read| read.map_err(|error| error.to_string()))
}

/// Converts a YAML body to JSON and updates the headers. Other bodies stay unchanged. `kind` is the
/// expected content.
///
/// # Errors
/// Returns BadRequest if the body is not YAML.
pub(crate) fn yaml_to_json(headers: &mut HeaderMap, body: Bytes, kind: &str) -> Result<Bytes, Status> {
    if !media_type(headers).eq_ignore_ascii_case("application/yaml") {
        return Ok(body);
    }
    let value = match json_or_yaml(&body).map_err(|detail| unrecognized(kind, &detail, &body))? {
        // An empty document is an empty object.
        Value::Null => Value::Object(Map::new()),
        value => value,
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(value.to_string().into())
}

/// The error for a body that is not an object.
fn unrecognized(kind: &str, detail: &str, body: &Bytes) -> Status {
    let shown = excerpt(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {detail} ({shown})"
    ))
}

pub(crate) fn object(body: &Bytes, kind: &Kind) -> Result<Map<String, Value>, Status> {
    let unrecognized = |detail: String| unrecognized(&kind.kind, &detail, body);
    let mut object = fields(body).map_err(unrecognized)?;
    let is_missing = |value: Option<&Value>| value.is_none_or(|kind| kind.is_null() || kind == "");
    if kind.rules.custom && is_missing(object.get("kind")) {
        return Err(unrecognized("Object 'Kind' is missing".into()));
    }
    type_meta::check_sent(&object, kind, unrecognized)?;
    read_metadata(&mut object, kind)?;
    Ok(object)
}

/// Returns the fields of a body in order to read its kind; null has no fields.
///
/// # Errors
/// Returns the message of the real server for a body without fields.
pub(crate) fn fields(body: &[u8]) -> Result<Map<String, Value>, String> {
    match parse_json(body)
        .map_err(|detail| format!("couldn't get version/kind; json parse error: {detail}"))?
    {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        other => Err(format!("couldn't get version/kind; the body is a JSON {}", type_name(&other))),
    }
}

pub(crate) fn read_metadata(object: &mut Map<String, Value>, kind: &Kind) -> Result<(), Status> {
    let (name, version) = (&kind.kind, &kind.version);
    crate::schemas::types::read_metadata(object, kind).map_err(|detail| {
        Status::bad_request(format!(
            "{name} in version \"{version}\" cannot be handled as a {name}: {detail}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn to_json(yaml: &'static str) -> Result<Value, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml; charset=utf-8"));
        let body = yaml_to_json(&mut headers, Bytes::from_static(yaml.as_bytes()), "ConfigMap")?;
        assert_eq!(media_type(&headers), "application/json");
        Ok(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn yaml_is_converted_to_json() {
        let value =
            to_json("a: {b: [1, 'two', yes, null]}\nc: |\n  x\n  y\nt: 2001-01-01\no: 017\n").unwrap();
        assert_eq!(
            value,
            json!({"a": {"b": [1, "two", true, null]}, "c": "x\ny\n", "t": "2001-01-01", "o": 15})
        );
        assert_eq!(to_json("a: 1\na: 2\n---\na: 3\n").unwrap(), json!({"a": 2}));
        assert_eq!(to_json("").unwrap(), json!({}));
        assert_eq!(to_json("<<: {a: 1}\n").unwrap(), json!({"a": 1}));
        assert_eq!(to_json("{\"a\":[1]}").unwrap(), json!({"a": [1]}));
        assert_eq!(to_json("x: &d {k: v}\ny: *d\n").unwrap(), json!({"x": {"k": "v"}, "y": {"k": "v"}}));
    }

    #[test]
    fn invalid_yaml_is_rejected_with_excerpt() {
        let status = to_json("metadata: [\n").unwrap_err();
        assert_eq!((status.code(), status.reason()), (400, "BadRequest"));
        let start = "the object provided is unrecognized (must be of type ConfigMap): yaml: ";
        assert!(status.message().starts_with(start), "{status}");
        assert!(status.message().ends_with(" (metadata: [\n)"), "{status}");
    }
}

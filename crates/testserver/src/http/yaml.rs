//! Converts JSON responses to YAML.

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::encoding::body::Body;

/// Converts a JSON response to YAML. Other responses stay unchanged. The complete body is read first.
///
/// # Cancel safety
/// Not cancel safe: a dropped call loses the response.
pub(crate) async fn to_yaml(response: Response<Body>) -> Response<Body> {
    let json = HeaderValue::from_static("application/json");
    if response.headers().get(header::CONTENT_TYPE) != Some(&json) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(collected) = body.collect().await else {
        // Unreachable, because faults break a body only after this step.
        return Response::from_parts(parts, Body::bytes(""));
    };
    let bytes = collected.to_bytes();
    let Ok(value) = serde_json::from_slice(&bytes) else {
        return Response::from_parts(parts, Body::bytes(bytes));
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    Response::from_parts(parts, Body::bytes(yaml(&value)))
}

/// Serialises as YAML with keys in alphabetical order, like the real server.
pub(crate) fn yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    // A JSON value always has a YAML form; an empty text avoids a panic.
    serde_saphyr::to_string_with_options(value, options).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_equals_the_yaml_of_the_real_server() {
        let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{},"time":"2026-11-21T09:36:33Z"},
            "data":{"b":"yes","c":"1067","d":"plain text"},"items":[{"a":1,"b":[true,null]}]}"#;
        assert_eq!(
            yaml(&serde_json::from_str(json).unwrap()),
            "apiVersion: v1\ndata:\n  b: \"yes\"\n  c: \"1067\"\n  d: plain text\nitems:\n- a: 1\n  b:\n  - true\n  - null\n\
             kind: ConfigMap\nmetadata:\n  labels: {}\n  time: \"2026-11-21T09:36:33Z\"\n"
        );
    }
}

//! Answers in another form than JSON.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::http::body::Body;

/// The same answer in YAML, if it is in JSON. A list is read as a whole first.
///
/// # Cancel safety
/// The answer is lost.
pub(crate) async fn to_yaml(answer: Response<Body>) -> Response<Body> {
    let json = HeaderValue::from_static("application/json");
    if answer.headers().get(header::CONTENT_TYPE) != Some(&json) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let Ok(collected) = body.collect().await else {
        // Only bodies that a fault cuts break, and those are cut later.
        return Response::from_parts(parts, Body::bytes(""));
    };
    let bytes = collected.to_bytes();
    let Some(yaml) = yaml(&bytes) else { return Response::from_parts(parts, Body::bytes(bytes)) };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    Response::from_parts(parts, Body::bytes(yaml))
}

/// Keys in alphabetical order, as the real server writes them.
fn yaml(json: &Bytes) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&value, options).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_written_as_the_real_server_writes_it() {
        let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":{},"time":"2026-11-21T09:36:33Z"},
            "data":{"b":"yes","c":"1067","d":"plain text"},"items":[{"a":1,"b":[true,null]}]}"#;
        assert_eq!(
            yaml(&Bytes::from(json)).unwrap(),
            "apiVersion: v1\ndata:\n  b: \"yes\"\n  c: \"1067\"\n  d: plain text\nitems:\n- a: 1\n  b:\n  - true\n  - null\n\
             kind: ConfigMap\nmetadata:\n  labels: {}\n  time: \"2026-11-21T09:36:33Z\"\n"
        );
    }
}

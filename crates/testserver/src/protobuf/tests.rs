//! Bodies as a client in Go would send them, written out field by field.

use serde_json::json;

use super::*;

/// A field of bytes.
fn sub(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short enough for one byte of length");
    assert!(length < 128);
    [&[number << 3 | 2, length], content].concat()
}

fn int(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Bytes {
    let names = [sub(1, api_version.as_bytes()), sub(2, kind.as_bytes())].concat();
    [MAGIC, &sub(1, &names), &sub(2, raw), &sub(3, b""), &sub(4, b"")].concat().into()
}

fn read(body: Bytes) -> Result<Value, Status> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let json = to_json(&mut headers, body)?;
    assert_eq!(media_type(&headers), "application/json");
    Ok(serde_json::from_slice(&json).expect("it is JSON now"))
}

#[test]
fn what_json_leaves_out_is_left_out() {
    // As Go writes it: fields that are no pointers are there even if they are empty.
    let metadata = [sub(1, b"one"), sub(2, b""), sub(3, b""), int(7, 0), sub(8, b"")].concat();
    let data = sub(2, &[sub(1, b"k"), sub(2, b"v")].concat());
    let config_map = read(body("v1", "ConfigMap", &[sub(1, &metadata), data].concat()));
    let expected =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "v"}});
    assert_eq!(config_map.unwrap(), expected);
}

#[test]
fn zero_behind_a_pointer_stays_and_inline_fields_stand_beside_the_others() {
    // An HTTP probe: the handler is inline in JSON, and its port is a number or a text.
    let http = [sub(1, b"/"), sub(2, &[int(1, 1), int(2, 0), sub(3, b"web")].concat())].concat();
    let probe = [sub(1, &sub(2, &http)), int(3, 9)].concat();
    let container = [sub(1, b"c"), sub(10, &probe)].concat();
    let pod = [sub(2, &[sub(2, &container), int(4, 0)].concat())].concat();
    let pod = read(body("v1", "Pod", &pod)).unwrap();
    assert_eq!(
        pod["spec"],
        json!({
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "timeoutSeconds": 9}}],
        })
    );
}

#[test]
fn times_have_the_digits_of_their_type() {
    let time = [int(1, 60), int(2, 0)].concat();
    let spec = [sub(1, b"me"), int(2, 15), sub(3, &time)].concat();
    let lease = read(body("coordination.k8s.io/v1", "Lease", &sub(2, &spec))).unwrap();
    let expected = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "1970-01-01T00:01:00.000000Z"});
    assert_eq!(lease["spec"], expected);
}

#[test]
fn options_of_a_delete_come_in_any_version() {
    let options = read(body("apps/v1", "DeleteOptions", &[int(1, 0), sub(4, b"Orphan")].concat())).unwrap();
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["propagationPolicy"], "Orphan");
}

#[test]
fn kinds_of_others_and_other_formats_are_left_alone() {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    let custom = body("shop.example.com/v1", "Widget", b"");
    assert_eq!(to_json(&mut headers, custom.clone()).unwrap(), custom);
    assert_eq!(media_type(&headers), MEDIA_TYPE);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    assert_eq!(to_json(&mut headers, custom.clone()).unwrap(), custom);
}

#[test]
fn bytes_that_are_no_protobuf_are_refused_and_never_panic() {
    assert_eq!(read(Bytes::from_static(b"{}")).unwrap_err().code(), 400);
    let whole = body("v1", "Pod", &sub(2, &sub(2, &sub(1, b"c"))));
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut bytes = whole.to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(MAGIC.len()..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(MAGIC.len()..=bytes.len()));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        let _ = to_json(&mut headers, bytes.into());
    }
}

#[test]
fn a_schema_within_itself_ends() {
    // 400 levels of `not`, each with its length in two bytes.
    let mut schema = Vec::new();
    for _ in 0..400 {
        let length = schema.len();
        let (low, high) = ((length & 0x7f) as u8 | 0x80, (length >> 7) as u8);
        schema = [&[226, 1, low, high], schema.as_slice()].concat();
    }
    assert_eq!(json::message("apiextensions/v1.JSONSchemaProps", &schema), Err(Malformed::Depth));
}

//! Bodies as a Go client would send them, written out field by field.

mod go;
mod hostile;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::*;

/// A field of bytes.
fn sub(number: u32, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(u64::from(number) << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn int(number: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value.cast_unsigned())].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn body(api_version: &str, kind: &str, raw: impl AsRef<[u8]>) -> Vec<u8> {
    let names = [sub(1, api_version), sub(2, kind)].concat();
    [envelope::PREFIX.to_vec(), sub(1, names), sub(2, raw), sub(3, ""), sub(4, "")].concat()
}

/// Decodes a body when this kind is expected.
fn read(body: &[u8], api_version: &str, kind: &str) -> Result<Value, Status> {
    super::read(body, &ExpectedBody::new(api_version, kind))
}

fn object(api_version: &str, kind: &str, raw: impl AsRef<[u8]>) -> Value {
    read(&body(api_version, kind, raw), api_version, kind).unwrap()
}

fn message_of(refused: Result<Value, Status>) -> String {
    let status = refused.unwrap_err();
    assert_eq!((status.code(), status.reason()), (400, "BadRequest"));
    let body: Value = serde_json::from_slice(&status.json()).unwrap();
    body["message"].as_str().unwrap().to_owned()
}

#[test]
fn fields_omitted_from_json_are_omitted() {
    // As Go writes it: fields that are not pointers are present even if they are empty.
    let metadata = [sub(1, "one"), sub(2, ""), sub(3, ""), int(7, 0), sub(8, "")].concat();
    let data = sub(2, [sub(1, "k"), sub(2, "v")].concat());
    let config_map = object("v1", "ConfigMap", [sub(1, metadata), data].concat());
    let expected =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "v"}});
    assert_eq!(config_map, expected);
}

#[test]
fn empty_object_has_required_json_fields() {
    let pod = object("v1", "Pod", "");
    assert_eq!(
        pod,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": null}, "status": {}})
    );
    let event = object("v1", "Event", "");
    assert_eq!((&event["eventTime"], &event["reportingComponent"]), (&Value::Null, &json!("")));
}

#[test]
fn pointer_to_zero_is_retained_and_inline_fields_are_merged() {
    // An HTTP probe: the handler is inline in JSON, and its port is a number or a text.
    let http = [sub(1, "/"), sub(2, [int(1, 1), int(2, 0), sub(3, "web")].concat())].concat();
    let probe = [sub(1, sub(2, http)), int(3, 9)].concat();
    let container = [sub(1, "c"), sub(10, probe)].concat();
    let pod = object("v1", "Pod", sub(2, [sub(2, container), int(4, 0)].concat()));
    let probe = json!({"httpGet": {"path": "/", "port": "web"}, "timeoutSeconds": 9});
    let containers = json!([{"name": "c", "livenessProbe": probe, "resources": {}}]);
    assert_eq!(pod["spec"], json!({"terminationGracePeriodSeconds": 0, "containers": containers}));
}

#[test]
fn times_have_digits_of_type_and_empty_time_is_year_1() {
    let time = [int(1, 60), int(2, 1_999)].concat();
    let spec = [sub(1, "me"), int(2, 15), sub(3, &time), sub(4, "")].concat();
    let lease = object("coordination.k8s.io/v1", "Lease", [sub(1, sub(8, time)), sub(2, spec)].concat());
    let expected = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "1970-01-01T00:01:00.000001Z",
        "renewTime": "0001-01-01T00:00:00.000000Z",
    });
    assert_eq!(lease["spec"], expected);
    assert_eq!(lease["metadata"], json!({"creationTimestamp": "1970-01-01T00:01:00Z"}));
}

#[test]
fn message_parts_are_joined_and_last_value_applies() {
    let raw = [sub(1, sub(1, "a")), sub(1, sub(3, "ns")), int(4, 0), sub(1, sub(1, "b")), int(4, 2)].concat();
    let config_map = object("v1", "ConfigMap", raw);
    assert_eq!(config_map["metadata"], json!({"name": "b", "namespace": "ns"}));
    assert_eq!(config_map["immutable"], true);
}

#[test]
fn packed_and_negative_numbers_are_read() {
    let groups = [varint(1), varint((-2i64).cast_unsigned()), varint(3)].concat();
    let context = [sub(4, groups), int(4, 5)].concat();
    let pod = object("v1", "Pod", sub(2, sub(14, context)));
    assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([1, -2, 3, 5]));
    let deployment = object("apps/v1", "Deployment", sub(2, int(1, -1)));
    assert_eq!(deployment["spec"]["replicas"], -1);
}

#[test]
fn invalid_utf8_is_replaced_as_on_real_server() {
    let data = sub(2, [sub(1, "k"), sub(2, b"a\xffb")].concat());
    assert_eq!(object("v1", "ConfigMap", data)["data"], json!({"k": "a\u{fffd}b"}));
}

#[test]
fn schema_may_be_schema_or_alternative_form() {
    let (text, limit) = (sub(5, "string"), 9u64 << 3 | 1);
    let properties = |name: &str, schema| sub(29, [sub(1, name), sub(2, schema)].concat());
    let dependency = |name: &str, of| sub(32, [sub(1, name), sub(2, of)].concat());
    let schema = [
        sub(8, sub(1, r#"{"a":1}"#)),                            // default
        [varint(limit), 2.0f64.to_le_bytes().to_vec()].concat(), // maximum
        sub(24, sub(1, &text)),                                  // items: a schema
        properties("list", sub(24, sub(2, &text))),              // items: a list of schemas
        properties("open", sub(30, int(1, 1))),                  // additionalProperties: true
        properties("closed", sub(30, int(1, 0))),                // additionalProperties: false
        properties("map", sub(30, sub(2, &text))),               // additionalProperties: a schema
        dependency("names", sub(2, "a")),
        dependency("schema", sub(1, &text)),
        dependency("nothing", Vec::new()),
    ];
    let version = sub(4, sub(1, schema.concat()));
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", sub(2, sub(7, version)));
    let string = json!({"type": "string"});
    assert_eq!(
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "default": {"a": 1}, "maximum": 2, "items": string,
            "properties": {
                "list": {"items": [string]}, "open": {"additionalProperties": true},
                "closed": {"additionalProperties": false}, "map": {"additionalProperties": string},
            },
            "dependencies": {"names": ["a"], "schema": string, "nothing": null},
        })
    );
}

#[test]
fn delete_options_accept_any_version() {
    let raw = [int(1, 0), sub(2, sub(1, "u")), sub(4, "Orphan")].concat();
    for version in ["v1", "apps/v1", "meta.k8s.io/v1", "shop.example.com/v3", "a/b/c", ""] {
        let options = read(&body(version, "DeleteOptions", &raw), "v1", "DeleteOptions").unwrap();
        assert_eq!(
            options,
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan"})
        );
    }
}

#[test]
fn body_without_type_gets_expected_type() {
    let untyped = [envelope::PREFIX, &sub(2, sub(1, sub(1, "a")))].concat();
    let config_map = read(&untyped, "v1", "ConfigMap").unwrap();
    assert_eq!((&config_map["apiVersion"], &config_map["kind"]), (&json!("v1"), &json!("ConfigMap")));
    let unusual = read(&body("a/b/c", "ConfigMap", ""), "v1", "ConfigMap").unwrap();
    assert_eq!(unusual["apiVersion"], "v1");
}

#[test]
fn malformed_envelopes_are_rejected() {
    for body in [b"".as_slice(), b"k8s\0", b"k8", b"{\"metadata\":{}}", &[b'a'; 40], b"k8s\0\xff\xff\xff"] {
        let message = message_of(read(body, "v1", "ConfigMap"));
        assert!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): "));
    }
    assert_eq!(message_of(read(b"k8s\0\xff", "v1", "DeleteOptions")), "unexpected EOF");
}

#[test]
fn malformed_objects_are_rejected() {
    for raw in [
        int(2, 5),
        int(1, 5),
        vec![0x12, 9, 1],
        [varint(4 << 3), vec![0xff; 11]].concat(),
        int(0, 1),
        varint(33 << 3 | 4),
        varint(33 << 3 | 6),
    ] {
        let message = message_of(read(&body("v1", "ConfigMap", raw), "v1", "ConfigMap"));
        assert!(message.starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "));
    }
}

#[test]
fn bodies_of_other_types_are_rejected() {
    let refused = |version, kind| message_of(read(&body(version, kind, ""), "v1", "ConfigMap"));
    for (version, kind) in [
        ("v2", "ConfigMap"),
        ("v1", "Bogus"),
        ("apps/v1", "ConfigMap"),
        ("v1", "Secret"),
        ("apps/v1", "Deployment"),
    ] {
        assert!(refused(version, kind).contains(" cannot be handled as a ConfigMap: "));
    }
    message_of(read(&body("v1", "ConfigMap", ""), "v1", "DeleteOptions"));
}

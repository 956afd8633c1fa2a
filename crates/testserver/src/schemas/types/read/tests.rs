//! Objects before and after decoding.

use super::*;
use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::absent;
use serde_json::json;

fn kind(name: &str) -> Kind {
    crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.kind == name).unwrap()
}

fn read_as(name: &str, object: Value) -> Result<(Value, Vec<String>), String> {
    let Value::Object(mut object) = object else { panic!("no object") };
    let kind = kind(name);
    let unknown = read(&kind.api_version(), &kind.kind, &mut object)?;
    Ok((Value::Object(object), unknown))
}

#[test]
fn empty_fields_are_dropped_unless_required_by_type() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "status": null,
        "metadata": {"name": "p", "labels": {}, "annotations": null, "creationTimestamp": null},
        "spec": {
            "nodeSelector": {"a": null}, "hostNetwork": false, "priority": 0, "securityContext": {},
            "volumes": [{"name": "v", "emptyDir": {"medium": ""}, "hostPath": null}],
            "containers": [{"name": "c", "args": ["x", null], "env": [], "resources": null}],
        },
    });
    let (read, unknown) = read_as("Pod", pod).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {},
        "spec": {
            "nodeSelector": {"a": ""}, "priority": 0, "securityContext": {},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "args": ["x", ""], "resources": {}}],
        },
    });
    assert_eq!(read, expected);
    assert!(unknown.is_empty());
    let template =
        json!({"metadata": {"managedFields": []}, "template": {"metadata": {"managedFields": []}}});
    let expected = json!({"metadata": {"managedFields": []}, "template": {"metadata": {}, "spec": {"containers": null}}});
    assert_eq!(read_as("PodTemplate", template).unwrap().0, expected);
    assert_eq!(read_as("Role", json!({"rules": []})).unwrap().0, json!({"metadata": {}, "rules": null}));
    let zeros = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    assert_eq!(absent(&kind("PodDisruptionBudget"), "status"), Some(zeros));
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let pod = json!({"zip": 1, "spec": {"containers": [{"name": "c", "foo": {"bar": 1}}],
        "volumes": [{"name": "v", "emptyDir": {"x": 1}}]}});
    let (read, unknown) = read_as("Pod", pod).unwrap();
    assert_eq!(unknown, ["spec.containers[0].foo", "spec.volumes[0].emptyDir.x", "zip"]);
    assert_eq!(read["spec"]["containers"], json!([{"name": "c", "resources": {}}]));
    assert_eq!(read["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
}

#[test]
fn type_errors_name_the_field() {
    let container = |field: &str, value: Value| json!({"spec": {"containers": [{field: value}]}});
    let at = |path: &str, found: &str, wanted: &str| {
        Err(format!("json: cannot unmarshal {found} into {path} of type {wanted}"))
    };
    for (object, detail) in [
        (json!({"spec": 5}), at("spec", "number", "object")),
        (json!({"spec": {"priority": 2_147_483_648u32}}), at("spec.priority", "number", "int32")),
        (
            json!({"spec": {"terminationGracePeriodSeconds": 1.0}}),
            at("spec.terminationGracePeriodSeconds", "number", "int64"),
        ),
        (container("env", json!({})), at("spec.containers[0].env", "object", "array")),
        (
            container("resources", json!({"requests": 5})),
            at("spec.containers[0].resources.requests", "number", "object"),
        ),
        (
            container("livenessProbe", json!({"httpGet": {"port": 80.5}})),
            at("spec.containers[0].livenessProbe.httpGet.port", "number", "int32 or string"),
        ),
        (json!({"status": {"startTime": 5}}), at("status.startTime", "number", "string")),
        (
            container("resources", json!({"requests": {"cpu": "1K"}})),
            Err(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .into(),
            ),
        ),
    ] {
        assert_eq!(read_as("Pod", object), detail);
    }
    let bytes = |value: Value| read_as("Secret", json!({"data": {"a": value}}));
    assert_eq!(bytes(json!("!!")), Err("illegal base64 data at input byte 0".into()));
    assert_eq!(bytes(json!([97, 98])), at("data.a", "array", "base64"));
    assert_eq!(bytes(Value::Null).unwrap().0["data"], json!({"a": ""}));
}

#[test]
fn values_get_stored_form() {
    let pod = json!({
        "metadata": {"creationTimestamp": "2026-01-01T02:00:00.5+02:00"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": 0.5, "memory": "1024Mi", "x": " 1 "}}}]},
    });
    let (read, _) = read_as("Pod", pod).unwrap();
    assert_eq!(read["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    let (none, _) =
        read_as("Pod", json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}})).unwrap();
    assert_eq!(none["metadata"], json!({}));
    let requests = json!({"cpu": "500m", "memory": "1Gi", "x": "1"});
    assert_eq!(read["spec"]["containers"][0]["resources"]["requests"], requests);
}

#[test]
fn schema_fields_accept_alternative_types() {
    let schema = json!({
        "items": [{"type": "string"}], "additionalProperties": false, "maximum": 12_345_678_901_234_567_890u64,
        "dependencies": {"a": ["b"], "c": {"minimum": 2.0}}, "default": {"any": [1.0]},
    });
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let (read, _) = read_as("CustomResourceDefinition", json!({"spec": {"versions": [version]}})).unwrap();
    let schema = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["items"], json!([{"type": "string"}]));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["dependencies"], json!({"a": ["b"], "c": {"minimum": 2}}));
    assert_eq!(schema["default"], json!({"any": [1.0]}));
    assert_eq!(schema["maximum"], json!(12_345_678_901_234_567_890f64));
}

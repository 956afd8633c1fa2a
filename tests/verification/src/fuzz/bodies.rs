//! Generates bodies: objects with random changes, patches, and invalid data.

use std::sync::LazyLock;

use bytes::Bytes;
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Returns a random item of a list that is not empty.
pub(super) fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.usize(..list.len())]
}

static OBJECTS: LazyLock<Vec<(&'static str, Value)>> = LazyLock::new(|| {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i", "env": [{"name": "E", "value": "\"v\""}], "ports": [{"containerPort": 1}]}]}});
    let deployment = json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template});
    let group = "rbac.authorization.k8s.io/v1";
    let rules = json!([{"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}]);
    let object = |version: &str, kind: &str, key: &str, value: Value| {
        let metadata = json!({"name": "a", "labels": {"app": "a"}, "annotations": {"x": "y"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, key: value})
    };
    vec![
        // The first object has the lowest priority, because most paths contain a namespace.
        ("/namespaces", object("v1", "Namespace", "spec", json!({"finalizers": ["kubernetes"]}))),
        ("/configmaps", object("v1", "ConfigMap", "data", json!({"k": "v"}))),
        ("/pods", object("v1", "Pod", "spec", template["spec"].clone())),
        (
            "/services",
            object("v1", "Service", "spec", json!({"ports": [{"port": 80}], "selector": {"app": "a"}})),
        ),
        ("/secrets", object("v1", "Secret", "stringData", json!({"k": "v"}))),
        ("/events", object("v1", "Event", "involvedObject", json!({"kind": "Pod", "namespace": "default"}))),
        ("/nodes", object("v1", "Node", "spec", json!({"unschedulable": true}))),
        ("/deployments", object("apps/v1", "Deployment", "spec", deployment)),
        ("/leases", object("coordination.k8s.io/v1", "Lease", "spec", json!({"holderIdentity": "h"}))),
        ("/widgets", object("example.com/v1", "Widget", "spec", json!({"size": 2, "list": [{"name": "x"}]}))),
        ("/customresourcedefinitions", crd()),
        ("/clusterroles", object(group, "ClusterRole", "rules", rules)),
        (
            "/poddisruptionbudgets",
            object("policy/v1", "PodDisruptionBudget", "spec", json!({"minAvailable": "50%"})),
        ),
        ("/jobs", object("batch/v1", "Job", "spec", json!({"template": template}))),
        ("/scale", object("autoscaling/v1", "Scale", "spec", json!({"replicas": 3}))),
        ("/binding", object("v1", "Binding", "target", json!({"kind": "Node", "name": "n"}))),
        ("/eviction", object("policy/v1", "Eviction", "deleteOptions", json!({"gracePeriodSeconds": 1}))),
    ]
});

fn crd() -> Value {
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true,
                "storage": true, "schema": schema, "subresources": {"status": {}, "scale": scale}}]}})
}

const WORDS: [&str; 24] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "labels",
    "finalizers",
    "managedFields",
    "spec",
    "status",
    "data",
    "metadata",
    "a",
    "app",
    "containers",
    "$patch",
    "replace",
    "x",
    "",
    "é\u{0}",
    "2026-11-21T02:25:40Z",
    "example.com/f",
    "1500m",
];

/// Returns any JSON.
fn any(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(..if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i64(-2..3).into(),
        3 => pick(rng, &[u64::MAX, 1 << 31, 1 << 53]).into(),
        4 => pick(rng, &[1e300, -0.5, 0.1]).into(),
        5 => pick(rng, &WORDS).into(),
        6 => (0..rng.u8(..4)).map(|_| any(rng, depth - 1)).collect(),
        _ => {
            Value::Object((0..rng.u8(..4)).map(|_| (pick(rng, &WORDS).into(), any(rng, depth - 1))).collect())
        }
    }
}

fn nested(rng: &mut Rng) -> Value {
    let levels = pick(rng, &[1, 2, 30, 60, 98, 110]);
    let is_list = rng.u8(..4) == 0;
    (0..levels).fold(json!("v"), |inner, _| if is_list { json!([inner]) } else { json!({"a": inner}) })
}

/// Changes a value within an object, an object itself, or a list.
fn change(rng: &mut Rng, value: &mut Value) {
    let descends = rng.u8(..10) < 8;
    match value {
        Value::Object(map) if descends && !map.is_empty() => {
            let at = rng.usize(..map.len());
            if let Some(inner) = map.values_mut().nth(at) {
                change(rng, inner);
            }
        }
        Value::Array(list) if descends && !list.is_empty() => {
            let at = rng.usize(..list.len());
            change(rng, &mut list[at]);
        }
        Value::Object(map) => change_fields(rng, map),
        value => *value = if rng.u8(..20) == 0 { nested(rng) } else { any(rng, 2) },
    }
}

fn change_fields(rng: &mut Rng, map: &mut Map<String, Value>) {
    let name = map.keys().nth(rng.usize(..map.len().max(1))).cloned();
    match (rng.u8(..3), name) {
        (0, Some(name)) => drop(map.remove(&name)),
        (1, Some(name)) => {
            let value = any(rng, 2);
            map.insert(name, value);
        }
        _ => {
            let value = any(rng, 2);
            map.insert(pick(rng, &WORDS).into(), value);
        }
    }
}

/// Returns an object for this path. Most objects are valid.
fn object(rng: &mut Rng, target: &str) -> Value {
    let path = target.split('?').next().unwrap_or_default();
    let mut fitting = OBJECTS.iter().rev().filter(|(part, _)| path.contains(part));
    let found = if rng.u8(..20) == 0 { None } else { fitting.next() };
    let mut object = found.unwrap_or_else(|| &OBJECTS[rng.usize(..OBJECTS.len())]).1.clone();
    let metadata = &mut object["metadata"];
    match rng.u8(..12) {
        0 => *metadata = json!({"generateName": "g-"}),
        1 => metadata["name"] = pick(rng, &["b", "c"]).into(),
        2 => metadata["finalizers"] = json!(["example.com/f"]),
        3 => metadata["managedFields"] = pick(rng, &["[]", "[{}]", "[{\"manager\":\"m\",\"operation\":\"Update\",\
            \"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:data\":{\".\":{},\"f:k\":{}}}}]"])
            .parse()
            .unwrap_or_default(),
        4 => metadata["annotations"]["x"] = "y".repeat(rng.usize(..5_000)).into(),
        _ => {}
    }
    if rng.u8(..3) == 0 {
        for _ in 0..rng.u8(1..3) {
            change(rng, &mut object);
        }
    }
    object
}

/// Returns a JSON patch that moves, copies and nests values. Half of its paths exist.
fn json_patch(rng: &mut Rng) -> Value {
    let path = |rng: &mut Rng| {
        let known =
            ["/metadata", "/metadata/labels", "/metadata/labels/app", "/spec", "/data", "/x", "/y", ""];
        let start = pick(rng, &known);
        format!("{start}{}", "/a".repeat(pick(rng, &[0, 0, 0, 0, 1, 30, 60, 99])))
    };
    let rounds = pick(rng, &[1, 2, 3, 10, 40]);
    let operations = (0..rounds).map(|_| {
        let op = pick(rng, &["add", "add", "remove", "replace", "move", "move", "copy", "test"]);
        let value = if rng.bool() { nested(rng) } else { any(rng, 1) };
        json!({"op": op, "path": path(rng), "from": path(rng), "value": value})
    });
    operations.collect()
}

/// Returns the body of a write.
pub(super) fn body(rng: &mut Rng, media_type: &str, target: &str) -> Bytes {
    let value = match rng.u8(..10) {
        0..6 if media_type.contains("json-patch") => json_patch(rng),
        9 if rng.bool() => any(rng, 3),
        8 => json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": rng.u8(..3),
            "propagationPolicy": pick(rng, &["Foreground", "Orphan", "Background"])}),
        _ => object(rng, target),
    };
    let text = value.to_string();
    match rng.u8(..80) {
        0 => text.get(..rng.usize(..=text.len())).unwrap_or_default().to_owned().into(),
        1 => text.replacen('{', "{\"metadata\":{\"name\":\"b\"},\"kind\":\"Pod\",", 1).into(),
        2 => Bytes::from([b"k8s\0".to_vec(), (0..rng.u8(..60)).map(|_| rng.u8(..)).collect()].concat()),
        3 => (0..rng.u8(..60)).map(|_| rng.u8(..)).collect(),
        4 => Bytes::new(),
        5 => {
            let depth = pick(rng, &[90, 118, 126, 4_000]);
            ["{\"spec\":".repeat(depth).as_str(), "1", &"}".repeat(depth)].concat().into()
        }
        _ => text.into(),
    }
}

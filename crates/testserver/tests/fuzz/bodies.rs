//! Generates bodies: objects with random changes, patches and invalid data.

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

pub(crate) fn deployment() -> Value {
    json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}},
           "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

pub(crate) fn crd_spec() -> Value {
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                 "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        "any": {"x-kubernetes-preserve-unknown-fields": true}}});
    json!({"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.size"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}}]})
}

/// Generates a valid object, patch or options object.
fn valid() -> impl Strategy<Value = Value> {
    let meta = json!({"name": "a", "namespace": "default", "labels": {"app": "a"}, "annotations": {"x": "y"},
        "finalizers": ["example.com/f"], "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}]});
    let bare = json!({"name": "b"});
    let objects = vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": bare, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}]}, "status": {"phase": "Running"}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": bare}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": bare, "spec": {"unschedulable": true}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": deployment()}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": {"size": 2, "list": [{"name": "x"}]}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": crd_spec()}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": bare, "spec": {"holderIdentity": "h"}}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}),
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 5, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}}),
        json!({"spec": {"replicas": 3}, "metadata": {"labels": {"b": null}}, "data": {"k": null}}),
        json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "copy", "from": "/spec", "path": "/spec/x"}]),
        json!([{"op": "move", "from": "/metadata", "path": "/data"}, {"op": "test", "path": "", "value": 1}]),
        json!([{"op": "remove", "path": "/metadata/name"}, {"op": "replace", "path": "", "value": []}]),
    ];
    select(objects)
}

/// Generates any JSON.
fn value() -> impl Strategy<Value = Value> {
    let number = select(vec![
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(-0.0),
        json!(0.5),
    ]);
    let text = prop_oneof![
        any::<String>(),
        select(vec!["", "a", "$patch", "2026-11-21T02:25:40Z", "\u{0}"]).prop_map(Into::into)
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        text.prop_map(Value::String)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![
            any::<String>(),
            select(vec!["name", "$patch", "f:x", "apiVersion", "kind", "metadata"]).prop_map(Into::into)
        ];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const FIELDS: [&str; 16] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
    "selfLink",
    "unknown",
];

/// Replaces one value within a JSON value. Values are numbered in pre-order.
fn set(value: &mut Value, index: &Index, new: Value) {
    let count = count_values(value);
    let mut left = index.index(count);
    replace(value, &mut left, &mut Some(new));
}

fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(count_values).sum(),
        Value::Array(list) => list.iter().map(count_values).sum(),
        _ => 0,
    }
}

fn replace(value: &mut Value, left: &mut usize, new: &mut Option<Value>) {
    if *left == 0 {
        if let Some(new) = new.take() {
            *value = new;
        }
        return;
    }
    *left -= 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Object(map) => Box::new(map.values_mut()),
        Value::Array(list) => Box::new(list.iter_mut()),
        _ => return,
    };
    for value in inner {
        if new.is_some() {
            replace(value, left, new);
        }
    }
}

fn changed() -> impl Strategy<Value = Value> {
    let anywhere = (valid(), any::<Index>(), value()).prop_map(|(mut object, index, new)| {
        set(&mut object, &index, new);
        object
    });
    let metadata = (valid(), select(FIELDS.to_vec()), value()).prop_map(|(mut object, field, new)| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(field.into(), new);
        }
        object
    });
    prop_oneof![4 => valid(), 3 => anywhere, 3 => metadata, 1 => value()]
}

/// Generates JSON patches that move, copy and nest values. Half of the paths exist in the objects.
pub(crate) fn json_patch() -> impl Strategy<Value = Value> {
    let path = || {
        let known = select(vec![
            "/metadata",
            "/metadata/labels",
            "/metadata/labels/app",
            "/spec",
            "/data",
            "/x",
            "/y",
        ]);
        (known, select(vec![0, 0, 0, 1, 2, 30, 60]))
            .prop_map(|(path, levels)| format!("{path}{}", "/a".repeat(levels)))
    };
    let op = select(vec!["add", "add", "remove", "replace", "move", "move", "copy", "test"]);
    let nested = select(vec![0usize, 1, 2, 30, 60, 100])
        .prop_map(|levels| (0..levels).fold(json!("v"), |inner, _| json!({"a": inner})));
    let operation = (op, path(), path(), nested)
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    vec(operation, 1..30).prop_map(Value::Array)
}

/// Generates the body of a request.
pub(crate) fn body() -> impl Strategy<Value = Bytes> {
    let text = changed().prop_map(|value| Bytes::from(value.to_string()));
    let truncated = (changed(), any::<Index>()).prop_map(|(value, at)| {
        let text = value.to_string();
        Bytes::from(text).split_to(at.index(value.to_string().len()))
    });
    let repeated = changed().prop_map(|value| {
        let text = value.to_string();
        Bytes::from(text.replacen('{', "{\"metadata\":{\"name\":\"b\"},\"kind\":\"Pod\",", 1))
    });
    let protobuf = vec(any::<u8>(), 0..60).prop_map(|junk| Bytes::from([b"k8s\0", junk.as_slice()].concat()));
    prop_oneof![
        12 => text,
        2 => Just(Bytes::new()),
        1 => truncated,
        1 => repeated,
        1 => vec(any::<u8>(), 0..60).prop_map(Bytes::from),
        1 => protobuf,
        1 => select(difficult()).prop_map(|(_, body)| body),
    ]
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    [open.repeat(depth).as_str(), inner, &close.repeat(depth)].concat()
}

/// Returns bodies that need deep recursion or much memory, with their media types.
pub(crate) fn difficult() -> Vec<(&'static str, Bytes)> {
    let types = [
        "application/json",
        "application/yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    let around = |inner: &str| {
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{{\"name\":\"a\"}},\"spec\":{{\"any\":{inner}}}}}"
        )
    };
    let mut bodies: Vec<String> = Vec::new();
    for depth in [90, 118, 124, 126, 4_000] {
        bodies.push(around(&nested("{\"a\":", "1", "}", depth)));
        bodies.push(around(&nested("[", "", "]", depth)));
        bodies.push(around(&nested("[{\"name\":\"x\",\"list\":", "[]", "}]", depth)));
        bodies.push(format!(
            "[{{\"op\":\"add\",\"path\":\"/metadata/x\",\"value\":{}}}]",
            nested("{\"a\":", "1", "}", depth)
        ));
        bodies.push(nested("- ", "x", "", depth));
    }
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        bomb += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "));
    }
    bodies.push(bomb);
    bodies.push("a: &a [*a]\n".into());
    bodies.push("? {[a]: b}\n: c\n---\n...\n--- !!binary x\n".into());
    bodies.into_iter().flat_map(|body| types.map(|media| (media, Bytes::from(body.clone())))).collect()
}

//! Compares the decoding of Kubernetes types with serde_json.

use std::fmt::Debug;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube_core::{DynamicObject, PartialObjectMeta};
use proptest::{prelude::*, sample::Index};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    difference, nearly_equal_values,
    text::{apply_damage, damages, write},
};
use crate::json::from_str;

fn meta(name: &str) -> Value {
    json!({
        "name": name, "namespace": "shop", "uid": "0b0a1f3e-33c0-4a0e-9b0c-a3b8f4a4c1de", "resourceVersion": "123456",
        "generation": 3, "creationTimestamp": "2026-11-21T22:49:46Z", "deletionTimestamp": null,
        "labels": {"app": "shop", "tier": "a/b"}, "annotations": {"note": "say \"hi\"\n\u{e9}"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}],
        "finalizers": ["a", "b", "c"],
        "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-21T22:49:46Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}}}}}],
    })
}

fn pod_spec() -> Value {
    let probe = json!({"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10});
    let container = json!({
        "name": "app", "image": "registry/app:1", "args": ["--port=80", "--x", "-v=2"], "command": [],
        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"name": "m", "containerPort": 9090, "hostPort": 1}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}}],
        "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}, "requests": {}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}],
        "livenessProbe": probe, "readinessProbe": {"tcpSocket": {"port": 80}, "failureThreshold": 3},
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 1000},
    });
    json!({
        "containers": [container, container, container], "initContainers": [container],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "projected": {"sources": [
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "b", "mode": 420}]}},
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 3607}}]}}],
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 300}, {"operator": "Exists"}],
        "nodeSelector": {"os": "linux"}, "terminationGracePeriodSeconds": 30, "nodeName": "n",
    })
}

fn pod() -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": meta("p"), "spec": pod_spec(), "status": {
        "phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "startTime": "2026-11-21T22:49:46Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T22:49:46Z"},
            {"type": "Initialized", "status": "True", "lastProbeTime": null},
            {"type": "PodScheduled", "status": "True", "observedGeneration": 1}],
        "containerStatuses": [{"name": "app", "ready": true, "restartCount": 2, "image": "i", "imageID": "j",
            "state": {"running": {"startedAt": "2026-11-21T22:49:46Z"}}, "lastState": {}}],
    }})
}

fn deployment() -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta("d"), "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "shop"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a", "b", "c"]}]},
        "template": {"metadata": {"labels": {"app": "shop"}, "name": "not the deployment"}, "spec": pod_spec()},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
    }, "status": {"replicas": 3, "conditions": [{"type": "Available", "status": "True"}]}})
}

fn service() -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": meta("s"), "spec": {
        "ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081, "nodePort": 30000}],
        "selector": {"app": "shop"}, "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}})
}

fn secret() -> Value {
    json!({"kind": "Secret", "apiVersion": "v1", "metadata": meta("s"), "type": "Opaque",
        "data": {"a": "aGVsbG8=", "b": "", "c": "aGVs\nbG8="}, "immutable": false})
}

fn definition() -> Value {
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": meta("w.example.com"),
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "w", "shortNames": ["x"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "default": {"a": [1, 2.5, null]}, "additionalProperties": true, "properties": {
                "a": {"type": "integer", "minimum": 1, "maximum": 2.5, "enum": [1, "b", null, {"c": []}]},
                "b": {"type": "array", "items": {"type": "string", "example": "x"}, "maxItems": 9},
                "c": {"anyOf": [{"type": "string"}, {"type": "integer"}], "x-kubernetes-int-or-string": true}}}}}]}})
}

/// A change of a value in an object. The object may become invalid.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Replace(Value),
    RepeatElements,
    AddUnknownField,
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    let other =
        proptest::sample::select(vec![json!(null), json!(7), json!("x"), json!([]), json!({}), json!(-1.5)]);
    let change = prop_oneof![
        4 => Just(Change::Remove),
        1 => other.prop_map(Change::Replace),
        2 => Just(Change::RepeatElements),
        2 => Just(Change::AddUnknownField),
    ];
    proptest::collection::vec((any::<Index>(), change), 0..8)
}

/// Collects the paths of a value and of all nested values, as JSON pointers.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Array(elements) => {
            elements
                .iter()
                .enumerate()
                .for_each(|(at, element)| paths(element, &format!("{path}/{at}"), found));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                paths(value, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

fn change(mut object: Value, changes: Vec<(Index, Change)>) -> Value {
    for (at, change) in changes {
        let mut found = Vec::new();
        paths(&object, "", &mut found);
        let value = object.pointer_mut(&found[at.index(found.len())]).unwrap();
        match (change, value) {
            (Change::Replace(other), value) => *value = other,
            (Change::Remove, Value::Object(fields)) => {
                let name = fields.keys().nth(at.index(fields.len().max(1))).cloned();
                name.and_then(|name| fields.remove(&name));
            }
            (Change::Remove, Value::Array(elements)) => drop(elements.pop()),
            (Change::RepeatElements, Value::Array(elements)) => elements.extend_from_within(..),
            (Change::AddUnknownField, Value::Object(fields)) => {
                fields.insert("unknown".to_owned(), json!([[], {"a": [1, [2]]}, "x"]));
            }
            _ => {}
        }
    }
    object
}

fn check_same<K: DeserializeOwned + PartialEq + Debug>(text: &str) {
    difference::<K>(text, K::eq).unwrap();
}

/// Panics if the results differ by more than the rounding of floats.
fn check_nearly_same<K: DeserializeOwned + Serialize + Debug>(text: &str) {
    let value = |object: &K| serde_json::to_value(object).unwrap();
    difference::<K>(text, |expected, actual| nearly_equal_values(&value(expected), &value(actual))).unwrap();
}

#[test]
fn objects_decode_like_serde_json() {
    let text = |object: Value| write(&object, false, None);
    from_str::<Pod>(&text(pod())).unwrap();
    from_str::<Deployment>(&text(deployment())).unwrap();
    from_str::<Service>(&text(service())).unwrap();
    from_str::<CustomResourceDefinition>(&text(definition())).unwrap();
}

#[test]
fn pod_lists_have_exact_capacity() {
    let mut doubled = pod();
    doubled["spec"]["tolerations"].as_array_mut().unwrap().extend_from_within(..);
    let pod: Pod = from_str(&write(&doubled, true, None)).unwrap();
    fn exact<T>(list: &Option<Vec<T>>) {
        assert!(list.as_ref().is_some_and(|list| !list.is_empty() && list.capacity() == list.len()));
    }
    exact(&pod.metadata.owner_references);
    exact(&pod.metadata.finalizers);
    exact(&pod.metadata.managed_fields);
    let (spec, status) = (pod.spec.unwrap(), pod.status.unwrap());
    assert_eq!((spec.containers.capacity(), spec.containers.len()), (3, 3));
    exact(&spec.init_containers);
    exact(&spec.volumes);
    exact(&spec.tolerations);
    for container in &spec.containers {
        exact(&container.args);
        exact(&container.ports);
        exact(&container.env);
        exact(&container.volume_mounts);
    }
    let projected = spec.volumes.unwrap().pop().unwrap().projected.unwrap();
    exact(&projected.sources);
    exact(&status.conditions);
    exact(&status.container_statuses);
}

proptest! {
    #[test]
    fn pods_match_serde_json(changes in changes(), pretty in any::<bool>(), damages in damages()) {
        let text = apply_damage(write(&change(pod(), changes), pretty, None), &damages);
        check_same::<Pod>(&text);
        check_nearly_same::<PartialObjectMeta<Pod>>(&text);
        check_nearly_same::<DynamicObject>(&text);
    }

    #[test]
    fn deployments_services_and_secrets_match_serde_json(changes in changes(), pretty in any::<bool>(), damages in damages()) {
        let text = |object| apply_damage(write(&change(object, changes.clone()), pretty, None), &damages);
        check_same::<Deployment>(&text(deployment()));
        check_same::<Service>(&text(service()));
        check_same::<Secret>(&text(secret()));
    }

    #[test]
    fn resource_definitions_match_serde_json(changes in changes(), escape in any::<bool>(), damages in damages()) {
        let text = write(&change(definition(), changes), false, escape.then_some('e'));
        check_nearly_same::<CustomResourceDefinition>(&apply_damage(text, &damages));
    }
}

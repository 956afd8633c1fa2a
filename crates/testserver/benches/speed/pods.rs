//! Realistic Pods with owners, labels, containers, probes, environments, volumes and a status.

use bytes::Bytes;
use serde_json::{Value, json};

/// Placeholders for the number of a Pod and of a change.
const NUMBER: &str = "@number@";
const CHANGE: &str = "@change@";

pub(crate) const SMALL: usize = 1024;
pub(crate) const LARGE: usize = 10 * 1024;

/// The JSON of a Pod with placeholders.
#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Number,
    Change,
}

/// Returns the name of a Pod.
pub(crate) fn name(number: usize) -> String {
    format!("web-7d4b9c6f5-{number:06}")
}

impl Template {
    /// Creates a template of a Pod with about this number of bytes of JSON.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut containers = 0;
        let mut variables = 0;
        let mut pod = pod(1, 0);
        while pod.to_string().len() + 60 < bytes {
            variables += 1;
            containers = 1 + variables / 20;
            pod = self::pod(containers, variables);
        }
        debug_assert!(containers <= 8);
        Self::parse(&pod.to_string())
    }

    /// Creates a template of a merge patch of the status.
    pub(crate) fn status_patch() -> Self {
        Self::parse(&json!({"status": status(1)}).to_string())
    }

    fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        for part in text.split_inclusive('@') {
            match part {
                "number@" => parts.push(Part::Number),
                "change@" => parts.push(Part::Change),
                text => parts.push(Part::Text(text.trim_end_matches('@').to_owned())),
            }
        }
        Self(parts)
    }

    /// Returns the Pod with this number after this change.
    pub(crate) fn body(&self, number: usize, change: usize) -> Bytes {
        let (number, change) = (format!("{number:06}"), format!("{change:06}"));
        let parts: Vec<&str> = self.0.iter().map(|part| part.text(&number, &change)).collect();
        parts.concat().into()
    }
}

impl Part {
    fn text<'a>(&'a self, number: &'a str, change: &'a str) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Number => number,
            Self::Change => change,
        }
    }
}

fn pod(containers: usize, variables: usize) -> Value {
    let each = variables.div_ceil(containers.max(1));
    let containers: Vec<Value> =
        (0..containers).map(|at| container(at, each.min(variables.saturating_sub(at * each)))).collect();
    let count = containers.len();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-7d4b9c6f5-{NUMBER}"), "namespace": "default", "generateName": "web-7d4b9c6f5-",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "shard": format!("s-{NUMBER}")},
            "annotations": {"example.com/revision": CHANGE},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5",
                "uid": format!("7be2a4c1-93a5-4f0e-8a55-1d2c3b{NUMBER}"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": containers, "nodeName": format!("node-{NUMBER}"), "serviceAccountName": "web",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "volumes": [{"name": "config", "configMap": {"name": "web-config", "defaultMode": 420}}],
        },
        "status": status(count),
    })
}

fn container(at: usize, variables: usize) -> Value {
    let variable = |i: usize| {
        if i % 4 == 3 {
            json!({"name": format!("SECRET_{i}"), "valueFrom": {"secretKeyRef": {"name": "web", "key": format!("key-{i}")}}})
        } else {
            json!({"name": format!("SETTING_{i}"), "value": format!("https://backend-{i}.shop.svc:8443/{NUMBER}?x=\"{i}\"")})
        }
    };
    let mut container = json!({
        "name": format!("c{at}"), "image": format!("registry.example.com/shop/web-{at}:v1.{at}.0"),
        "ports": [{"name": "http", "containerPort": 8080 + at, "protocol": "TCP"}],
    });
    if variables > 0 {
        container["env"] = (0..variables).map(variable).collect();
        container["resources"] =
            json!({"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m"}});
        container["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
            "periodSeconds": 10, "failureThreshold": 3});
        container["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/web", "readOnly": true}]);
    }
    container
}

fn status(containers: usize) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T02:25:40Z"});
    let container = |at: usize| {
        json!({"name": format!("c{at}"), "ready": true, "restartCount": 0, "started": true,
            "image": format!("registry.example.com/shop/web-{at}:v1.{at}.0"),
            "state": {"running": {"startedAt": "2026-11-21T02:25:40Z"}}})
    };
    json!({
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": format!("10.1.{CHANGE}"),
        "conditions": [condition("Ready")],
        "containerStatuses": (0..containers.min(1)).map(container).collect::<Vec<_>>(),
    })
}

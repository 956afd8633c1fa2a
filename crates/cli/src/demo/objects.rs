//! The example data: a shop with Deployments and Pods, large objects, and an operator with a service account.

use k8s_openapi::api::core::v1::Pod;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_testserver::Server;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::error::CliError;

/// The Deployments of the shop, and their numbers of Pods.
const APPS: [(&str, usize); 6] =
    [("web", 60), ("checkout", 40), ("catalog", 40), ("search", 30), ("payments", 20), ("batch", 10)];
/// The number of nodes.
const NODES: usize = 10;
/// The number of Secrets and ConfigMaps that a package manager leaves behind.
const RELEASES: usize = 20;
/// The length of the value in such a Secret.
const RELEASE_BYTES: usize = 30_000;

/// Returns the names of all Pods of the shop.
pub(super) fn pod_names() -> Vec<String> {
    APPS.iter().flat_map(|(app, count)| (0..*count).map(move |number| pod_name(app, number))).collect()
}

/// Returns the names of all nodes.
pub(super) fn node_names() -> Vec<String> {
    (0..NODES).map(|number| format!("node-{number}")).collect()
}

fn pod_name(app: &str, number: usize) -> String {
    format!("{app}-7d9c5b8f4-{number:05x}")
}

/// Creates all objects. Each part of an object has the field manager that writes it in a cluster.
pub(super) async fn create(server: &Server, client: &Client) -> Result<(), CliError> {
    let apply = |object: Value, manager: &str| {
        let applied: Result<Value, _> = server.apply(&object, manager);
        applied.map(drop).map_err(|status| CliError::Command(Box::new(status)))
    };
    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}), "kubectl")?;
    for name in node_names() {
        apply(node(&name), "kubelet")?;
        apply(lease(&name), "kubelet")?;
    }
    for (app, count) in APPS {
        apply(deployment(app, count), "kubectl")?;
        apply(config_map(app), "helm")?;
        for number in 0..count {
            apply(pod(app, number), "kube-controller-manager")?;
        }
    }
    for number in 0..RELEASES {
        apply(release(number), "helm")?;
    }
    for object in service_account() {
        apply(object, "kubectl")?;
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
    for (number, name) in pod_names().iter().enumerate() {
        let status = Patch::Merge(json!({"status": pod_status(number)}));
        pods.patch_status(name, &params, &status)
            .await
            .map_err(|error| CliError::request(format!("write the status of the Pod {name}"), error))?;
    }
    Ok(())
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
    })
}

fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
    })
}

fn deployment(app: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": app, "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": pod_spec(app, 0)},
        },
    })
}

fn config_map(app: &str) -> Value {
    let settings: String = (0..40).map(|line| format!("setting.{line} = value of {app}\n")).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{app}-config"), "namespace": NAMESPACE},
        "data": {"app.properties": settings},
    })
}

/// A Secret as package managers create it for each release. It is large, and few programs read it.
fn release(number: usize) -> Value {
    let text: String =
        (0..RELEASE_BYTES).map(|index| char::from(b'a' + ((index * 7 + number) % 26) as u8)).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {
            "name": format!("sh.helm.release.v1.web.v{number}"), "namespace": NAMESPACE,
            "labels": {"owner": "helm", "status": "superseded"},
        },
        "stringData": {"release": text},
    })
}

fn pod(app: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(app, number), "namespace": NAMESPACE,
            "labels": {"app": app, "pod-template-hash": "7d9c5b8f4"},
            "annotations": {"checksum/config": format!("{:064x}", number * 7919), "prometheus.io/scrape": "true"},
        },
        "spec": pod_spec(app, number),
    })
}

fn pod_spec(app: &str, number: usize) -> Value {
    let names = ["LOG_LEVEL", "HTTP_PORT", "DATABASE_URL", "CACHE_SIZE_MB", "REGION", "MAX_CONNECTIONS"];
    let env: Vec<_> =
        names.iter().map(|name| json!({"name": name, "value": format!("{app}-value")})).collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/{app}/{name}:1.4.2"), "env": env,
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
        })
    };
    json!({
        "nodeName": format!("node-{}", number % NODES),
        "containers": [container("app"), container("proxy")],
        "volumes": [{"name": "config", "configMap": {"name": format!("{app}-config")}}],
    })
}

fn pod_status(number: usize) -> Value {
    let conditions: Vec<_> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-05T10:00:00Z"}))
        .collect();
    let containers: Vec<_> = ["app", "proxy"]
        .iter()
        .map(|name| {
            json!({
                "name": name, "image": format!("registry.example/{name}:1.4.2"), "imageID": "sha256:0", "ready": true,
                "restartCount": 0, "started": true, "state": {"running": {"startedAt": "2026-01-05T10:00:00Z"}},
            })
        })
        .collect();
    json!({
        "phase": "Running", "podIP": format!("10.0.0.{}", number % 250 + 1), "startTime": "2026-01-05T10:00:00Z",
        "conditions": conditions, "containerStatuses": containers,
    })
}

/// An operator that may watch Pods and ConfigMaps of the shop, but not Secrets.
fn service_account() -> Vec<Value> {
    let metadata = json!({"name": "operator", "namespace": NAMESPACE});
    let group = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list", "watch"]}],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "operator"}},
                "template": {
                    "metadata": {"labels": {"app": "operator"}},
                    "spec": {
                        "serviceAccountName": "operator",
                        "containers": [{"name": "operator", "image": "registry.example/operator:1"}],
                    },
                },
            },
        }),
    ]
}

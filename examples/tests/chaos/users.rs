//! The random actions of users, and of the controllers of a cluster.

use kube_testserver::Server;
use serde_json::{Value, json};

use crate::{CHILDREN, NAMESPACE, SITE};

/// The names of sites. Few names, so that most actions affect an existing site.
const NAMES: [&str; 2] = ["a", "b"];

/// Performs a random action. An action that is impossible has no effect.
pub(crate) fn act(server: &Server, rng: &mut fastrand::Rng) {
    let name = NAMES[rng.usize(..NAMES.len())];
    let spec = json!({"html": format!("page {}", rng.u8(..4)), "replicas": rng.u8(1..4)});
    let child = CHILDREN[rng.usize(..CHILDREN.len())];
    match rng.u8(..14) {
        0..=3 => create(server, SITE, name, json!({ "spec": spec })),
        4..=5 => patch(server, SITE, name, &json!({ "spec": spec })),
        6..=7 => drop(server.delete_untyped(SITE.0, SITE.1, Some(NAMESPACE), name)),
        8 => report_pods(server, name),
        9 => patch(server, CHILDREN[1], name, &json!({"spec": {"replicas": 7}})),
        // An object of a user blocks the name for some time.
        10..=11 => create(server, child, name, foreign(child.1)),
        _ => remove_foreign(server),
    }
}

fn create(server: &Server, (api_version, kind): (&str, &str), name: &str, mut object: Value) {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "namespace": NAMESPACE});
    let _ = server.create::<Value>(&object);
}

fn patch(server: &Server, (api_version, kind): (&str, &str), name: &str, patch: &Value) {
    let _ = server.patch_untyped(api_version, kind, Some(NAMESPACE), name, patch);
}

/// Returns an object that no site owns, without its metadata.
fn foreign(kind: &str) -> Value {
    let labels = json!({"app": "foreign"});
    let container = json!({"name": "foreign", "image": "foreign:1"});
    match kind {
        "ConfigMap" => json!({"data": {"foreign": "true"}}),
        "Service" => json!({"spec": {"selector": labels, "ports": [{"port": 80}]}}),
        _ => json!({"spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }}),
    }
}

/// Deletes all objects that no site owns.
fn remove_foreign(server: &Server) {
    for (kind, name) in CHILDREN.into_iter().flat_map(|kind| NAMES.map(|name| (kind, name))) {
        let object = server.get_untyped(kind.0, kind.1, Some(NAMESPACE), name).unwrap_or_default();
        let metadata = &object["metadata"];
        if metadata["ownerReferences"].is_null() && metadata["labels"].is_null() {
            let _ = server.delete_untyped(kind.0, kind.1, Some(NAMESPACE), name);
        }
    }
}

/// Reports all Pods of a Deployment as available, like the controller of Deployments.
fn report_pods(server: &Server, name: &str) {
    let (api_version, kind) = CHILDREN[1];
    let Ok(mut deployment) = server.get_untyped(api_version, kind, Some(NAMESPACE), name) else { return };
    deployment["status"] = json!({
        "availableReplicas": deployment["spec"]["replicas"],
        "replicas": deployment["spec"]["replicas"],
        "readyReplicas": deployment["spec"]["replicas"],
        "observedGeneration": deployment["metadata"]["generation"],
    });
    let _ = server.update_status::<Value>(&deployment);
}

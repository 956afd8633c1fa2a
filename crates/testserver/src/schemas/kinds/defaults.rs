//! Defaults: only the fields that programs select by or read. This is not the complete defaulting of
//! Kubernetes, and specs are not validated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::wire::object::metadata_mut;

pub(crate) fn object_mut<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    parent.get_mut(key).and_then(Value::as_object_mut)
}

pub(crate) fn fill(parent: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (key, value) in defaults {
        if parent.get(*key).is_none_or(Value::is_null) {
            parent.insert((*key).into(), value.clone());
        }
    }
}

/// Sets the defaults of the spec, on every write of the main resource.
pub(crate) fn spec(kind: &Kind, object: &mut Map<String, Value>) {
    if kind.is_pod() {
        pod(object);
    }
    if kind.is_service() {
        crate::schemas::kinds::services::spec(object);
    }
    crate::schemas::kinds::workloads::spec(kind, object);
    crate::schemas::kinds::cluster::spec(kind, object);
    if (kind.group.as_str(), kind.plural.as_str()) == ("coordination.k8s.io", "leases") {
        fill(object, &[("spec", json!({}))]);
    }
    if kind.is_event() {
        crate::schemas::kinds::events::complete(object);
    }
    if kind.group.is_empty() && kind.kind == "Secret" {
        secret(object);
    }
    if kind.is_namespace() {
        let name = crate::wire::object::meta(object, "name").to_owned();
        let labels = metadata_mut(object).entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
    }
}

/// Moves `stringData` to `data`, encoded as base64.
fn secret(object: &mut Map<String, Value>) {
    fill(object, &[("type", json!("Opaque"))]);
    let Some(Value::Object(texts)) = object.remove("stringData") else { return };
    let data = object.entry("data").or_insert_with(|| json!({}));
    let texts =
        texts.into_iter().filter_map(|(key, text)| Some((key, STANDARD.encode(text.as_str()?).into())));
    if let Some(data) = data.as_object_mut() {
        data.extend(texts);
    }
}

fn pod(object: &mut Map<String, Value>) {
    let Some(spec) = object_mut(object, "spec") else { return };
    fill(spec, &[("enableServiceLinks", json!(true))]);
    pod_spec(spec);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            let Some(resources) = object_mut(container, "resources") else { continue };
            // A limit without a request is also the request.
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else { continue };
            fill(resources, &[("requests", json!({}))]);
            if let Some(requests) = object_mut(resources, "requests") {
                limits.into_iter().for_each(|(name, limit)| fill(requests, &[(&name, limit)]));
            }
        }
    }
}

/// Sets the defaults of a pod spec, which pod templates share.
pub(crate) fn pod_spec(spec: &mut Map<String, Value>) {
    fill(
        spec,
        &[
            ("restartPolicy", json!("Always")),
            ("terminationGracePeriodSeconds", json!(30)),
            ("dnsPolicy", json!("ClusterFirst")),
            ("securityContext", json!({})),
            ("schedulerName", json!("default-scheduler")),
        ],
    );
    // The second name is deprecated.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(account) = spec.get(from).cloned() {
            fill(spec, &[(to, account)]);
        }
    }
    for volume in items(spec, "volumes") {
        if volume.len() == 1 {
            fill(volume, &[("emptyDir", json!({}))]);
        }
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if let Some(source) = object_mut(volume, source) {
                fill(source, &[("defaultMode", json!(0o644))]);
            }
        }
        for item in object_mut(volume, "downwardAPI").into_iter().flat_map(|source| items(source, "items")) {
            if let Some(field) = object_mut(item, "fieldRef") {
                fill(field, &[("apiVersion", json!("v1"))]);
            }
        }
        let template = object_mut(volume, "ephemeral").and_then(|of| object_mut(of, "volumeClaimTemplate"));
        if let Some(claim) = template.and_then(|template| object_mut(template, "spec")) {
            fill(claim, &[("volumeMode", json!("Filesystem"))]);
        }
    }
    let on_host = spec.get("hostNetwork").is_some_and(|on| *on == true);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            self::container(container);
            for port in items(container, "ports").filter(|_| on_host) {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                fill(port, &[("hostPort", number)]);
            }
        }
    }
}

/// Returns the objects of a list.
pub(crate) fn items<'a>(
    parent: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = parent.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// An image with the tag `latest` or without a tag is always pulled.
fn pull_policy(container: &Map<String, Value>) -> &'static str {
    let image = container.get("image").and_then(Value::as_str).unwrap_or("");
    let name = image.rsplit('/').next().unwrap_or("");
    let tagged = name.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    if tagged { "IfNotPresent" } else { "Always" }
}

fn container(container: &mut Map<String, Value>) {
    let pulled = pull_policy(container);
    fill(
        container,
        &[
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
            ("imagePullPolicy", json!(pulled)),
        ],
    );
    items(container, "ports").for_each(|port| fill(port, &[("protocol", json!("TCP"))]));
    for variable in items(container, "env") {
        if let Some(field) = object_mut(variable, "valueFrom").and_then(|from| object_mut(from, "fieldRef")) {
            fill(field, &[("apiVersion", json!("v1"))]);
        }
    }
    for handler in ["postStart", "preStop"] {
        let handler = object_mut(container, "lifecycle").and_then(|lifecycle| object_mut(lifecycle, handler));
        if let Some(get) = handler.and_then(|handler| object_mut(handler, "httpGet")) {
            fill(get, &[("path", json!("/")), ("scheme", json!("HTTP"))]);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = object_mut(container, probe) else { continue };
        let numbers =
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)];
        fill(probe, &numbers.map(|(key, number)| (key, json!(number))));
        if let Some(get) = object_mut(probe, "httpGet") {
            fill(get, &[("path", json!("/")), ("scheme", json!("HTTP"))]);
        }
    }
}

/// Returns the quality of service of a Pod, which depends on the CPU and memory of its containers.
fn qos_class(pod: &Map<String, Value>) -> &'static str {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let containers =
        ["initContainers", "containers"].iter().filter_map(|list| spec[list].as_array()).flatten();
    let (mut is_guaranteed, mut is_best_effort) = (true, true);
    for container in containers {
        for name in ["cpu", "memory"] {
            let (limit, request) =
                (&container["resources"]["limits"][name], &container["resources"]["requests"][name]);
            is_best_effort &= limit.is_null() && request.is_null();
            is_guaranteed &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (is_best_effort, is_guaranteed) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}

/// Sets the status of a new object. The status that the client sent is ignored, except for nodes.
pub(crate) fn status(kind: &Kind, object: &mut Map<String, Value>) {
    let start = match (kind.rules.custom, kind.kind.as_str()) {
        (true, _) => None,
        (_, "Pod") => Some(json!({"phase": "Pending", "qosClass": qos_class(object)})),
        (_, "Namespace") => Some(json!({"phase": "Active"})),
        (_, "CustomResourceDefinition") => Some(crate::schemas::crd::defaults::status(object)),
        (_, "PersistentVolume" | "PersistentVolumeClaim") => Some(json!({"phase": "Pending"})),
        (_, "Node") => object.remove("status").or_else(|| crate::schemas::types::absent(kind, "status")),
        _ => crate::schemas::types::absent(kind, "status"),
    };
    object.remove("status");
    if let Some(status) = start {
        object.insert("status".into(), status);
    }
    if kind.is_namespace() {
        object.insert("spec".into(), json!({"finalizers": ["kubernetes"]}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(kind: &str, object: Value) -> Value {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|known| known.kind == kind).unwrap();
        let Value::Object(mut object) = object else { panic!("no object") };
        spec(&kind, &mut object);
        Value::Object(object)
    }

    #[test]
    fn ports_probes_and_volumes_of_pods_get_defaults() {
        let container =
            json!({"name": "c", "ports": [{"containerPort": 1}], "readinessProbe": {"httpGet": {"port": 1}}});
        let spec = json!({
            "containers": [container], "serviceAccountName": "robot",
            "volumes": [{"name": "a"}, {"name": "b", "secret": {}}]
        });
        let spec = defaulted("Pod", json!({"metadata": {}, "spec": spec}))["spec"].clone();
        let container = &spec["containers"][0];
        assert_eq!(container["ports"], json!([{"containerPort": 1, "protocol": "TCP"}]));
        let probe = json!({
            "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3
        });
        assert_eq!(container["readinessProbe"], probe);
        let volumes = json!([{"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"defaultMode": 420}}]);
        assert_eq!((&spec["volumes"], &spec["serviceAccount"]), (&volumes, &json!("robot")));
    }

    #[test]
    fn secret_stores_bytes_and_gets_type() {
        let secret =
            defaulted("Secret", json!({"metadata": {}, "data": {"a": "eA=="}, "stringData": {"b": "open"}}));
        assert_eq!(secret, json!({"metadata": {}, "type": "Opaque", "data": {"a": "eA==", "b": "b3Blbg=="}}));
    }
}

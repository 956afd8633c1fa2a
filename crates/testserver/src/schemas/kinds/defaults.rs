//! Defaults: `defaults.txt` contains the defaults of single fields, and functions set the others.

use std::collections::HashMap;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::{Base, Form, Shape, Types};
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

/// A line of `defaults.txt`.
struct Line {
    condition: Option<(&'static str, &'static str)>,
    defaults: Vec<(&'static str, Value)>,
}

/// Returns the lines by the name of the message.
fn lines() -> &'static HashMap<&'static str, Vec<Line>> {
    static LINES: OnceLock<HashMap<&str, Vec<Line>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let mut lines: HashMap<&str, Vec<Line>> = HashMap::new();
        for text in include_str!("defaults.txt").lines().filter(|line| !line.starts_with('#')) {
            let (message, words) = text.split_once(' ').unwrap_or_default();
            let mut line = Line { condition: None, defaults: Vec::new() };
            for (field, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
                match field.strip_prefix("if:") {
                    Some(field) => line.condition = Some((field, value)),
                    None => line.defaults.push((field, serde_json::from_str(value).unwrap_or_default())),
                }
            }
            lines.entry(message).or_default().push(line);
        }
        lines
    })
}

/// Sets the defaults of an object of the message, and of the objects in it.
fn message(place: usize, object: &mut Map<String, Value>) {
    let Some(message) = Types::get().message(place).filter(|message| message.form == Form::Object) else {
        return;
    };
    for line in lines().get(message.name).into_iter().flatten() {
        if line.condition.is_some_and(|(field, value)| object.get(field).is_none_or(|is| is != value)) {
            continue;
        }
        for (field, value) in &line.defaults {
            let (parent, field) = match field.split_once('.') {
                Some((parent, field)) => (object_mut(object, parent), field),
                None => (Some(&mut *object), *field),
            };
            if let Some(parent) = parent {
                fill(parent, &[(field, value.clone())]);
            }
        }
    }
    if message.name == "PodSpec" {
        pod_spec(object);
    }
    for field in message.json_fields().filter(|field| !matches!(field.name, "metadata" | "status")) {
        let Base::Message(nested) = field.base else { continue };
        match object.get_mut(field.name) {
            Some(Value::Object(values)) if field.shape == Shape::Map => {
                values
                    .values_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|value| self::message(nested, value));
            }
            Some(Value::Object(value)) => self::message(nested, value),
            Some(Value::Array(_)) => items(object, field.name).for_each(|item| self::message(nested, item)),
            _ => {}
        }
    }
}

/// Sets the defaults of the spec, on every write of the main resource.
pub(crate) fn spec(kind: &Kind, object: &mut Map<String, Value>) {
    if kind.rules.custom {
        return;
    }
    if let Some(place) = Types::get().kind(&kind.api_version(), &kind.kind) {
        message(place, object);
    }
    if kind.is_pod() {
        pod(object);
    }
    if kind.is_service() {
        crate::schemas::kinds::services::spec(object);
    }
    crate::schemas::kinds::workloads::spec(kind, object);
    crate::schemas::kinds::cluster::spec(kind, object);
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

/// Sets the defaults of a pod spec that depend on other fields.
fn pod_spec(spec: &mut Map<String, Value>) {
    // The second name is deprecated.
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        if let Some(account) = spec.get(from).cloned() {
            fill(spec, &[(to, account)]);
        }
    }
    for volume in items(spec, "volumes").filter(|volume| volume.len() == 1) {
        fill(volume, &[("emptyDir", json!({}))]);
    }
    let on_host = spec.get("hostNetwork").is_some_and(|on| *on == true);
    for list in ["initContainers", "containers"] {
        for container in items(spec, list) {
            let pulled = pull_policy(container);
            fill(container, &[("imagePullPolicy", json!(pulled))]);
            for port in items(container, "ports").filter(|_| on_host) {
                let number = port.get("containerPort").cloned().unwrap_or_default();
                fill(port, &[("hostPort", number)]);
            }
        }
    }
}

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

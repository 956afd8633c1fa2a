//! Rules of pods that concern several fields.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk, is_empty, keys, list};
use crate::wire::names::{SUBDOMAIN, is_subdomain};
use crate::wire::qualified::name_complaints;

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "PodSpec" => spec(walk, at),
        "PodTemplateSpec" => walk.labels(&at.at("labels"), at.get("metadata.labels")),
        "Container" => container(walk, at),
        "ResourceRequirements" => resources(walk, at),
        "LifecycleHandler" | "Probe"
            if !["exec", "httpGet", "tcpSocket", "grpc", "sleep"].iter().any(|key| at.has(key)) =>
        {
            walk.required(&at.path);
        }
        "Toleration" => toleration(walk, at),
        "SeccompProfile" => match (at.text("type") == "Localhost", at.has("localhostProfile")) {
            (true, false) => walk.required(at.at("localhostProfile")),
            (false, true) => walk.bad(at, "localhostProfile", "can only be set for type Localhost"),
            _ => {}
        },
        "EnvVar" => env(walk, at),
        "EnvFromSource" if !at.has("configMapRef") && !at.has("secretRef") => {
            let path = at.path.trim_end_matches(|c| c != '[').trim_end_matches('[');
            walk.invalid(path, &"".into(), "must specify one of: `configMapRef` or `secretRef`");
        }
        "Volume" if at.object.keys().filter(|key| *key != "name").count() > 1 => {
            walk.forbid(at, "", "may not specify more than 1 volume type");
        }
        "DownwardAPIVolumeFile" if !at.has("fieldRef") && !at.has("resourceFieldRef") => {
            walk.required(&at.path);
        }
        _ => {}
    }
}

fn spec(walk: &mut Walk, at: &At<'_>) {
    let (mut names, mut ports): (Vec<&Value>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, container) in at.list("containers").iter().enumerate() {
        let path = format!("containers[{index}]");
        mounts(walk, at, &path);
        if !is_empty(&container["name"]) && names.contains(&&container["name"]) {
            walk.repeated(at, &format!("{path}.name"));
        }
        names.push(&container["name"]);
        for (index, port) in list(&container["ports"]).iter().enumerate() {
            let key = (&port["protocol"], &port["hostIP"], &port["hostPort"]);
            let path = format!("{path}.ports[{index}].hostPort");
            if !port["hostPort"].is_null() && ports.contains(&key) {
                walk.repeated(at, &path);
            }
            ports.push(key);
            if at.get("hostNetwork") == true && port["hostPort"] != port["containerPort"] {
                walk.bad(at, &path, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
    for index in 0..at.list("initContainers").len() {
        mounts(walk, at, &format!("initContainers[{index}]"));
    }
    if at.text("dnsPolicy") == "None" && at.list("dnsConfig.nameservers").is_empty() {
        let key = if at.has("dnsConfig") { "dnsConfig.nameservers" } else { "dnsConfig" };
        walk.required(at.at(key));
    }
}

fn mounts(walk: &mut Walk, at: &At<'_>, container: &str) {
    let is_template = at.path == "spec.template.spec";
    let claims = if is_template { walk.claim_templates.clone() } else { Vec::new() };
    // A mount does not find an invalid volume.
    let is_valid = |index: usize| {
        let path = at.at(format!("volumes[{index}]"));
        !walk.causes.iter().any(|cause| cause.line().starts_with(&path))
    };
    let volumes = at.list("volumes").iter().enumerate().filter(|(index, _)| is_valid(*index));
    let names: Vec<&Value> = volumes.map(|(_, volume)| &volume["name"]).chain(&claims).collect();
    for (list, key) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
        let mut paths: Vec<&Value> = Vec::new();
        for (index, mount) in at.list(&format!("{container}.{list}")).iter().enumerate() {
            let path = format!("{container}.{list}[{index}]");
            if !names.contains(&&mount["name"]) {
                walk.not_found(at, &format!("{path}.name"));
            }
            if paths.contains(&&mount[key]) {
                walk.bad(at, &format!("{path}.{key}"), "must be unique");
            }
            paths.push(&mount[key]);
        }
    }
}

fn container(walk: &mut Walk, at: &At<'_>) {
    let security = at.get("securityContext");
    if security["privileged"] == true && security["allowPrivilegeEscalation"] == false {
        walk.bad(at, "securityContext", "a privileged container must allow privilege escalation");
    }
    for key in ["livenessProbe.successThreshold", "startupProbe.successThreshold"] {
        if at.number(key).is_some_and(|number| number != 1) {
            walk.bad(at, key, "must be 1");
        }
    }
}

fn resources(walk: &mut Walk, at: &At<'_>) {
    let number = |value: &Value| crate::schemas::types::quantity::nanos(value.as_str().unwrap_or("0"));
    let is_standard =
        |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    for list in ["limits", "requests"] {
        for (key, value) in keys(at.get(list)) {
            let path = at.at(format!("{list}[{key}]"));
            if !name_complaints(key).is_empty() || (!key.contains('/') && !is_standard(key)) {
                walk.invalid(&path, &key.as_str().into(), "must be a standard resource for containers");
            }
            if number(value) < 0 {
                walk.invalid(&path, value, "must be greater than or equal to 0");
            }
        }
    }
    for (key, value) in keys(at.get("requests")) {
        let limit = &at.get("limits")[key];
        // An extended resource cannot be shared.
        if key.contains('/') && number(value) != number(limit) {
            walk.invalid(at.at("requests"), value, "must be equal to the limit");
        } else if !limit.is_null() && number(value) > number(limit) {
            let limit = limit.as_str().unwrap_or_default();
            let text = format!("must be less than or equal to {key} limit of {limit}");
            walk.invalid(at.at("requests"), value, &text);
        }
    }
}

fn toleration(walk: &mut Walk, at: &At<'_>) {
    let is_exists = at.text("operator") == "Exists";
    if at.text("key").is_empty() && !is_exists {
        walk.bad(at, "operator", "operator must be Exists when `key` is empty");
    }
    if at.has("tolerationSeconds") && at.text("effect") != "NoExecute" {
        walk.bad(at, "effect", "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    if is_exists && !at.text("value").is_empty() {
        walk.bad(at, "operator", "value must be empty when `operator` is 'Exists'");
    }
}

fn env(walk: &mut Walk, at: &At<'_>) {
    if at.text("name").contains('=') {
        walk.bad(at, "name", "must not contain '='");
    }
    if !at.has("valueFrom") {
        return;
    }
    if keys(at.get("valueFrom")).count() != 1 || !at.text("value").is_empty() {
        walk.bad(at, "valueFrom", "must specify exactly one source, and no `value`");
    }
    for key in ["valueFrom.configMapKeyRef", "valueFrom.secretKeyRef"] {
        let name = format!("{key}.name");
        if at.has(key) && !is_subdomain(at.text(&name)) {
            walk.bad(at, &name, SUBDOMAIN);
        }
    }
    let (key, path) = ("valueFrom.fieldRef.fieldPath", at.text("valueFrom.fieldRef.fieldPath"));
    let is_known = FIELD_PATHS.split(' ').any(|known| path.split('[').next() == Some(known));
    if !path.is_empty() && (!is_known || at.text("valueFrom.fieldRef.apiVersion") != "v1") {
        walk.bad(at, key, "error converting fieldPath");
    }
}

/// The fields of a Pod that an environment variable can contain.
const FIELD_PATHS: &str = "metadata.name metadata.namespace metadata.uid metadata.labels metadata.annotations \
    spec.nodeName spec.serviceAccountName status.hostIP status.hostIPs status.podIP status.podIPs";

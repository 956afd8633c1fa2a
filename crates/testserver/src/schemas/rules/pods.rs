//! Rules of pods that concern several fields.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk, is_empty, keys, list};
use crate::wire::names::{SUBDOMAIN, is_label, is_subdomain};
use crate::wire::qualified::{name_complaints, value_complaints};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "PodSpec" => spec(walk, at),
        "PodTemplateSpec" => template(walk, at),
        "Container" => container(walk, at),
        "ResourceRequirements" => resources(walk, at),
        "LifecycleHandler" | "Probe" => handler(walk, at),

        "Toleration" => toleration(walk, at),
        "SeccompProfile" => seccomp(walk, at),
        "PodAffinityTerm" => affinity_term(walk, at),
        "TopologySpreadConstraint" => spread(walk, at),
        "EnvVar" => env(walk, at),
        "ResourceFieldSelector" => resource_field(walk, at),
        "EnvFromSource" if !at.has("configMapRef") && !at.has("secretRef") => {
            let path = at.path.trim_end_matches(|c| c != '[').trim_end_matches('[');
            walk.invalid(path, &"".into(), "must specify one of: `configMapRef` or `secretRef`");
        }
        "Volume" => volume(walk, at),
        "DownwardAPIVolumeFile" if !at.has("fieldRef") && !at.has("resourceFieldRef") => {
            walk.required(&at.path);
        }
        _ => {}
    }
}

fn spec(walk: &mut Walk, at: &At<'_>) {
    let containers = at.list("containers").iter().enumerate();
    let containers: Vec<_> =
        containers.map(|(index, of)| (at.at(format!("containers[{index}]")), of)).collect();
    let inits = at.list("initContainers").iter().enumerate();
    let inits: Vec<_> = inits.map(|(index, of)| (at.at(format!("initContainers[{index}]")), of)).collect();
    let (mut names, mut ports): (Vec<&Value>, Vec<_>) = (Vec::new(), Vec::new());
    for (path, container) in &containers {
        if !is_empty(&container["name"]) && names.contains(&&container["name"]) {
            walk.duplicate(format!("{path}.name"), &container["name"]);
        }
        names.push(&container["name"]);
        for (index, port) in list(&container["ports"]).iter().enumerate() {
            let key = (&port["protocol"], &port["hostIP"], &port["hostPort"]);
            let path = format!("{path}.ports[{index}]");
            if !port["hostPort"].is_null() && ports.contains(&key) {
                walk.duplicate(format!("{path}.hostPort"), &port["hostPort"]);
            }
            ports.push(key);
            if at.get("hostNetwork") == true && port["hostPort"] != port["containerPort"] {
                let text = "must match `containerPort` when `hostNetwork` is true";
                walk.invalid(format!("{path}.hostPort"), &port["hostPort"], text);
            }
        }
    }
    for (path, container) in containers.iter().chain(&inits) {
        mounts(walk, at, path, container);
    }
    if at.text("dnsPolicy") == "None" {
        match at.get("dnsConfig") {
            Value::Null => walk.required(at.at("dnsConfig")),
            config if list(&config["nameservers"]).is_empty() => {
                walk.required(at.at("dnsConfig.nameservers"));
            }
            _ => {}
        }
    }
    for (index, server) in list(&at.get("dnsConfig")["nameservers"]).iter().enumerate() {
        if server.as_str().unwrap_or("").parse::<std::net::IpAddr>().is_err() {
            let path = at.at(format!("dnsConfig.nameservers[{index}]"));
            walk.invalid(path, server, "must be a valid IP address");
        }
    }
}

/// Checks the mounts and devices of a container.
fn mounts(walk: &mut Walk, at: &At<'_>, path: &str, container: &Value) {
    let volumes = at.list("volumes");
    let claims = if path.starts_with("spec.template") { walk.claim_templates.clone() } else { Vec::new() };
    // A mount does not find an invalid volume.
    let is_valid = |index: usize| {
        let path = at.at(format!("volumes[{index}]"));
        !walk.causes.iter().any(|cause| cause.line().starts_with(&path))
    };
    let volumes: Vec<&Value> =
        volumes.iter().enumerate().filter(|(index, _)| is_valid(*index)).map(|(_, volume)| volume).collect();
    let find = |name: &Value| volumes.iter().copied().find(|volume| volume["name"] == *name);
    let mut paths: Vec<&Value> = Vec::new();
    for (index, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        if find(&mount["name"]).is_none() && !claims.contains(&mount["name"]) {
            walk.not_found(format!("{path}.name"), &mount["name"]);
        }
        if paths.contains(&&mount["mountPath"]) {
            walk.invalid(format!("{path}.mountPath"), &mount["mountPath"], "must be unique");
        }
        paths.push(&mount["mountPath"]);
    }
    let mut paths: Vec<&Value> = Vec::new();
    for (index, device) in list(&container["volumeDevices"]).iter().enumerate() {
        let path = format!("{path}.volumeDevices[{index}]");
        match find(&device["name"]) {
            None => walk.not_found(format!("{path}.name"), &device["name"]),
            Some(volume) if volume.get("persistentVolumeClaim").or(volume.get("ephemeral")).is_none() => {
                let text = "can only use a claim for block mode";
                walk.invalid(format!("{path}.name"), &device["name"], text);
            }
            Some(_) => {}
        }
        if paths.contains(&&device["devicePath"]) {
            walk.invalid(format!("{path}.devicePath"), &device["devicePath"], "must be unique");
        }
        paths.push(&device["devicePath"]);
    }
}

fn template(walk: &mut Walk, at: &At<'_>) {
    walk.labels(&at.at("labels"), &at.get("metadata")["labels"]);
    for (key, _) in keys(&at.get("metadata")["annotations"]) {
        for text in name_complaints(&key.to_lowercase()) {
            walk.invalid(at.at("annotations"), &key.as_str().into(), &text);
        }
    }
}

fn container(walk: &mut Walk, at: &At<'_>) {
    let security = at.get("securityContext");
    if security["privileged"] == true && security["allowPrivilegeEscalation"] == false {
        let text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        walk.invalid(at.at("securityContext"), security, text);
    }
    for probe in ["livenessProbe", "startupProbe"] {
        if at.get(probe)["successThreshold"].as_i64().is_some_and(|number| number != 1) {
            let path = at.at(format!("{probe}.successThreshold"));
            walk.invalid(path, &at.get(probe)["successThreshold"], "must be 1");
        }
    }
}

fn resources(walk: &mut Walk, at: &At<'_>) {
    let number = |value: &Value| crate::schemas::types::quantity::nanos(value.as_str().unwrap_or("0"));
    for list in ["limits", "requests"] {
        for (key, value) in keys(at.get(list)) {
            let path = at.at(format!("{list}[{key}]"));
            let name: Value = key.as_str().into();
            for text in name_complaints(key) {
                walk.invalid(&path, &name, &text);
            }
            if !key.contains('/') && !is_standard_resource(key) {
                walk.invalid(&path, &name, "must be a standard resource for containers");
            }
            if number(value) < 0 {
                walk.invalid(&path, value, "must be greater than or equal to 0");
            }
        }
    }
    let limits = at.get("limits");
    for (key, value) in keys(at.get("requests")) {
        let limit = &limits[key];
        let is_extended = key.contains('/');
        if is_extended && (limit.is_null() || number(value) != number(limit)) {
            walk.invalid(at.at("requests"), value, "must be equal to the limit");
        } else if !limit.is_null() && number(value) > number(limit) {
            walk.invalid(at.at("requests"), value, "must be less than or equal to the limit");
        }
    }
}

fn is_standard_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn handler(walk: &mut Walk, at: &At<'_>) {
    if !["exec", "httpGet", "tcpSocket", "grpc", "sleep"].iter().any(|key| at.has(key)) {
        walk.required(&at.path);
    }
    for header in list(&at.get("httpGet")["httpHeaders"]) {
        let name = header["name"].as_str().unwrap_or("");
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            walk.invalid(at.at("httpGet.httpHeaders"), &header["name"], "a valid HTTP header is required");
        }
    }
}

fn toleration(walk: &mut Walk, at: &At<'_>) {
    let operator = at.text("operator");
    if at.text("key").is_empty() && operator != "Exists" {
        walk.bad(at, "operator", "operator must be Exists when `key` is empty");
    }
    if at.has("tolerationSeconds") && at.text("effect") != "NoExecute" {
        walk.bad(at, "effect", "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    if operator == "Exists" && !at.text("value").is_empty() {
        walk.invalid(at.at("operator"), at.get("value"), "value must be empty when `operator` is 'Exists'");
    }
    if matches!(operator, "Equal" | "") && !value_complaints(at.text("value")).is_empty() {
        walk.invalid(at.at("operator"), at.get("value"), "must be a valid label value");
    }
}

fn seccomp(walk: &mut Walk, at: &At<'_>) {
    match (at.text("type"), at.get("localhostProfile")) {
        ("Localhost", Value::Null) => walk.required(at.at("localhostProfile")),
        ("Localhost", _) | (_, Value::Null) => {}
        (_, profile) => {
            walk.invalid(
                at.at("localhostProfile"),
                profile,
                "can only be set when seccomp type is Localhost",
            );
        }
    }
}

fn affinity_term(walk: &mut Walk, at: &At<'_>) {
    let key = at.text("topologyKey");
    if key.is_empty() {
        walk.required(at.at("topologyKey"));
    }
    for text in name_complaints(key) {
        walk.invalid(at.at("topologyKey"), at.get("topologyKey"), &text);
    }
    for namespace in at.list("namespaces") {
        if !is_label(namespace.as_str().unwrap_or("")) {
            walk.invalid(at.at("namespace"), namespace, "a lowercase RFC 1123 label is required");
        }
    }
}

fn spread(walk: &mut Walk, at: &At<'_>) {
    if at.has("minDomains") && at.text("whenUnsatisfiable") != "DoNotSchedule" {
        let text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule";
        walk.invalid(at.at("minDomains"), at.get("minDomains"), text);
    }
    if !at.has("labelSelector") && !at.list("matchLabelKeys").is_empty() {
        walk.forbidden(at.at("matchLabelKeys"), "must not be specified when labelSelector is not set");
    }
}

fn env(walk: &mut Walk, at: &At<'_>) {
    let from = at.get("valueFrom");
    if at.text("name").contains('=') {
        walk.bad(at, "name", "must not contain '='");
    }
    if from.is_null() {
        return;
    }
    let sources = keys(from).count();
    if sources != 1 {
        walk.invalid(at.at("valueFrom"), &"".into(), "must specify exactly one source");
    }
    if !at.text("value").is_empty() {
        walk.invalid(at.at("valueFrom"), &"".into(), "may not be specified when `value` is not empty");
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        let name = from[key]["name"].as_str().unwrap_or("");
        if !from[key].is_null() && !is_subdomain(name) {
            walk.invalid(at.at(format!("valueFrom.{key}.name")), &name.into(), SUBDOMAIN);
        }
    }
    let field = &from["fieldRef"];
    let path = field["fieldPath"].as_str().unwrap_or("");
    let is_known = FIELD_PATHS.split(' ').any(|known| known == path)
        || path.starts_with("metadata.labels['")
        || path.starts_with("metadata.annotations['");
    if !path.is_empty() && (!is_known || field["apiVersion"] != "v1") {
        walk.invalid(at.at("valueFrom.fieldRef.fieldPath"), &path.into(), "error converting fieldPath");
    }
}

/// The fields of a Pod that an environment variable can contain, except labels and annotations.
const FIELD_PATHS: &str = "metadata.name metadata.namespace metadata.uid spec.nodeName spec.serviceAccountName \
    status.hostIP status.hostIPs status.podIP status.podIPs";
const DIVISORS: &str = "0 1 1m 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei";

fn resource_field(walk: &mut Walk, at: &At<'_>) {
    let resource = at.text("resource");
    let (list, name) = resource.split_once('.').unwrap_or(("", ""));
    let is_known = matches!(list, "limits" | "requests") && is_standard_resource(name);
    if !resource.is_empty() && !is_known {
        let known = ["limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
        walk.unknown(at, "resource", &known);
    }
    if at.path.contains("downwardAPI") && at.text("containerName").is_empty() {
        walk.required(at.at("containerName"));
    }
    let divisor = at.get("divisor").as_str().unwrap_or("0");
    if !DIVISORS.split(' ').any(|known| known == divisor) {
        walk.bad(at, "divisor", "only divisor's values 1m and 1 are supported");
    }
}

fn volume(walk: &mut Walk, at: &At<'_>) {
    let sources = at.object.keys().filter(|key| *key != "name").count();
    if sources > 1 {
        walk.forbidden(&at.path, "may not specify more than 1 volume type");
    }
    let size = at.get("emptyDir")["sizeLimit"].as_str();
    if size.is_some_and(|size| size.starts_with('-')) {
        walk.forbidden(at.at("emptyDir.sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
    let path = at.get("nfs")["path"].as_str();
    if path.is_some_and(|path| !path.starts_with('/')) {
        walk.invalid(at.at("nfs.path"), &at.get("nfs")["path"], "must be an absolute path");
    }
}

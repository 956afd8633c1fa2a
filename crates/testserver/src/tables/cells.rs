//! The cells of built-in kinds that summarise several fields.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::tables::age;
use crate::tables::builtin::Function;

/// Returns the function of a cell.
pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "address_parent" => |object, _| address_parent(object).into(),
        "autoscaler_targets" => |object, _| autoscaler_targets(object).into(),
        "binding_param" => |object, _| binding_param(object).into(),
        "claim_capacity" => |object, _| match text(object, "/spec/volumeName") {
            "" => "".into(),
            _ => or(text(object, "/status/capacity/storage"), "0").into(),
        },
        "claim_modes" => |object, _| match text(object, "/spec/volumeName") {
            "" => "".into(),
            _ => modes(object, "/status/accessModes").into(),
        },
        "claim_state" => |object, _| claim_state(object).into(),
        "cron_suspend" => |object, _| if object["spec"]["suspend"] == true { "True" } else { "False" }.into(),
        "csr_condition" => |object, _| csr_condition(object).into(),
        "csr_duration" => |object, _| match object.pointer("/spec/expirationSeconds").and_then(Value::as_i64)
        {
            Some(seconds) => age::short(SignedDuration::from_secs(seconds)).into(),
            None => "<none>".into(),
        },
        "endpoints" => |object, _| endpoints(object).into(),
        "event_count" => |event, _| match (event.get("series"), int(event, "/count")) {
            (Some(Value::Object(_)), _) => int(event, "/series/count").into(),
            (_, 0) => 1.into(),
            (_, count) => count.into(),
        },
        "event_first" => |event, now| event_time(event, &FIRST, now).into(),
        "event_last" => |event, now| match event.get("series") {
            Some(Value::Object(_)) => event_time(event, &["/series/lastObservedTime"], now).into(),
            _ => event_time(event, &["/lastTimestamp", FIRST[0], FIRST[1]], now).into(),
        },
        "event_message" => |event, _| text(event, "/message").trim().into(),
        "event_object" => |event, _| {
            let kind = text(event, "/involvedObject/kind").to_lowercase();
            joined([kind.as_str(), text(event, "/involvedObject/name")], "/").into()
        },
        "event_source" => |event, _| {
            let component = or(text(event, "/source/component"), text(event, "/reportingComponent"));
            let instance = or(text(event, "/source/host"), text(event, "/reportingInstance"));
            if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() }
        },
        "ingress_class_name" => {
            |class, _| default_name(class, &["ingressclass.kubernetes.io/is-default-class"]).into()
        }
        "ingress_class_parameters" => |class, _| match class.pointer("/spec/parameters") {
            Some(of) => {
                let kind = joined([text(of, "/kind"), text(of, "/apiGroup")], ".");
                format!("{kind}/{}", text(of, "/name")).into()
            }
            None => "<none>".into(),
        },
        "ingress_hosts" => |ingress, _| ingress_hosts(ingress).into(),
        "ingress_ports" => {
            |ingress, _| if items(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into()
        }
        "job_completions" => |job, _| job_completions(job).into(),
        "job_duration" => |job, now| job_duration(job, now).unwrap_or_default().into(),
        "job_status" => |job, _| job_status(job).into(),
        "join_addresses" => |object, _| addresses(object).into(),
        "node_kernel" => |node, _| {
            let kernel = or(text(node, "/status/nodeInfo/kernelVersion"), "<unknown>");
            match text(node, "/status/nodeInfo/architecture") {
                "" => kernel.into(),
                architecture => format!("{kernel} ({architecture})").into(),
            }
        },
        "node_roles" => |node, _| node_roles(node).into(),
        "node_status" => |node, _| node_status(node).into(),
        "quota_limits" => |quota, _| quota_part(quota, true).into(),
        "quota_requests" => |quota, _| quota_part(quota, false).into(),
        "revision_controller" => |revision, _| revision_controller(revision).into(),
        "service_available" => |service, _| service_available(service).into(),
        "service_external" => |service, _| service_external(service).into(),
        "service_ports" => |service, _| service_ports(service).into(),
        "slice_endpoints" => |slice, _| {
            let endpoints = items(slice, "/endpoints").iter();
            let all = endpoints.flat_map(|endpoint| items(endpoint, "/addresses")).map(plain).collect();
            or(&first_three(all), "<unset>").into()
        },
        "slice_ports" => |slice, _| {
            let number = |port: &Value| ["port", "name"].iter().find_map(|key| port.get(*key)).map(plain);
            let ports = items(slice, "/ports").iter().map(|port| number(port).unwrap_or_else(|| "*".into()));
            or(&first_three(ports.collect()), "<unset>").into()
        },
        "storage_class" => |object, _| {
            let class = annotation(object, "volume.beta.kubernetes.io/storage-class");
            class.unwrap_or_else(|| text(object, "/spec/storageClassName")).into()
        },
        "storage_class_name" => |class, _| {
            let [ga, beta] = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]
                .map(|prefix| format!("{prefix}/is-default-class"));
            default_name(class, &[&ga, &beta]).into()
        },
        "subject_accounts" => |binding, _| {
            let accounts =
                items(binding, "/subjects").iter().filter(|of| text(of, "/kind") == "ServiceAccount");
            let named = accounts.map(|of| format!("{}/{}", text(of, "/namespace"), text(of, "/name")));
            named.collect::<Vec<_>>().join(", ").into()
        },
        "volume_modes" => |object, _| modes(object, "/spec/accessModes").into(),
        "volume_phase" => |object, _| match object.pointer("/metadata/deletionTimestamp") {
            Some(_) => "Terminating".into(),
            None => text(object, "/status/phase").into(),
        },
        _ => return None,
    })
}

/// Returns the time of creation, the only cell of the default columns.
pub(super) fn created(object: &Value, _: Timestamp) -> Value {
    or(text(object, "/metadata/creationTimestamp"), age::ZERO).into()
}

/// Returns the text at a pointer, or an empty text.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Returns the integer at a pointer, or 0.
pub(super) fn int(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the items of the list at a pointer.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the first condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// Returns a text without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns labels in the form `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten().map(|(key, value)| (key, plain(value)));
    let sorted: BTreeSet<_> = pairs.collect();
    sorted.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Returns a label selector in the form of a query parameter, sorted by key.
pub(super) fn selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut parts: Vec<(&str, String)> =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", plain(value)))).collect();
    for requirement in items(selector, "/matchExpressions") {
        let key = text(requirement, "/key");
        let values: BTreeSet<String> = items(requirement, "/values").iter().map(plain).collect();
        let values = Vec::from_iter(values).join(",");
        let part = match text(requirement, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".into(),
        };
        parts.push((key, part));
    }
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// Joins the texts that are not empty.
fn joined<const N: usize>(parts: [&str; N], separator: &str) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(separator)
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Returns a name, marked if an annotation declares the object as the default.
fn default_name(object: &Value, annotations: &[&str]) -> String {
    let name = text(object, "/metadata/name");
    let is_default = annotations.iter().any(|of| annotation(object, of) == Some("true"));
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

/// Returns the first three items, and the number of the others.
fn first_three(all: Vec<String>) -> String {
    let shown: Vec<&str> = all.iter().take(3).map(String::as_str).collect();
    match all.len().saturating_sub(3) {
        0 => shown.join(","),
        more => format!("{} + {more} more...", shown.join(",")),
    }
}

fn address_parent(address: &Value) -> String {
    let Some(parent) = address.pointer("/spec/parentRef") else { return "<none>".into() };
    let resource = joined([text(parent, "/resource"), text(parent, "/group")], ".").to_lowercase();
    let namespace = text(parent, "/namespace");
    let name = text(parent, "/name");
    if namespace.is_empty() { format!("{resource}/{name}") } else { format!("{resource}/{namespace}/{name}") }
}

fn binding_param(binding: &Value) -> String {
    let Some(param) = binding.pointer("/spec/paramRef") else { return "<unset>".into() };
    match (text(param, "/namespace"), text(param, "/name")) {
        (_, "") if param.get("selector").is_none() => "<unset>".into(),
        (_, "") => go_selector(&param["selector"]),
        (namespace, name) => format!("{}/{name}", or(namespace, "*")),
    }
}

/// Prints a selector like the generated method of its Go type.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", plain(value))).collect();
    let requirements = items(selector, "/matchExpressions").iter().map(|of| {
        let values: Vec<String> = items(of, "/values").iter().map(plain).collect();
        let (key, operator) = (text(of, "/key"), text(of, "/operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    let requirements: String = requirements.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

fn claim_state(claim: &Value) -> String {
    let deleted = claim.pointer("/metadata/deletionTimestamp").is_some();
    let allocated = claim.pointer("/status/allocation").is_some();
    let reserved = allocated && !items(claim, "/status/reservedFor").is_empty();
    joined(
        [
            if deleted { "deleted" } else { "" },
            if allocated { "allocated" } else { "" },
            if !allocated && !deleted { "pending" } else { "" },
            if reserved { "reserved" } else { "" },
        ],
        ",",
    )
}

fn csr_condition(csr: &Value) -> String {
    let has = |kind| condition(csr, kind).is_some();
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { "Failed" } else { "" };
    let issued = if text(csr, "/status/certificate").is_empty() { "" } else { "Issued" };
    joined([decision, failed, issued], ",")
}

fn endpoints(endpoints: &Value) -> String {
    let subsets = items(endpoints, "/subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let port = int(port, "/port");
            all.extend(addresses.clone().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    first_three(all)
}

/// The pointers to the first time of an event.
const FIRST: [&str; 2] = ["/firstTimestamp", "/eventTime"];

/// Returns the age of the first time that is set.
fn event_time(event: &Value, pointers: &[&str], now: Timestamp) -> String {
    let then = pointers.iter().find_map(|pointer| age::parse(text(event, pointer)));
    then.map_or_else(|| "<unknown>".into(), |then| age::since(then, now))
}

fn ingress_hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        let host = text(rule, "/host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.as_slice() {
        [] => "*".into(),
        _ if more => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        _ => hosts.join(","),
    }
}

/// Returns the sorted addresses of a load balancer.
fn addresses(object: &Value) -> String {
    let ingress = items(object, "/status/loadBalancer/ingress").iter();
    let all = ingress.map(|of| or(text(of, "/ip"), text(of, "/hostname"))).filter(|of| !of.is_empty());
    Vec::from_iter(all.collect::<BTreeSet<_>>()).join(",")
}

fn job_completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    match (job.pointer("/spec/completions"), int(job, "/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> Option<String> {
    let time = |pointer| age::parse(text(job, pointer));
    let start = time("/status/startTime")?;
    Some(age::since(start, time("/status/completionTime").unwrap_or(now)))
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind| condition(job, kind).is_some_and(|condition| condition["status"] == "True");
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn modes(object: &Value, pointer: &str) -> String {
    let modes = items(object, pointer);
    let short = |long: &str, short| if modes.iter().any(|mode| mode == long) { short } else { "" };
    let all = [
        short("ReadWriteOnce", "RWO"),
        short("ReadOnlyMany", "ROX"),
        short("ReadWriteMany", "RWX"),
        short("ReadWriteOncePod", "RWOP"),
    ];
    joined(all, ",")
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        None if key == "kubernetes.io/role" => value.as_str(),
        role => role,
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    or(&Vec::from_iter(roles).join(","), "<none>").to_owned()
}

fn node_status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().rfind(|condition| condition["type"] == "Ready");
    let ready = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let disabled = if node["spec"]["unschedulable"] == true { "SchedulingDisabled" } else { "" };
    joined([ready, disabled], ",")
}

fn quota_part(quota: &Value, limits: bool) -> String {
    let empty = Map::new();
    let hard = quota.pointer("/status/hard").and_then(Value::as_object).unwrap_or(&empty);
    let resources: BTreeSet<&String> =
        hard.keys().filter(|resource| resource.starts_with("limits.") == limits).collect();
    let used = |resource: &str| quota.pointer("/status/used").and_then(|used| used.get(resource)).map(plain);
    let part = |resource: &String| {
        let (used, hard) = (used(resource), hard.get(resource).map(plain).unwrap_or_default());
        format!("{resource}: {}/{hard}", used.as_deref().unwrap_or("0"))
    };
    resources.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

fn revision_controller(revision: &Value) -> String {
    let owners = items(revision, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else { return "<none>".into() };
    let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = joined([text(owner, "/kind"), group], ".").to_lowercase();
    joined([kind.as_str(), text(owner, "/name")], "/")
}

fn service_available(service: &Value) -> String {
    let Some(available) = condition(service, "Available") else { return "Unknown".into() };
    match (text(available, "/status"), text(available, "/reason")) {
        (status @ "True", _) | (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

fn service_external(service: &Value) -> String {
    let external = items(service, "/spec/externalIPs").iter().map(plain).collect::<Vec<_>>().join(",");
    match text(service, "/spec/type") {
        "LoadBalancer" => or(&joined([&addresses(service), &external], ","), "<pending>").into(),
        "ExternalName" => text(service, "/spec/externalName").into(),
        "" | "ClusterIP" | "NodePort" => or(&external, "<none>").into(),
        _ => "<unknown>".into(),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = items(service, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (int(port, "/port"), or(text(port, "/protocol"), "TCP"));
        match int(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), "<none>").into()
}

/// The maximum number of metrics in a cell.
const MAX_METRICS: usize = 2;

fn autoscaler_targets(autoscaler: &Value) -> String {
    let metrics = items(autoscaler, "/spec/metrics");
    let current = items(autoscaler, "/status/currentMetrics");
    let all: Vec<String> =
        metrics.iter().enumerate().map(|(at, metric)| target(metric, current.get(at))).collect();
    let shown = all.iter().take(MAX_METRICS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_METRICS) {
        0 => or(&shown, "<none>").to_owned(),
        more => format!("{shown} + {more} more..."),
    }
}

/// Returns the current value and the target of a metric. Resource metrics also have a name.
fn target(metric: &Value, current: Option<&Value>) -> String {
    let (key, is_resource) = match text(metric, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".into(),
    };
    let part = &metric[key];
    let now = |field: &str| current.and_then(|of| of[key]["current"].get(field)).map(plain);
    let wanted = |field: &str| part["target"].get(field).map(plain);
    let unknown = || "<unknown>".to_owned();
    let name = if is_resource { format!("{}: ", text(part, "/name")) } else { String::new() };
    if let Some(average) = wanted("averageValue") {
        let mark = if matches!(key, "external" | "object") { " (avg)" } else { "" };
        return format!("{name}{}/{average}{mark}", now("averageValue").unwrap_or_else(unknown));
    }
    if is_resource {
        let percent = |value: String| format!("{value}%");
        let now = now("averageUtilization").map_or_else(unknown, percent);
        return format!(
            "{name}{now}/{}",
            wanted("averageUtilization").map_or_else(|| "<auto>".into(), percent)
        );
    }
    format!("{}/{}", now("value").unwrap_or_else(unknown), wanted("value").unwrap_or_else(|| "0".into()))
}

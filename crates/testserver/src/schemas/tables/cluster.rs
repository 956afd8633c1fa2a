//! The cells of nodes, volumes and the kinds that administrators use.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::Value;

use crate::schemas::tables::age;
use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{annotation, condition, default_name, items, joined, or, plain, text};

/// The functions of the cells.
pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("binding_param", |object, _| binding_param(object).into()),
    ("claim_capacity", |object, _| match text(object, "/spec/volumeName") {
        "" => "".into(),
        _ => or(text(object, "/status/capacity/storage"), "0").into(),
    }),
    ("claim_modes", |object, _| match text(object, "/spec/volumeName") {
        "" => "".into(),
        _ => modes(object, "/status/accessModes").into(),
    }),
    ("claim_state", |object, _| claim_state(object).into()),
    ("csr_condition", |object, _| csr_condition(object).into()),
    ("csr_duration", |object, _| match object.pointer("/spec/expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) => age::short(SignedDuration::from_secs(seconds)).into(),
        None => "<none>".into(),
    }),
    ("node_kernel", |node, _| {
        let kernel = or(text(node, "/status/nodeInfo/kernelVersion"), "<unknown>");
        match text(node, "/status/nodeInfo/architecture") {
            "" => kernel.into(),
            architecture => format!("{kernel} ({architecture})").into(),
        }
    }),
    ("node_roles", |node, _| node_roles(node).into()),
    ("node_status", |node, _| node_status(node).into()),
    ("service_available", |service, _| service_available(service).into()),
    ("storage_class", |object, _| {
        let class = annotation(object, "volume.beta.kubernetes.io/storage-class");
        class.unwrap_or_else(|| text(object, "/spec/storageClassName")).into()
    }),
    ("storage_class_name", |class, _| {
        let [ga, beta] = ["storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"]
            .map(|prefix| format!("{prefix}/is-default-class"));
        default_name(class, &[&ga, &beta]).into()
    }),
    ("subject_accounts", |binding, _| {
        let accounts = items(binding, "/subjects").iter().filter(|of| text(of, "/kind") == "ServiceAccount");
        let named = accounts.map(|of| format!("{}/{}", text(of, "/namespace"), text(of, "/name")));
        named.collect::<Vec<_>>().join(", ").into()
    }),
    ("volume_modes", |object, _| modes(object, "/spec/accessModes").into()),
    ("volume_phase", |object, _| match object.pointer("/metadata/deletionTimestamp") {
        Some(_) => "Terminating".into(),
        None => text(object, "/status/phase").into(),
    }),
];

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
    let ready = match condition(node, "Ready").map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let disabled = if node["spec"]["unschedulable"] == true { "SchedulingDisabled" } else { "" };
    joined([ready, disabled], ",")
}

fn service_available(service: &Value) -> String {
    let Some(available) = condition(service, "Available") else { return "Unknown".into() };
    match (text(available, "/status"), text(available, "/reason")) {
        (status @ "True", _) | (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

//! The cells of nodes, volumes and the kinds that administrators use.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{condition, default_name, items, joined, or, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("claim_modes", |object, _| modes(object, "/status/accessModes").into()),
    ("node_roles", |node, _| node_roles(node).into()),
    ("node_status", |node, _| node_status(node).into()),
    ("storage_class_name", |class, _| {
        default_name(class, "storageclass.kubernetes.io/is-default-class").into()
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
    let roles = labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"));
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

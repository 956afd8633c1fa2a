//! Rules of Ingresses and NetworkPolicies.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "IngressSpec" if at.list("rules").is_empty() && !at.has("defaultBackend") => {
            walk.invalid(&at.path, &Value::Null, "either `defaultBackend` or `rules` must be specified");
        }
        "IngressBackend" => backend(walk, at),
        "HTTPIngressPath" => {
            let (path, kind) = (at.text("path"), at.text("pathType"));
            let is_needed = !path.is_empty() || matches!(kind, "Exact" | "Prefix");
            if is_needed && at.has("pathType") && !path.starts_with('/') {
                walk.bad(at, "path", "must be an absolute path");
            }
        }
        "NetworkPolicyPort" if at.has("endPort") => {
            let start = at.number("port").unwrap_or(i64::MAX);
            if !at.number("endPort").is_some_and(|end| (start..=65535).contains(&end)) {
                walk.bad(at, "endPort", "must be greater than or equal to a numeric `port`");
            }
        }
        "NetworkPolicyPeer" => match ["podSelector", "namespaceSelector", "ipBlock"].map(|key| at.has(key)) {
            [false, false, false] => walk.required(&at.path),
            [true, _, true] | [_, true, true] => {
                walk.forbid(at, "", "may not specify both ipBlock and another peer");
            }
            _ => {}
        },
        _ => {}
    }
}

fn backend(walk: &mut Walk, at: &At<'_>) {
    if at.has("service") == at.has("resource") {
        return walk.invalid(&at.path, &"".into(), "exactly one service or resource backend is required");
    }
    let has_number = at.number("service.port.number").is_some_and(|number| number != 0);
    match (at.text("service.port.name").is_empty(), has_number) {
        (true, false) if at.has("service") => walk.required(&at.path),
        (false, true) => walk.invalid(&at.path, &"".into(), "cannot set both port name & port number"),
        _ => {}
    }
}

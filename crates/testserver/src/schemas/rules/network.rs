//! Rules of Ingresses, IngressClasses and NetworkPolicies.

use crate::schemas::rules::walk::{At, Walk};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "IngressSpec" if at.list("rules").is_empty() && !at.has("defaultBackend") => {
            walk.invalid(
                &at.path,
                &at.object.clone().into(),
                "either `defaultBackend` or `rules` must be specified",
            );
        }
        "IngressBackend" => backend(walk, at),
        "HTTPIngressPath" => path(walk, at),
        "IngressClassParametersReference" if at.text("scope") == "Namespace" && !at.has("namespace") => {
            walk.required(at.at("namespace"));
        }
        "NetworkPolicyPort" => {
            if let (Some(end), Some(start)) = (at.number("endPort"), at.number("port")) {
                if end < start || end > 65535 {
                    walk.bad(at, "endPort", "must be greater than or equal to `port`");
                }
            } else if at.has("endPort") {
                walk.bad(at, "endPort", "may not be specified without a numeric `port`");
            }
        }
        "NetworkPolicyPeer" => match ["podSelector", "namespaceSelector", "ipBlock"].map(|key| at.has(key)) {
            [false, false, false] => walk.required(&at.path),
            [true, _, true] | [_, true, true] => {
                walk.forbidden(&at.path, "may not specify both ipBlock and another peer");
            }
            _ => {}
        },
        "NetworkPolicySpec" if at.list("policyTypes").len() > 2 => {
            walk.bad(at, "policyTypes", "may not specify more than two policyTypes");
        }
        _ => {}
    }
}

fn backend(walk: &mut Walk, at: &At<'_>) {
    match (at.has("service"), at.has("resource")) {
        (true, true) => walk.invalid(&at.path, &"".into(), "cannot set both resource and service backends"),
        (false, false) => walk.invalid(&at.path, &"".into(), "resource or service backend is required"),
        (false, true) => {}
        (true, false) => {
            let port = &at.get("service")["port"];
            let (name, number) = (port["name"].as_str().unwrap_or(""), port["number"].as_i64().unwrap_or(0));
            match (name.is_empty(), number == 0) {
                (true, true) => walk.required(&at.path),
                (false, false) => {
                    walk.invalid(&at.path, &"".into(), "cannot set both port name & port number");
                }
                (true, false) if number < 0 => {
                    walk.invalid(
                        at.at("service.port.number"),
                        &number.into(),
                        "must be between 1 and 65535, inclusive",
                    );
                }
                _ => {}
            }
        }
    }
}

fn path(walk: &mut Walk, at: &At<'_>) {
    let path = at.text("path");
    let needs_path = matches!(at.text("pathType"), "Exact" | "Prefix");
    if (needs_path || !path.is_empty()) && at.has("pathType") && !path.starts_with('/') {
        walk.invalid(at.at("path"), &path.into(), "must be an absolute path");
    }
}

//! Rules of Services.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::schemas::rules::walk::{At, Walk, is_empty, list};
use crate::wire::names::{SUBDOMAIN, is_subdomain};

pub(super) fn check(walk: &mut Walk, at: &At<'_>) {
    let kind = at.text("type");
    let is_headless = at.list("clusterIPs").first() == Some(&json!("None"));
    if at.list("ports").is_empty() && !is_headless && kind != "ExternalName" {
        walk.required(at.at("ports"));
    }
    if kind == "ExternalName" {
        external_name(walk, at);
    } else {
        cluster_addresses(walk, at, is_headless);
    }
    ports(walk, at, kind);
    if at.text("sessionAffinity") == "None" && at.has("sessionAffinityConfig") {
        walk.forbid(at, "sessionAffinityConfig", "must not be set when session affinity is None");
    }
    for key in ["loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if at.has(key) && kind != "LoadBalancer" {
            walk.forbid(at, key, "may only be used when `type` is 'LoadBalancer'");
        }
    }
    traffic(walk, at, kind);
}

fn external_name(walk: &mut Walk, at: &At<'_>) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(at.get(key)) {
            walk.forbid(at, key, "may not be set for ExternalName services");
        }
    }
    if at.text("externalName").is_empty() {
        walk.required(at.at("externalName"));
    } else if !is_subdomain(at.text("externalName").trim_end_matches('.')) {
        walk.bad(at, "externalName", SUBDOMAIN);
    }
}

/// The server has only IPv4 addresses.
fn cluster_addresses(walk: &mut Walk, at: &At<'_>, is_headless: bool) {
    let addresses = at.list("clusterIPs");
    let first = addresses.first().and_then(Value::as_str).unwrap_or("");
    if first != at.text("clusterIP") || addresses.len() > 1 {
        walk.bad(at, "clusterIPs", "must contain only `clusterIP`");
    }
    if !is_headless && !first.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()) {
        walk.bad(at, "clusterIPs[0]", "must be a valid IPv4 address");
    }
    let old = list(at.old("clusterIPs"));
    if walk.is_update && !old.is_empty() && old.first() != addresses.first() {
        walk.bad(at, "clusterIPs[0]", "may not change once set");
    }
    if !walk.is_update && at.text("ipFamilyPolicy") == "RequireDualStack" && !is_headless {
        walk.bad(at, "ipFamilyPolicy", "this cluster is not configured for dual-stack services");
    }
}

fn ports(walk: &mut Walk, at: &At<'_>, kind: &str) {
    let ports = at.list("ports");
    let (mut seen, mut nodes): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        if ports.len() > 1 && is_empty(&port["name"]) {
            walk.required(at.at(format!("{path}.name")));
        }
        let key = (&port["port"], &port["protocol"]);
        if seen.contains(&key) {
            walk.repeated(at, &path);
        }
        seen.push(key);
        let Some(number) = port["nodePort"].as_i64() else { continue };
        let path = format!("{path}.nodePort");
        if kind == "ClusterIP" {
            walk.forbid(at, &path, "may not be used when `type` is 'ClusterIP'");
        } else if kind != "ExternalName" && !(30_000..=32_767).contains(&number) {
            walk.bad(
                at,
                &path,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if nodes.contains(&(number, &port["protocol"])) {
            walk.repeated(at, &path);
        }
        nodes.push((number, &port["protocol"]));
    }
}

fn traffic(walk: &mut Walk, at: &At<'_>, kind: &str) {
    let is_external = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !at.list("externalIPs").is_empty());
    let (key, policy) = ("externalTrafficPolicy", at.text("externalTrafficPolicy"));
    match (is_external, policy) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, _) => walk.bad(at, key, "may only be set for externally-accessible services"),
        (true, "") => walk.required(at.at(key)),
        (true, _) => walk.unknown(at, key, &["Cluster", "Local"]),
    }
    if at.has("healthCheckNodePort") && (kind, policy) != ("LoadBalancer", "Local") {
        walk.bad(at, "healthCheckNodePort", "may only be set for a load balancer with the policy 'Local'");
    }
}

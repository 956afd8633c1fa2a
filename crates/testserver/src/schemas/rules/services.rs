//! Rules of Services.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::schemas::rules::formats::is_cidr;
use crate::schemas::rules::walk::{At, Walk, is_empty, list};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    if message != "ServiceSpec" {
        return;
    }
    let kind = at.text("type");
    let (is_balancer, is_name) = (kind == "LoadBalancer", kind == "ExternalName");
    let addresses = at.list("clusterIPs");
    let is_headless = addresses == [json!("None")];
    if at.list("ports").is_empty() && !is_headless && !is_name {
        walk.required(at.at("ports"));
    }
    if is_headless && matches!(kind, "LoadBalancer" | "NodePort") {
        walk.invalid(at.at("clusterIPs[0]"), &json!("None"), "may not be set to 'None' for this type");
    }
    if is_name {
        external_name(walk, at);
    } else {
        cluster_addresses(walk, at, is_headless);
    }
    ports(walk, at, kind);
    if at.text("sessionAffinity") == "None" && at.has("sessionAffinityConfig") {
        walk.forbidden(at.at("sessionAffinityConfig"), "must not be set when session affinity is None");
    }
    let ranges = at.list("loadBalancerSourceRanges");
    if !is_balancer {
        for (key, field) in [
            ("loadBalancerSourceRanges", "LoadBalancerSourceRanges"),
            ("allocateLoadBalancerNodePorts", "allocateLoadBalancerNodePorts"),
            ("loadBalancerClass", "loadBalancerClass"),
        ] {
            if !is_empty(at.get(key)) || (at.has(key) && at.get(key) == false) {
                walk.forbidden(at.at(field), "may only be used when `type` is 'LoadBalancer'");
            }
        }
    }
    for (index, range) in ranges.iter().enumerate() {
        if !is_cidr(range.as_str().unwrap_or("").trim()) {
            walk.invalid(
                at.at(format!("LoadBalancerSourceRanges[{index}]")),
                range,
                "must be a valid CIDR value",
            );
        }
    }
    traffic(walk, at, kind);
}

fn external_name(walk: &mut Walk, at: &At<'_>) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(at.get(key)) {
            walk.forbidden(at.at(key), "may not be set for ExternalName services");
        }
    }
    let name = at.text("externalName").trim_end_matches('.');
    if name.is_empty() {
        walk.required(at.at("externalName"));
    } else if !crate::wire::names::is_subdomain(name) {
        walk.invalid(at.at("externalName"), &name.into(), crate::wire::names::SUBDOMAIN);
    }
}

/// The server has only IPv4 addresses.
fn cluster_addresses(walk: &mut Walk, at: &At<'_>, is_headless: bool) {
    let addresses = at.list("clusterIPs");
    let first = addresses.first().and_then(Value::as_str).unwrap_or("");
    if first != at.text("clusterIP") {
        walk.bad(at, "clusterIPs", "first value must match `clusterIP`");
    }
    for (index, address) in addresses.iter().enumerate().filter(|_| !is_headless) {
        let parsed = address.as_str().unwrap_or("").parse::<IpAddr>();
        let family = at.list("ipFamilies").get(index).and_then(Value::as_str);
        let is_of_family = |address: &IpAddr| {
            family.is_none_or(|family| {
                !matches!(family, "IPv4" | "IPv6") || (family == "IPv4") == address.is_ipv4()
            })
        };
        if !parsed.is_ok_and(|address| is_of_family(&address)) {
            walk.invalid(
                at.at(format!("clusterIPs[{index}]")),
                address,
                "must be a valid IP address of the family",
            );
        }
    }
    if addresses.len() > 1 {
        walk.bad(at, "clusterIPs", "may specify no more than one IP for each IP family");
    }
    let old = list(at.old("clusterIPs"));
    let was_headless = old == [json!("None")];
    if walk.is_update && !old.is_empty() && !(was_headless && is_headless) && old.first() != addresses.first()
    {
        walk.invalid(at.at("clusterIPs[0]"), at.get("clusterIPs"), "may not change once set");
    }
    if !walk.is_update && at.text("ipFamilyPolicy") == "RequireDualStack" && !is_headless {
        let text = "this cluster is not configured for dual-stack services";
        walk.invalid(at.at("ipFamilyPolicy"), at.get("ipFamilyPolicy"), text);
    }
    if !walk.is_update && at.list("ipFamilies").first().is_some_and(|family| family == "IPv6") {
        walk.invalid(at.at("ipFamilies[0]"), &json!("IPv6"), "not configured on this cluster");
    }
}

fn ports(walk: &mut Walk, at: &At<'_>, kind: &str) {
    let ports = at.list("ports");
    let (mut seen, mut nodes): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, port) in ports.iter().enumerate() {
        let path = at.at(format!("ports[{index}]"));
        if ports.len() > 1 && is_empty(&port["name"]) {
            walk.required(format!("{path}.name"));
        }
        let key = (&port["port"], &port["protocol"]);
        if seen.contains(&key) {
            walk.duplicate(&path, port);
        }
        seen.push(key);
        let Some(number) = port["nodePort"].as_i64() else { continue };
        let path = format!("{path}.nodePort");
        if kind == "ClusterIP" {
            walk.forbidden(&path, "may not be used when `type` is 'ClusterIP'");
        } else if kind != "ExternalName" && !(30000..=32767).contains(&number) {
            walk.invalid(
                &path,
                &port["nodePort"],
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            );
        }
        if nodes.contains(&(number, &port["protocol"])) {
            walk.duplicate(&path, &port["nodePort"]);
        }
        nodes.push((number, &port["protocol"]));
    }
}

fn traffic(walk: &mut Walk, at: &At<'_>, kind: &str) {
    let is_external = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !at.list("externalIPs").is_empty());
    let policy = at.text("externalTrafficPolicy");
    let path = at.at("externalTrafficPolicy");
    match (is_external, policy) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, _) => walk.invalid(
            path,
            at.get("externalTrafficPolicy"),
            "may only be set for externally-accessible services",
        ),
        (true, "") => walk.required(path),
        (true, _) => walk.unsupported(path, at.get("externalTrafficPolicy"), &["Cluster", "Local"]),
    }
    let needs_check = kind == "LoadBalancer" && policy == "Local";
    let (path, port) = (at.at("healthCheckNodePort"), at.get("healthCheckNodePort"));
    if !needs_check && !port.is_null() {
        walk.invalid(
            path,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        );
    } else if needs_check
        && walk.is_update
        && at.old("externalTrafficPolicy") == "Local"
        && port != at.old("healthCheckNodePort")
    {
        walk.forbidden(path, "field is immutable");
    }
}

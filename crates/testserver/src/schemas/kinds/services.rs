//! Defaults and addresses of Services.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};

use crate::schemas::kinds::defaults::{fill, items, object_mut};

type Object = Map<String, Value>;

/// The start of the addresses. 10.96.0.0/12 is a usual range of clusters.
const RANGE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);

fn text<'a>(spec: &'a Object, key: &str) -> &'a str {
    spec.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Sets the defaults of a spec that depend on other fields, on every write.
pub(crate) fn spec(object: &mut Object) {
    let Some(spec) = object_mut(object, "spec") else { return };
    if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    }
    let has_external_ips =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if text(spec, "type") == "ClusterIP" && has_external_ips {
        fill(spec, &[("externalTrafficPolicy", json!("Cluster"))]);
    }
    for port in items(spec, "ports") {
        // Go writes 0 for an absent target.
        if port.get("targetPort").is_some_and(|target| *target == 0 || target == "") {
            port.remove("targetPort");
        }
        let number = port.get("port").cloned().unwrap_or_default();
        fill(port, &[("targetPort", number)]);
    }
}

/// The first node port, and the number of node ports.
const NODE_PORTS: (u32, u32) = (30_000, 2_768);

/// Returns whether the ports of a Service are also ports of the nodes.
fn needs_node_ports(spec: &Object) -> bool {
    let is_off = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    text(spec, "type") == "NodePort" || text(spec, "type") == "LoadBalancer" && !is_off
}

/// Assigns the node ports of a Service. An update without a node port keeps the node port of `before`.
fn assign_node_ports(next: &AtomicU32, before: Option<&Object>, spec: &mut Object) {
    let old = before.and_then(|before| before.get("spec")?.as_object());
    let old_ports = old.and_then(|old| old.get("ports"));
    let needed = needs_node_ports(spec);
    let unused = !needed && old.is_some_and(needs_node_ports) && spec.get("ports") == old_ports;
    for port in items(spec, "ports") {
        if unused {
            port.remove("nodePort");
        } else if needed && port.get("nodePort").is_none_or(|number| *number == 0) {
            let mut old_ports = old_ports.and_then(Value::as_array).into_iter().flatten();
            let same = |old: &&Value| ["port", "protocol"].iter().all(|key| port.get(*key) == old.get(*key));
            let kept = old_ports.find(same).and_then(|old| old.get("nodePort")).cloned();
            let new = || NODE_PORTS.0 + next.fetch_add(1, Ordering::Relaxed) % NODE_PORTS.1;
            let number = kept.unwrap_or_else(|| new().into());
            port.insert("nodePort".into(), number);
        }
    }
}

/// Assigns the addresses and node ports of a Service. An update without an address keeps the address of
/// `before`.
pub(crate) fn assign(next: &AtomicU32, before: Option<&Object>, object: &mut Object) {
    let Some(spec) = object_mut(object, "spec") else { return };
    assign_node_ports(next, before, spec);
    if text(spec, "type") == "ExternalName" {
        return;
    }
    if text(spec, "clusterIP").is_empty() {
        let old = before.and_then(|before| before.get("spec")?.get("clusterIP")?.as_str());
        let address = old.map_or_else(
            || Ipv4Addr::from(u32::from(RANGE) + 1 + next.fetch_add(1, Ordering::Relaxed)).to_string(),
            str::to_owned,
        );
        spec.insert("clusterIP".into(), address.into());
    }
    let address = json!([spec["clusterIP"]]);
    fill(
        spec,
        &[("clusterIPs", address), ("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Object {
        let mut object = Map::from_iter([("spec".to_owned(), spec)]);
        let kinds = crate::schemas::kinds::builtin::kinds();
        let kind = kinds.into_iter().find(|kind| kind.is_service()).unwrap();
        crate::schemas::kinds::defaults::spec(&kind, &mut object);
        object
    }

    #[test]
    fn ports_and_policies_get_defaults() {
        let expected = json!({
            "type": "NodePort", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 1, "protocol": "UDP", "targetPort": "a"}]
        });
        let ports = json!([{"port": 80, "targetPort": 0}, {"port": 1, "protocol": "UDP", "targetPort": "a"}]);
        assert_eq!(service(json!({"type": "NodePort", "ports": ports}))["spec"], expected);
        let external = service(json!({"type": "ExternalName"}));
        assert_eq!(external["spec"], json!({"type": "ExternalName", "sessionAffinity": "None"}));
    }

    #[test]
    fn addresses_are_unique_and_stay() {
        let next = AtomicU32::new(0);
        let assigned = |before: Option<&Object>, spec: Value| {
            let mut object = service(spec);
            assign(&next, before, &mut object);
            object
        };
        let first = assigned(None, json!({}));
        assert_eq!(first["spec"]["clusterIPs"], json!(["10.96.0.1"]));
        assert_eq!(assigned(None, json!({}))["spec"]["clusterIP"], "10.96.0.2");
        assert_eq!(assigned(Some(&first), json!({})), first);
        assert_eq!(assigned(None, json!({"clusterIP": "None"}))["spec"]["clusterIPs"], json!(["None"]));
        assert_eq!(assigned(None, json!({"type": "ExternalName"}))["spec"].get("clusterIP"), None);
    }

    #[test]
    fn node_ports_stay_until_the_type_changes() {
        let next = AtomicU32::new(0);
        let assigned = |before: Option<&Object>, kind: &str, ports: Value| {
            let mut object = service(json!({"type": kind, "ports": ports}));
            assign(&next, before, &mut object);
            object
        };
        let first = assigned(None, "NodePort", json!([{"port": 80}, {"port": 81, "nodePort": 31234}]));
        assert_eq!(first["spec"]["ports"][0]["nodePort"], 30_000);
        assert_eq!(first["spec"]["ports"][1]["nodePort"], 31_234);
        let again = assigned(Some(&first), "LoadBalancer", json!([{"port": 81}, {"port": 80}]));
        assert_eq!(again["spec"]["ports"][0]["nodePort"], 31_234);
        assert_eq!(again["spec"]["ports"][1]["nodePort"], 30_000);
        let inside = assigned(Some(&first), "ClusterIP", first["spec"]["ports"].clone());
        assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    }
}

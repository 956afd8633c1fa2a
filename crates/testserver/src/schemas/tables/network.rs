//! The cells of Services, endpoints and ingresses.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{default_name, first_three, int, items, joined, or, plain, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("ingress_class_name", {
        |class, _| default_name(class, "ingressclass.kubernetes.io/is-default-class").into()
    }),
    ("ingress_hosts", |ingress, _| ingress_hosts(ingress).into()),
    ("ingress_ports", {
        |ingress, _| if items(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into()
    }),
    ("join_addresses", |object, _| addresses(object).into()),
    ("service_external", |service, _| service_external(service).into()),
    ("service_ports", |service, _| service_ports(service).into()),
    ("slice_endpoints", |slice, _| {
        let endpoints = items(slice, "/endpoints").iter();
        let all = endpoints.flat_map(|endpoint| items(endpoint, "/addresses")).map(plain);
        or(&first_three(&all.collect::<Vec<_>>()), "<unset>").into()
    }),
    ("slice_ports", |slice, _| {
        let number = |port: &Value| ["port", "name"].iter().find_map(|key| port.get(*key)).map(plain);
        let ports = items(slice, "/ports").iter().map(|port| number(port).unwrap_or_else(|| "*".into()));
        or(&first_three(&ports.collect::<Vec<_>>()), "<unset>").into()
    }),
];

fn ingress_hosts(ingress: &Value) -> String {
    let hosts = items(ingress, "/spec/rules").iter().map(|rule| text(rule, "/host").to_owned());
    let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
    or(&first_three(&hosts), "*").into()
}

/// Returns the sorted addresses of a load balancer.
fn addresses(object: &Value) -> String {
    let ingress = items(object, "/status/loadBalancer/ingress").iter();
    let all = ingress.map(|of| or(text(of, "/ip"), text(of, "/hostname"))).filter(|of| !of.is_empty());
    Vec::from_iter(all.collect::<BTreeSet<_>>()).join(",")
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

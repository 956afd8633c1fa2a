//! Programs written with `kube`, in one process with the server and without a socket: each of `Api`'s verbs, watchers
//! and reflectors, a `Controller`, and what else `kube-runtime` has for operators.

mod api;
mod controller;
mod helpers;
mod subresources;
mod watchers;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::{Api, Client};
use kube_testserver::Server;

/// Bounds each wait for a change; tests run on a paused clock, so nobody waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn config_maps(server: &Server) -> Api<ConfigMap> {
    Api::default_namespaced(client(server))
}

fn config_map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

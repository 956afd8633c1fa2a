//! Programs that use `kube` in the process of the server, without a socket: all methods of `Api`,
//! watchers and reflectors, a `Controller`, and other helpers of `kube-runtime`.

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

/// The deadline of each wait for a change. The clock is paused, so this costs no time.
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

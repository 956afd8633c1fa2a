//! A type that an operator's author would write, and a server that has it.

use kube::{CustomResource, CustomResourceExt};
use kube_testserver::{Plan, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the objects below are served as.
pub(crate) const VERSION: &str = "shop.example.com/v1";

/// A site is to say something.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "shop.example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {
    pub(crate) says: String,
}

/// What it says.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct SiteStatus {
    pub(crate) said: String,
}

/// A server with a garbage collector that knows sites, and with these faults.
pub(crate) fn server(plan: Option<Plan>) -> Server {
    let builder = Server::builder().garbage_collector(true);
    let builder = match plan {
        Some(plan) => builder.plan(plan),
        None => builder,
    };
    let server = builder.build();
    server.create(serde_json::to_value(Site::crd()).unwrap()).unwrap();
    server
}

/// A new site, as the server is told of it.
pub(crate) fn site(name: &str, says: &str, finalizers: &[&str]) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "finalizers": finalizers});
    json!({"apiVersion": VERSION, "kind": "Site", "metadata": metadata, "spec": {"says": says}})
}

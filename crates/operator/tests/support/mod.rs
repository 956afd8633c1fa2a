//! A custom resource, and a server that serves the resource.

use kube::CustomResource;
use kube_testserver::{FaultPlan, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The API version of the objects.
pub(crate) const VERSION: &str = "shop.example.com/v1";

/// The desired text of a site.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "shop.example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {
    pub(crate) says: String,
}

/// The actual text of a site.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct SiteStatus {
    pub(crate) said: String,
}

/// Returns a server with a garbage collector, the CRD of sites, and these faults.
pub(crate) fn server(plan: Option<FaultPlan>) -> Server {
    let builder = Server::builder().garbage_collector(true);
    let builder = match plan {
        Some(plan) => builder.plan(plan),
        None => builder,
    };
    let server = builder.build();
    server.install::<Site>().unwrap();
    server
}

/// Returns the JSON of a new site.
pub(crate) fn site(name: &str, says: &str, finalizers: &[&str]) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "finalizers": finalizers});
    json!({"apiVersion": VERSION, "kind": "Site", "metadata": metadata, "spec": {"says": says}})
}

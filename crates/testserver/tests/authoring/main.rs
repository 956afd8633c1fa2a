//! The methods with which tests set up and check the state of a server.

use kube::CustomResource;
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

mod journal;
mod load;
mod snapshots;
mod until;
mod verbs;

/// A custom resource with a status.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[kube(derive = "PartialEq")]
pub(crate) struct SiteSpec {
    pub(crate) text: String,
    pub(crate) replicas: Option<i32>,
}

/// The status of a site.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct SiteStatus {
    pub(crate) ready: bool,
}

pub(crate) fn site(name: &str, text: &str) -> Site {
    Site::new(name, SiteSpec { text: text.into(), replicas: None })
}

/// Returns a server that serves sites.
pub(crate) fn server() -> Server {
    let server = Server::new();
    server.install::<Site>().expect("a valid CRD");
    server
}

/// Removes the schema of sites, and creates a site whose spec does not match the Rust type.
pub(crate) fn create_malformed_site(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let crd = json!({"spec": {"versions": [version]}});
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    server.patch_untyped(api_version, kind, None, "sites.example.com", &crd).expect("a valid CRD");
    let site =
        json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "malformed"}, "spec": 5});
    server.create(&site).expect("an object without a schema");
}

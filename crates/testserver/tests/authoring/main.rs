//! The methods with which tests set up and check the state of a server.

use kube::CustomResource;
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

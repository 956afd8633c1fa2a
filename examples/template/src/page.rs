//! The custom resource `Page`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text that the operator publishes as a ConfigMap.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
pub(crate) struct PageSpec {
    /// The text for the ConfigMap.
    pub text: String,
}

/// The observed state of a `Page`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageStatus {
    /// The generation of the last published spec.
    pub observed_generation: Option<i64>,
}

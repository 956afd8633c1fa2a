//! The CRD.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A page, and how many serve it.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "examples.kube-informer.dev",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    shortname = "site",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// What visitors see.
    pub html: String,
    /// How many Pods serve it.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

fn one() -> i32 {
    1
}

/// How it is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation that the conditions are of.
    pub observed_generation: Option<i64>,
    /// Which process has written this.
    pub written_by: Option<String>,
    /// `Ready`: all that the site asks for is there and serves.
    #[serde(default)]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// As in the CRDs that Go programs generate: conditions are merged by type.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string"},
                "message": {"type": "string"},
            },
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        },
    })
}

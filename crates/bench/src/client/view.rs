//! A projection: the fields of a Pod that a program needs, as a program would declare them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// Where a Pod runs and how it is.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub(super) struct PodView {
    metadata: ObjectMeta,
    #[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
    spec: Option<Spec>,
    #[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

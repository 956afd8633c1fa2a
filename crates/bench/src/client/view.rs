//! A projection of Pods, as a typical program declares it.

use serde::Deserialize;

/// The node and the status of a Pod.
#[derive(Debug, Deserialize)]
pub(super) struct PodView {
    #[expect(dead_code, reason = "stored in the cache; a real program reads this field")]
    spec: Option<Spec>,
    #[expect(dead_code, reason = "stored in the cache; a real program reads this field")]
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "stored in the cache; a real program reads this field")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "stored in the cache; a real program reads this field")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "stored in the cache; a real program reads this field")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

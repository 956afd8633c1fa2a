//! A projection: the fields of a Pod that a program needs, as a program would declare them.

use serde::Deserialize;

/// Where a Pod runs and how it is.
#[derive(Debug, Deserialize)]
pub(super) struct PodView {
    #[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
    spec: Option<Spec>,
    #[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "kept in the cache, as a program would that reads it")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

//! The custom resource `Website`, with a spec, a status and conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The type of the condition that is true when all children are up to date.
const READY: &str = "Ready";

/// The spec of a Website.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    schema = "disabled"
)]
pub(super) struct WebsiteSpec {
    /// The image of the containers.
    pub(super) image: String,
    /// The number of replicas.
    pub(super) replicas: i32,
    /// The HTML of the page.
    pub(super) html: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WebsiteStatus {
    /// The generation of the last reconciled spec.
    observed_generation: Option<i64>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl Website {
    /// Returns true if the status reports the current spec as ready.
    pub(super) fn is_reported(&self) -> bool {
        let Some(status) = &self.status else { return false };
        let is_ready = |condition: &Condition| condition.type_ == READY && condition.status == "True";
        status.observed_generation == self.metadata.generation && status.conditions.iter().any(is_ready)
    }

    /// Returns a merge patch that reports the current spec as ready.
    pub(super) fn report(&self) -> Value {
        let generation = self.metadata.generation;
        let conditions = self.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let before =
            conditions.iter().find(|condition| condition.type_ == READY && condition.status == "True");
        let condition = Condition {
            type_: READY.to_owned(),
            status: "True".to_owned(),
            reason: "Applied".to_owned(),
            message: "all children are up to date".to_owned(),
            observed_generation: generation,
            last_transition_time: before
                .map_or_else(|| Time(Timestamp::now()), |before| before.last_transition_time.clone()),
        };
        json!({"status": {"observedGeneration": generation, "conditions": [condition]}})
    }
}

/// Returns the CRD of Websites.
pub(super) fn definition() -> Value {
    let text = || json!({"type": "string"});
    let spec = json!({
        "type": "object", "required": ["image", "replicas", "html"],
        "properties": {
            "image": text(), "html": text(),
            "replicas": {"type": "integer", "format": "int32", "minimum": 0}
        }
    });
    let number = || json!({"type": "integer", "format": "int64"});
    let condition = json!({
        "type": "object", "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(), "status": text(), "reason": text(), "message": text(),
            "lastTransitionTime": {"type": "string", "format": "date-time"}, "observedGeneration": number()
        }
    });
    let conditions = json!({
        "type": "array", "items": condition,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]
    });
    let status = json!({
        "type": "object", "properties": {"observedGeneration": number(), "conditions": conditions}
    });
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "websites", "singular": "website", "kind": "Website"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}
            }]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn website(generation: i64, status: &Value) -> Website {
        let website = json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"name": "a", "generation": generation},
            "spec": {"image": "i", "replicas": 1, "html": "h"}, "status": status
        });
        serde_json::from_value(website).unwrap()
    }

    #[test]
    fn a_report_is_of_one_generation_and_keeps_the_time_of_the_first() {
        let new = website(1, &Value::Null);
        assert!(!new.is_reported());
        let reported = new.report()["status"].clone();
        assert!(website(1, &reported).is_reported());

        let changed = website(2, &reported);
        assert!(!changed.is_reported());
        let again = changed.report()["status"].clone();
        assert!(website(2, &again).is_reported());
        let time = |status: &Value| status["conditions"][0]["lastTransitionTime"].clone();
        assert_eq!(time(&again), time(&reported));
    }
}

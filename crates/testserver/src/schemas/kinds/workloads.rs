//! Defaults of the kinds that run pods: fields that clients rely on, such as the number of replicas.

use serde_json::{Map, Value, json};

use crate::schemas::kinds::defaults::{fill, items, object_mut, pod_spec};
use crate::schemas::kinds::kind::Kind;
use crate::wire::object::{meta, metadata_mut};

type Object = Map<String, Value>;

/// The label of the Pods of a Job.
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

/// Sets the defaults of a spec, on every write.
pub(crate) fn spec(kind: &Kind, object: &mut Object) {
    let defaults = match (kind.group.as_str(), kind.plural.as_str()) {
        ("apps", "deployments") => deployment(object),
        ("apps", "statefulsets") => stateful_set(object),
        ("apps", "daemonsets") => daemon_set(object),
        ("apps", "replicasets") => json!({"replicas": 1}),
        ("", "replicationcontrollers") => replication_controller(object),
        ("batch", "jobs") => job(object),
        ("batch", "cronjobs") => json!({
            "concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1
        }),
        _ => return,
    };
    if let Some(spec) = object_mut(object, "spec") {
        complete(spec, &defaults);
        for claim in items(spec, "volumeClaimTemplates") {
            fill(claim, &[("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
            claim.insert("status".into(), json!({"phase": "Pending"}));
            if let Some(spec) = object_mut(claim, "spec") {
                crate::schemas::kinds::cluster::claim(spec);
            }
        }
        let jobs = spec.contains_key("jobTemplate").then_some("jobTemplate");
        let spec = match jobs {
            Some(jobs) => object_mut(spec, jobs).and_then(|jobs| object_mut(jobs, "spec")),
            None => Some(spec),
        };
        let template = spec.and_then(|spec| object_mut(spec, "template"));
        let template = template.and_then(|template| object_mut(template, "spec"));
        if let Some(template) = template {
            pod_spec(template);
        }
    }
}

fn complete(spec: &mut Object, defaults: &Value) {
    for (key, value) in defaults.as_object().into_iter().flatten() {
        fill(spec, &[(key, value.clone())]);
    }
}

/// Returns whether the update strategy is a rolling update, the default. Only a rolling update has
/// parameters.
fn is_rolling(object: &Object, key: &str) -> bool {
    let kind = object.get("spec").and_then(|spec| spec.get(key)).and_then(|strategy| strategy.get("type"));
    kind.and_then(Value::as_str).is_none_or(|kind| kind == "RollingUpdate")
}

fn strategy(object: &mut Object, key: &str, parameters: &Value) {
    let rolling = is_rolling(object, key);
    let Some(spec) = object_mut(object, "spec") else { return };
    fill(spec, &[(key, json!({}))]);
    let Some(strategy) = object_mut(spec, key) else { return };
    fill(strategy, &[("type", json!("RollingUpdate"))]);
    if rolling {
        fill(strategy, &[("rollingUpdate", json!({}))]);
        if let Some(rolling) = object_mut(strategy, "rollingUpdate") {
            complete(rolling, parameters);
        }
    }
}

fn deployment(object: &mut Object) -> Value {
    strategy(object, "strategy", &json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
    json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
}

fn stateful_set(object: &mut Object) -> Value {
    strategy(object, "updateStrategy", &json!({"partition": 0}));
    json!({
        "replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}
    })
}

fn daemon_set(object: &mut Object) -> Value {
    strategy(object, "updateStrategy", &json!({"maxUnavailable": 1, "maxSurge": 0}));
    json!({"revisionHistoryLimit": 10})
}

/// Copies the selector and the labels from the template if they are not set.
fn replication_controller(object: &mut Object) -> Value {
    let labels = labels_of_template(object);
    labels.map_or_else(|| json!({"replicas": 1}), |labels| json!({"replicas": 1, "selector": labels}))
}

/// Returns the labels of the template. An object without labels receives the same labels.
fn labels_of_template(object: &mut Object) -> Option<Value> {
    let template = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels"));
    let labels = template.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty())).cloned()?;
    let metadata = metadata_mut(object);
    if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
        metadata.insert("labels".into(), labels.clone());
    }
    Some(labels)
}

/// Gives a new Job a selector, and its Pods the labels of the selector.
pub(crate) fn select(kind: &Kind, object: &mut Object) {
    let is_manual = object.get("spec").is_some_and(|spec| spec["manualSelector"] == true);
    if (kind.group.as_str(), kind.plural.as_str()) != ("batch", "jobs") || is_manual {
        return;
    }
    let (uid, name) = (json!(meta(object, "uid")), json!(meta(object, "name")));
    let new = [
        (JOB_UID, uid.clone()),
        ("controller-uid", uid.clone()),
        ("batch.kubernetes.io/job-name", name.clone()),
        ("job-name", name),
    ];
    if let Some(labels) = inside(object, &["spec", "template", "metadata", "labels"]) {
        fill(labels, &new);
    }
    if let Some(labels) = inside(object, &["spec", "selector", "matchLabels"]) {
        fill(labels, &new[..1]);
    }
}

/// Returns the object at `path`, and creates it if it does not exist.
fn inside<'a>(object: &'a mut Object, path: &[&str]) -> Option<&'a mut Object> {
    path.iter().try_fold(object, |object, key| {
        fill(object, &[(key, json!({}))]);
        object_mut(object, key)
    })
}

/// A job without both fields runs one pod once. A job with only a parallelism is a work queue.
fn job(object: &mut Object) -> Value {
    labels_of_template(object);
    if let Some(spec) = object_mut(object, "spec").filter(|spec| !spec.contains_key("parallelism")) {
        fill(spec, &[("completions", json!(1))]);
    }
    let has_policy = object.get("spec").is_some_and(|spec| !spec["podFailurePolicy"].is_null());
    let replacement = if has_policy { "Failed" } else { "TerminatingOrFailed" };
    json!({
        "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "manualSelector": false, "podReplacementPolicy": replacement
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(plural: &str, spec: &Value) -> Value {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.plural == plural).unwrap();
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec}).as_object().unwrap().clone();
        super::spec(&kind, &mut object);
        Value::Object(object)
    }

    #[test]
    fn replicas_default_to_one() {
        for plural in ["deployments", "replicasets", "statefulsets", "replicationcontrollers"] {
            assert_eq!(completed(plural, &json!({}))["spec"]["replicas"], 1, "{plural}");
            assert_eq!(completed(plural, &json!({"replicas": 0}))["spec"]["replicas"], 0, "{plural}");
        }
    }

    #[test]
    fn only_rolling_updates_get_parameters() {
        let rolling = completed("deployments", &json!({"strategy": {"rollingUpdate": {"maxSurge": 1}}}));
        let expected =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}});
        assert_eq!(rolling["spec"]["strategy"], expected);
        let recreated = completed("deployments", &json!({"strategy": {"type": "Recreate"}}));
        assert_eq!(recreated["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn only_a_job_without_manual_selector_gets_one() {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.kind == "Job").unwrap();
        let selected = |spec: &Value| {
            let job = json!({"metadata": {"name": "sum", "uid": "u"}, "spec": spec});
            let Value::Object(mut job) = job else { panic!("no object") };
            select(&kind, &mut job);
            super::spec(&kind, &mut job);
            Value::Object(job)
        };
        let job = selected(&json!({"template": {"metadata": {"labels": {"job-name": "mine"}}}}));
        let labels = json!({
            "controller-uid": "u", "job-name": "mine", JOB_UID: "u", "batch.kubernetes.io/job-name": "sum"
        });
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {JOB_UID: "u"}}));
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(selected(&json!({"manualSelector": true}))["spec"].get("selector"), None);
    }

    #[test]
    fn pod_templates_get_pod_defaults() {
        let containers = json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let deployment = completed("deployments", &containers);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], pod.get("enableServiceLinks")), (&json!("Always"), None));
        let controller =
            completed("replicationcontrollers", &json!({"template": {"metadata": {"labels": {"a": "b"}}}}));
        assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
    }
}

//! Defaults of the kinds that run pods: fields that clients rely on, such as the number of replicas.

use serde_json::{Map, Value, json};

use crate::schemas::kinds::defaults::{fill, items, object_mut};
use crate::schemas::kinds::kind::Kind;
use crate::wire::object::{meta, metadata_mut};

type Object = Map<String, Value>;

const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

/// Sets the defaults of a spec that depend on other fields, on every write.
pub(crate) fn spec(kind: &Kind, object: &mut Object) {
    match kind.plural.as_str() {
        "replicationcontrollers" => replication_controller(object),
        "jobs" => job(object),
        _ => {}
    }
    let Some(spec) = object_mut(object, "spec") else { return };
    for claim in items(spec, "volumeClaimTemplates") {
        fill(claim, &[("apiVersion", json!("v1")), ("kind", json!("PersistentVolumeClaim"))]);
        claim.insert("status".into(), json!({"phase": "Pending"}));
        if let Some(spec) = object_mut(claim, "spec") {
            crate::schemas::kinds::cluster::claim(spec);
        }
    }
}

/// Copies the selector and the labels from the template if they are not set.
fn replication_controller(object: &mut Object) {
    let labels = labels_of_template(object);
    if let (Some(labels), Some(spec)) = (labels, object_mut(object, "spec")) {
        fill(spec, &[("selector", labels)]);
    }
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
fn job(object: &mut Object) {
    labels_of_template(object);
    let Some(spec) = object_mut(object, "spec") else { return };
    if !spec.contains_key("parallelism") {
        fill(spec, &[("completions", json!(1))]);
    }
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(
        spec,
        &[
            ("parallelism", json!(1)),
            ("backoffLimit", json!(6)),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("manualSelector", json!(false)),
            ("podReplacementPolicy", json!(replacement)),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(plural: &str, spec: &Value) -> Value {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|kind| kind.plural == plural).unwrap();
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec}).as_object().unwrap().clone();
        crate::schemas::kinds::defaults::spec(&kind, &mut object);
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
            crate::schemas::kinds::defaults::spec(&kind, &mut job);
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

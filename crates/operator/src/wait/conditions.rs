//! Contains conditions for [`await_condition`](crate::await_condition), with the names of kube-runtime's
//! `wait::conditions`.
//!
//! A condition is a function of the object, which is `None` if the object does not exist. Combine
//! conditions in a closure:
//!
//! ```
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube_operator::conditions;
//! let is_running = conditions::is_pod_running();
//! let is_not_running = |pod: Option<&Pod>| !is_running(pod);
//! assert!(is_not_running(None));
//! ```

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{Pod, Service},
        networking::v1::Ingress,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube_client::Resource;

/// Accepts the deletion of the object with this uid: the object does not exist, or another object has its
/// name.
pub fn is_deleted<K: Resource>(uid: &str) -> impl Fn(Option<&K>) -> bool {
    move |object: Option<&K>| object.is_none_or(|object| object.meta().uid.as_deref() != Some(uid))
}

/// Accepts every existing object.
pub fn is_created<K>() -> impl Fn(Option<&K>) -> bool {
    |object: Option<&K>| object.is_some()
}

/// Accepts a Pod in the phase `Running`.
pub fn is_pod_running() -> impl Fn(Option<&Pod>) -> bool {
    |pod: Option<&Pod>| {
        let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        phase == Some("Running")
    }
}

/// Accepts a Job whose condition `Complete` is `True`.
pub fn is_job_completed() -> impl Fn(Option<&Job>) -> bool {
    |job: Option<&Job>| {
        let conditions = job.and_then(|job| job.status.as_ref()?.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| is(&condition.type_, "Complete") && is(&condition.status, "True"))
    }
}

/// Accepts a Deployment whose latest rollout is complete: the reason of the condition `Progressing` is
/// `NewReplicaSetAvailable`.
///
/// Like kube-runtime's condition, this condition does not check `observedGeneration`. Immediately after a
/// change of the Deployment, it can therefore accept the rollout before the change.
pub fn is_deployment_completed() -> impl Fn(Option<&Deployment>) -> bool {
    |deployment: Option<&Deployment>| {
        let conditions = deployment.and_then(|deployment| deployment.status.as_ref()?.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| {
            let is_complete = condition.reason.as_deref() == Some("NewReplicaSetAvailable");
            is(&condition.type_, "Progressing") && is(&condition.status, "True") && is_complete
        })
    }
}

/// Accepts a CRD whose condition `Established` is `True`. To wait until a client can use the custom
/// resource, call [`wait_for_crd`](crate::wait_for_crd).
pub fn is_crd_established() -> impl Fn(Option<&CustomResourceDefinition>) -> bool {
    |crd: Option<&CustomResourceDefinition>| {
        let conditions = crd.and_then(|crd| crd.status.as_ref()?.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| is(&condition.type_, "Established") && is(&condition.status, "True"))
    }
}

/// Accepts a Service if each ingress of its load balancer has an IP address or a host name. Also accepts
/// each Service that does not have the type `LoadBalancer`.
pub fn is_service_loadbalancer_provisioned() -> impl Fn(Option<&Service>) -> bool {
    |service: Option<&Service>| {
        let Some(spec) = service.and_then(|service| service.spec.as_ref()) else { return false };
        if spec.type_.as_deref() != Some("LoadBalancer") {
            return true;
        }
        let ingress =
            service.and_then(|service| service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref());
        ingress.is_some_and(|all| all.iter().all(|one| one.ip.is_some() || one.hostname.is_some()))
    }
}

/// Accepts an Ingress if each ingress of its load balancer has an IP address or a host name.
pub fn is_ingress_provisioned() -> impl Fn(Option<&Ingress>) -> bool {
    |ingress: Option<&Ingress>| {
        let ingress =
            ingress.and_then(|ingress| ingress.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref());
        ingress.is_some_and(|all| all.iter().all(|one| one.ip.is_some() || one.hostname.is_some()))
    }
}

/// Returns whether a field has this text. The type of the field is `String` or `Option<String>`, which
/// depends on the Kubernetes version of k8s-openapi.
fn is(field: &(impl Clone + Into<Option<String>>), text: &str) -> bool {
    field.clone().into().as_deref() == Some(text)
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Asserts that a condition accepts only the first of these objects, and no absent object.
    fn accepts_first<K: DeserializeOwned>(condition: impl Fn(Option<&K>) -> bool, objects: &[Value]) {
        assert!(!condition(None));
        for (number, object) in objects.iter().enumerate() {
            let decoded = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(condition(Some(&decoded)), number == 0, "{object}");
        }
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        json!({"status": {"conditions": [
            {"type": "Other", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]}})
    }

    #[test]
    fn deletion_of_an_object_is_its_absence_or_another_uid() {
        let pod = |uid: &str| -> Pod { serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap() };
        let is_deleted = is_deleted::<Pod>("1");
        assert!(is_deleted(None) && is_deleted(Some(&pod("2"))) && is_deleted(Some(&Pod::default())));
        assert!(!is_deleted(Some(&pod("1"))));
        assert!(is_created::<Pod>()(Some(&pod("1"))) && !is_created::<Pod>()(None));
    }

    #[test]
    fn condition_depends_on_type_status_and_reason() {
        let none = json!({});
        let complete = |status| condition("Complete", status, "");
        accepts_first(is_job_completed(), &[complete("True"), complete("False"), none.clone()]);
        accepts_first(is_job_completed(), &[complete("True"), condition("Failed", "True", "")]);
        let progressing = |status, reason| condition("Progressing", status, reason);
        accepts_first(
            is_deployment_completed(),
            &[
                progressing("True", "NewReplicaSetAvailable"),
                progressing("True", "ReplicaSetUpdated"),
                progressing("False", "NewReplicaSetAvailable"),
                condition("Available", "True", "NewReplicaSetAvailable"),
                none.clone(),
            ],
        );
        accepts_first(
            is_pod_running(),
            &[json!({"status": {"phase": "Running"}}), json!({"status": {"phase": "Pending"}}), none],
        );
    }

    #[test]
    fn crd_is_established_by_its_condition() {
        let crd = |type_, status| {
            let mut crd = condition(type_, status, "");
            crd["spec"] = json!({"group": "g", "scope": "Namespaced", "versions": [],
                "names": {"plural": "sites", "kind": "Site"}});
            crd
        };
        let established =
            [crd("Established", "True"), crd("Established", "False"), crd("NamesAccepted", "True")];
        accepts_first(is_crd_established(), &established);
    }

    #[test]
    fn load_balancer_needs_an_address_of_each_ingress() {
        let service = |ingress: Value| json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": ingress}}});
        let (address, name, neither) = (json!({"ip": "10.0.0.1"}), json!({"hostname": "a"}), json!({}));
        accepts_first(
            is_service_loadbalancer_provisioned(),
            &[
                service(json!([address, name])),
                service(json!([address, neither])),
                service(Value::Null),
                json!({"spec": {"type": "LoadBalancer"}}),
                json!({}),
            ],
        );
        accepts_first(is_service_loadbalancer_provisioned(), &[json!({"spec": {"type": "ClusterIP"}})]);
        let ingress = |ingress: Value| json!({"status": {"loadBalancer": {"ingress": ingress}}});
        accepts_first(
            is_ingress_provisioned(),
            &[ingress(json!([address, name])), ingress(json!([neither])), json!({})],
        );
    }
}

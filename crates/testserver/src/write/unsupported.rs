//! The features of kube-apiserver that this server does not implement, and the check of objects and
//! requests that rely on them.

use std::fmt;
use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;
use crate::status::Status;
use crate::write::Object;

/// Describes a feature of kube-apiserver that the server does not implement.
/// [`unsupported_features`] returns the list.
#[derive(Clone, Copy, Debug)]
pub struct UnsupportedFeature {
    name: &'static str,
    effect: &'static str,
    is_rejected: bool,
    users: Users,
}

#[derive(Clone, Copy)]
enum Users {
    /// Writes of these resources, as `group/plural`.
    Resources(&'static [&'static str]),
    /// Writes of one resource, if the function returns true for the object.
    Objects(&'static str, fn(&Object) -> bool),
    /// Requests for these subresources, as `plural/subresource`.
    Subresources(&'static [&'static str]),
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resources(all) | Self::Subresources(all) => f.debug_list().entries(*all).finish(),
            Self::Objects(resource, _) => f.write_str(resource),
        }
    }
}

impl UnsupportedFeature {
    /// Returns the name of the feature.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Describes the server without this feature.
    pub fn effect(&self) -> &'static str {
        self.effect
    }

    /// Returns whether a [strict](crate::ServerBuilder::strict) server rejects requests that rely on the
    /// feature. Otherwise, it only logs them.
    pub fn is_rejected(&self) -> bool {
        self.is_rejected
    }
}

const fn rejected(name: &'static str, effect: &'static str, users: Users) -> UnsupportedFeature {
    UnsupportedFeature { name, effect, is_rejected: true, users }
}

const fn logged(name: &'static str, effect: &'static str, users: Users) -> UnsupportedFeature {
    UnsupportedFeature { name, effect, is_rejected: false, users }
}

use Users::{Objects, Resources, Subresources};

static FEATURES: [UnsupportedFeature; 13] = [
    rejected(
        "admission policies",
        "the server does not evaluate ValidatingAdmissionPolicies and MutatingAdmissionPolicies",
        Resources(&[
            "admissionregistration.k8s.io/mutatingadmissionpolicies",
            "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "admissionregistration.k8s.io/validatingadmissionpolicybindings",
        ]),
    ),
    rejected(
        "API aggregation",
        "the server does not send requests to the service of an APIService",
        Objects("apiregistration.k8s.io/apiservices", |object| has(object, &["spec", "service"])),
    ),
    rejected(
        "connections to Pods and nodes",
        "there are no logs, exec, attach, port forwarding, proxies and debug containers",
        Subresources(&[
            "nodes/proxy",
            "pods/attach",
            "pods/ephemeralcontainers",
            "pods/exec",
            "pods/log",
            "pods/portforward",
            "pods/proxy",
            "services/proxy",
        ]),
    ),
    rejected(
        "in-place resize of Pods",
        "the server does not serve the subresource resize",
        Subresources(&["pods/resize"]),
    ),
    rejected(
        "tokens of service accounts",
        "the server does not sign tokens; use Access::service_account",
        Subresources(&["serviceaccounts/token"]),
    ),
    rejected(
        "approval of certificate signing requests",
        "the server does not serve the subresource approval, and no signer runs",
        Subresources(&["certificatesigningrequests/approval"]),
    ),
    logged("resource quotas", "no quota limits an object", Resources(&["/resourcequotas"])),
    logged("limit ranges", "no limit or default applies to Pods", Resources(&["/limitranges"])),
    logged(
        "Pod security",
        "the labels pod-security.kubernetes.io of a namespace have no effect",
        Objects("/namespaces", |object| {
            let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
            let labels = labels.and_then(Value::as_object).into_iter().flatten();
            labels.into_iter().any(|(key, _)| key.starts_with("pod-security.kubernetes.io/"))
        }),
    ),
    logged(
        "runtime classes",
        "the server does not set spec.overhead and spec.nodeSelector of a Pod",
        Objects("/pods", |object| has(object, &["spec", "runtimeClassName"])),
    ),
    logged(
        "default storage classes",
        "the server does not set spec.storageClassName of a PersistentVolumeClaim",
        Objects("/persistentvolumeclaims", |object| !has(object, &["spec", "storageClassName"])),
    ),
    logged(
        "priority and fairness",
        "the server does not limit or queue requests",
        Resources(&[
            "flowcontrol.apiserver.k8s.io/flowschemas",
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        ]),
    ),
    logged(
        "token Secrets",
        "the server does not add a token to a Secret of type kubernetes.io/service-account-token",
        Objects("/secrets", |object| {
            object.get("type").is_some_and(|kind| kind == "kubernetes.io/service-account-token")
        }),
    ),
];

/// Returns the features of kube-apiserver that the server does not implement, as far as it can recognize
/// the requests that rely on them.
///
/// The server logs the first use of each feature as a warning. It also rejects some uses, except with
/// [`strict(false)`](crate::ServerBuilder::strict).
pub fn unsupported_features() -> &'static [UnsupportedFeature] {
    &FEATURES
}

fn has(object: &Object, path: &[&str]) -> bool {
    let (first, rest) = path.split_first().expect("a path has a step");
    let value = rest.iter().try_fold(object.get(*first), |value, step| Some(value?.get(*step)));
    value.flatten().is_some_and(|value| *value != Value::Null && *value != "")
}

/// Checks an object before a create or an update.
///
/// # Errors
/// Returns 501 if the server is strict, and does not implement a feature of the object.
pub(crate) fn check(shared: &Shared, kind: &Kind, object: &Object) -> Result<(), Status> {
    if kind.rules.custom {
        return Ok(());
    }
    let is = |resource: &str| resource.split_once('/') == Some((&kind.group, &kind.plural));
    let relies = |feature: &UnsupportedFeature| match feature.users {
        Resources(resources) => resources.iter().any(|resource| is(resource)),
        Objects(resource, relies) => is(resource) && relies(object),
        Subresources(_) => false,
    };
    FEATURES
        .iter()
        .enumerate()
        .filter(|(_, feature)| relies(feature))
        .try_for_each(|used| report(shared, used))
}

/// Checks a request for a subresource that the server does not serve.
///
/// # Errors
/// Returns 501 if the server is strict, and kube-apiserver serves the subresource.
pub(crate) fn check_subresource(shared: &Shared, plural: &str, subresource: &str) -> Result<(), Status> {
    let relies = |feature: &UnsupportedFeature| match feature.users {
        Subresources(all) => all.iter().any(|one| one.split_once('/') == Some((plural, subresource))),
        Resources(_) | Objects(..) => false,
    };
    FEATURES
        .iter()
        .enumerate()
        .filter(|(_, feature)| relies(feature))
        .try_for_each(|used| report(shared, used))
}

fn report(shared: &Shared, (index, feature): (usize, &UnsupportedFeature)) -> Result<(), Status> {
    let bit = 1 << index;
    if shared.reported_features.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        tracing::warn!(feature.name, feature.effect, "a request relies on a feature that is not implemented");
    }
    if shared.config.strict && feature.is_rejected {
        let text = format!("kube-testserver does not implement {}: {}", feature.name, feature.effect);
        return Err(Status::new(501, "NotImplemented", text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Server;
    use crate::schemas::kinds::builtin;

    #[test]
    fn features_contain_only_served_resources() {
        let kinds = builtin::kinds();
        let is_served = |group: &str, plural: &str| {
            kinds.iter().any(|kind| (kind.group.as_str(), kind.plural.as_str()) == (group, plural))
        };
        for feature in unsupported_features() {
            match feature.users {
                Resources(all) => {
                    let mut all = all.iter().filter_map(|resource| resource.split_once('/'));
                    assert!(all.all(|(group, plural)| is_served(group, plural)), "{feature:?}");
                }
                Objects(resource, _) => {
                    let (group, plural) = resource.split_once('/').unwrap();
                    assert!(is_served(group, plural), "{feature:?}");
                }
                Subresources(all) => {
                    let plurals = all.iter().filter_map(|one| one.split_once('/'));
                    for (plural, _) in plurals {
                        assert!(kinds.iter().any(|kind| kind.plural == plural), "{feature:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn strict_server_rejects_what_it_does_not_implement() {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]},
        });
        let own = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.a.b"},
            "spec": {"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        });
        let mut aggregated = own.clone();
        aggregated["metadata"]["name"] = json!("v2.a.b");
        aggregated["spec"]["service"] = json!({"namespace": "default", "name": "s"});
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}});
        let (lenient, strict) = (Server::builder().strict(false).build(), Server::new());
        let names = [Some("admission policies"), None, Some("API aggregation"), None];
        for (object, name) in [policy, own, aggregated, quota].iter().zip(names) {
            assert!(lenient.create(object).is_ok());
            let status = strict.create(object).err();
            let text = name.map(|name| format!("kube-testserver does not implement {name}: "));
            assert_eq!(status.as_ref().map(Status::code), name.map(|_| 501), "{object}");
            assert!(status.is_none_or(|status| status.message().starts_with(&text.unwrap())));
        }
    }

    /// Returns an object that relies on a feature which is only logged.
    fn example(feature: &str) -> serde_json::Value {
        let pod = |field: &str| json!({field: "n", "containers": [{"name": "c", "image": "i"}]});
        let (version, kind, more) = match feature {
            "resource quotas" => ("v1", "ResourceQuota", json!({})),
            "limit ranges" => ("v1", "LimitRange", json!({"spec": {"limits": []}})),
            "Pod security" => ("v1", "Namespace", json!({})),
            "priority classes" => ("v1", "Pod", json!({"spec": pod("priorityClassName")})),
            "runtime classes" => ("v1", "Pod", json!({"spec": pod("runtimeClassName")})),
            "default storage classes" => {
                let resources = json!({"requests": {"storage": "1Gi"}});
                let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": resources});
                ("v1", "PersistentVolumeClaim", json!({"spec": spec}))
            }
            "priority and fairness" => {
                let spec = json!({"priorityLevelConfiguration": {"name": "exempt"}});
                ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", json!({"spec": spec}))
            }
            "token Secrets" => ("v1", "Secret", json!({"type": "kubernetes.io/service-account-token"})),
            _ => panic!("the feature {feature:?} has no example"),
        };
        let mut object = more;
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
            "annotations": {"kubernetes.io/service-account.name": "default"}});
        object
    }

    #[test]
    fn first_use_of_each_logged_feature_is_reported_once() {
        let server = Server::new();
        let reported = || server.shared.reported_features.load(Ordering::Relaxed);
        let features = unsupported_features().iter().enumerate();
        for (index, feature) in features.filter(|(_, feature)| !feature.is_rejected()) {
            let (before, mut object) = (reported(), example(feature.name()));
            for name in ["a", "b"] {
                object["metadata"]["name"] = json!(format!("{name}{index}"));
                server.create(&object).unwrap();
                assert_eq!(reported(), before | 1 << index, "{feature:?}");
            }
        }
    }
}

//! The kinds that have a type in k8s-openapi.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
        batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination,
        core::v1 as core, discovery::v1 as discovery, events::v1 as events, flowcontrol::v1 as flowcontrol,
        networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
        scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
};
use kube_client::{Resource, core::DynamicObject};
use kube_informer::Entry;
use kube_object::{Decode as _, DecodeError, JsonDecoder, RawObject, TypeMeta};
use serde::de::DeserializeOwned;

use super::counted::counted;

/// Decodes an object, and returns the memory of its entry in bytes.
pub(super) type Measure = fn(&RawObject<'_>) -> Result<u64, DecodeError>;

macro_rules! kinds {
    ($($kind:ty),* $(,)?) => {
        /// The types of k8s-openapi, with their kinds.
        const KINDS: &[(&str, &str, Measure)] = &[$((
            <$kind as k8s_openapi::Resource>::API_VERSION,
            <$kind as k8s_openapi::Resource>::KIND,
            entry_bytes::<$kind>,
        )),*];
    };
}

kinds![
    core::ConfigMap,
    core::Endpoints,
    core::Event,
    core::LimitRange,
    core::Namespace,
    core::Node,
    core::PersistentVolume,
    core::PersistentVolumeClaim,
    core::Pod,
    core::PodTemplate,
    core::ReplicationController,
    core::ResourceQuota,
    core::Secret,
    core::Service,
    core::ServiceAccount,
    admission::MutatingWebhookConfiguration,
    admission::ValidatingAdmissionPolicy,
    admission::ValidatingAdmissionPolicyBinding,
    admission::ValidatingWebhookConfiguration,
    apiextensions::CustomResourceDefinition,
    apps::ControllerRevision,
    apps::DaemonSet,
    apps::Deployment,
    apps::ReplicaSet,
    apps::StatefulSet,
    autoscaling::HorizontalPodAutoscaler,
    batch::CronJob,
    batch::Job,
    certificates::CertificateSigningRequest,
    coordination::Lease,
    discovery::EndpointSlice,
    events::Event,
    flowcontrol::FlowSchema,
    flowcontrol::PriorityLevelConfiguration,
    networking::Ingress,
    networking::IngressClass,
    networking::NetworkPolicy,
    node::RuntimeClass,
    policy::PodDisruptionBudget,
    rbac::ClusterRole,
    rbac::ClusterRoleBinding,
    rbac::Role,
    rbac::RoleBinding,
    scheduling::PriorityClass,
    storage::CSIDriver,
    storage::CSINode,
    storage::CSIStorageCapacity,
    storage::StorageClass,
    storage::VolumeAttachment,
];

/// Returns the function that measures the typed form of a kind, and whether the kind has a type. Other kinds
/// have the generic form.
pub(super) fn typed(kind: &TypeMeta) -> (Measure, bool) {
    let known = KINDS.iter().find(|(version, name, _)| kind.api_version == *version && kind.kind == *name);
    known.map_or((entry_bytes::<DynamicObject>, false), |(.., measure)| (*measure, true))
}

/// Decodes an object as `K`, and returns the memory of its entry in bytes.
pub(super) fn entry_bytes<K>(raw: &RawObject<'_>) -> Result<u64, DecodeError>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let (entry, bytes) = counted(|| {
        let object: K = JsonDecoder.decode(raw)?;
        Ok::<_, DecodeError>(Entry::new(raw.id.clone(), Arc::new(object)))
    });
    entry.map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(api_version: &str, kind: &str) -> TypeMeta {
        TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }

    #[test]
    fn built_in_kinds_have_types() {
        for (version, name) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("events.k8s.io/v1", "Event")] {
            assert!(typed(&kind(version, name)).1, "{version} {name}");
        }
        for (version, name) in [("v2", "Pod"), ("example.com/v1", "Pod")] {
            assert!(!typed(&kind(version, name)).1, "{version} {name}");
        }
    }

    #[test]
    fn kinds_are_unique() {
        for (number, (version, name, _)) in KINDS.iter().enumerate() {
            assert!(KINDS[..number].iter().all(|(v, n, _)| (v, n) != (version, name)), "{name}");
        }
    }
}

//! The table of built-in kinds that common programs list and watch.

use std::sync::{Arc, LazyLock};

use crate::schemas::kinds::kind::{Field, Generation, Kind, NAMES, Rules, ScalePaths, group_version};
use crate::schemas::types::merging;
use crate::wire::names::NameRule;

/// A row of the table: group, plural name, kind, short names and flags. Scope and subresources: `c`
/// cluster-scoped, `s` has `/status`, `x` has `/scale`, `g` counts generations. Writes: `u` PUT creates, `v`
/// PUT requires a resourceVersion, `d` DELETE returns the object. Names: `l` names without dots, `r` names
/// are only path segments, `j` names leave room for the names of jobs. Others: `a` is in the category `all`,
/// `2` has the version v2.
struct Row(&'static str, &'static str, &'static str, &'static str, &'static str);

const FLOWCONTROL: &str = "flowcontrol.apiserver.k8s.io";
const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const TABLE: &[Row] = &[
    Row("", "configmaps", "ConfigMap", "cm", ""),
    Row("", "endpoints", "Endpoints", "ep", "u"),
    Row("", "events", "Event", "ev", "ur"),
    Row("", "limitranges", "LimitRange", "limits", "u"),
    Row("", "namespaces", "Namespace", "ns", "csl"),
    Row("", "nodes", "Node", "no", "cs"),
    Row("", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "sd"),
    Row("", "persistentvolumes", "PersistentVolume", "pv", "csd"),
    Row("", "pods", "Pod", "po", "sgda"),
    Row("", "podtemplates", "PodTemplate", "", "ud"),
    Row("", "replicationcontrollers", "ReplicationController", "rc", "sgxa"),
    Row("", "resourcequotas", "ResourceQuota", "quota", "sd"),
    Row("", "secrets", "Secret", "", ""),
    Row("", "serviceaccounts", "ServiceAccount", "sa", "d"),
    Row("", "services", "Service", "svc", "sudla"),
    Row(ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", "", "cgv"),
    Row(ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "", "cgv"),
    Row(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "cg"),
    Row(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "csg"),
    Row(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "cg"),
    Row(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "cg"),
    Row("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "crd,crds", "csg"),
    Row("apiregistration.k8s.io", "apiservices", "APIService", "", "cs"),
    Row(APPS, "controllerrevisions", "ControllerRevision", "", ""),
    Row(APPS, "daemonsets", "DaemonSet", "ds", "sga"),
    Row(APPS, "deployments", "Deployment", "deploy", "sgxa"),
    Row(APPS, "replicasets", "ReplicaSet", "rs", "sgxa"),
    Row(APPS, "statefulsets", "StatefulSet", "sts", "sglxa"),
    Row("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "s2a"),
    Row("batch", "cronjobs", "CronJob", "cj", "sgja"),
    Row("batch", "jobs", "Job", "", "sga"),
    Row("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest", "csr", "cs"),
    Row("coordination.k8s.io", "leases", "Lease", "", "uv"),
    Row("discovery.k8s.io", "endpointslices", "EndpointSlice", "", "g"),
    Row("events.k8s.io", "events", "Event", "ev", "ur"),
    Row(FLOWCONTROL, "flowschemas", "FlowSchema", "", "csg"),
    Row(FLOWCONTROL, "prioritylevelconfigurations", "PriorityLevelConfiguration", "", "csg"),
    Row(NETWORKING, "ingressclasses", "IngressClass", "", "cg"),
    Row(NETWORKING, "ingresses", "Ingress", "ing", "sg"),
    Row(NETWORKING, "ipaddresses", "IPAddress", "ip", "c"),
    Row(NETWORKING, "networkpolicies", "NetworkPolicy", "netpol", "g"),
    Row(NETWORKING, "servicecidrs", "ServiceCIDR", "", "csd"),
    Row("node.k8s.io", "runtimeclasses", "RuntimeClass", "", "c"),
    Row("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "sgvr"),
    Row(RBAC, "clusterrolebindings", "ClusterRoleBinding", "", "cur"),
    Row(RBAC, "clusterroles", "ClusterRole", "", "cur"),
    Row(RBAC, "rolebindings", "RoleBinding", "", "ur"),
    Row(RBAC, "roles", "Role", "", "ur"),
    Row(RESOURCE, "deviceclasses", "DeviceClass", "", "cgd"),
    Row(RESOURCE, "resourceclaims", "ResourceClaim", "", "sd"),
    Row(RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate", "", "d"),
    Row(RESOURCE, "resourceslices", "ResourceSlice", "", "cgd"),
    Row("scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", "cg"),
    Row(STORAGE, "csidrivers", "CSIDriver", "", "cd"),
    Row(STORAGE, "csinodes", "CSINode", "", "cd"),
    Row(STORAGE, "csistoragecapacities", "CSIStorageCapacity", "", ""),
    Row(STORAGE, "storageclasses", "StorageClass", "sc", "cd"),
    Row(STORAGE, "volumeattachments", "VolumeAttachment", "", "csd"),
    Row(STORAGE, "volumeattributesclasses", "VolumeAttributesClass", "vac", "cd"),
];

/// Review kinds. A POST returns a result without storing an object.
const REVIEWS: &[Row] = &[
    Row("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", "", "c"),
    Row("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", "", ""),
    Row("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", "c"),
    Row("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", "c"),
    Row("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", "", "c"),
];

pub(crate) fn reviews() -> impl Iterator<Item = Kind> {
    REVIEWS.iter().map(Row::kind)
}

/// The kind that `/scale` returns and accepts, for objects of all kinds.
pub(crate) static SCALE: LazyLock<Kind> =
    LazyLock::new(|| Row("autoscaling", "scales", "Scale", "", "").kind());

/// The kind that a scheduler sends to bind a pod.
pub(crate) static BINDING: LazyLock<Kind> = LazyLock::new(|| Row("", "bindings", "Binding", "", "").kind());

/// All built-in kinds. All servers of a process share them.
pub(crate) static KINDS: LazyLock<Vec<Arc<Kind>>> =
    LazyLock::new(|| TABLE.iter().map(|row| Arc::new(row.kind())).collect());

#[cfg(test)]
pub(crate) fn kinds() -> Vec<Kind> {
    TABLE.iter().map(Row::kind).collect()
}

impl Row {
    fn kind(&self) -> Kind {
        let &Self(group, plural, kind, short, _) = self;
        let version = if self.has('2') { "v2" } else { "v1" };
        // Nodes and namespaces have their own field conversions, without `metadata.namespace`.
        let names: &[&str] = match (group, plural) {
            ("", "nodes" | "namespaces") => &["metadata.name"],
            _ => &NAMES,
        };
        Kind {
            group: group.into(),
            version: version.into(),
            storage_version: version.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            short_names: short.split(',').filter(|s| !s.is_empty()).map(Into::into).collect(),
            categories: match group {
                ADMISSION | "apiextensions.k8s.io" | "apiregistration.k8s.io" => {
                    vec!["api-extensions".into()]
                }
                _ if self.has('a') => vec!["all".into()],
                _ => Vec::new(),
            },
            rules: self.rules(),
            fields: match plural {
                "events" => crate::schemas::kinds::events::fields(group),
                _ => names.iter().chain(self.fields()).map(|name| Field::at_path(name)).collect(),
            },
            schemas: None,
            columns: None,
            scale: self.has('x').then(|| ScalePaths {
                spec_replicas: ".spec.replicas".into(),
                status_replicas: ".status.replicas".into(),
                label_selector: Some(".spec.selector".into()),
            }),
            merging: LazyLock::new(Box::new(move || merging::schema(&group_version(group, version), kind))),
        }
    }

    fn has(&self, flag: char) -> bool {
        self.4.contains(flag)
    }

    fn rules(&self) -> Rules {
        let generation = match (self.has('g'), self.has('s')) {
            (false, _) => Generation::None,
            (true, true) => Generation::Spec,
            (true, false) => Generation::Content,
        };
        let names = [('l', NameRule::Label), ('r', NameRule::Segment), ('j', NameRule::CronJob)];
        let names = names.into_iter().find(|(flag, _)| self.has(*flag));
        Rules {
            namespaced: !self.has('c'),
            custom: false,
            status: self.has('s'),
            generation,
            names: names.map_or(NameRule::Subdomain, |(_, rule)| rule),
            unconditional_update: !self.has('v'),
            create_on_update: self.has('u'),
            returns_deleted: self.has('d'),
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        match (self.0, self.1) {
            ("", "pods") => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ],
            ("", "nodes") => &["spec.unschedulable"],
            ("", "secrets") => &["type"],
            ("", "namespaces") => &["status.phase"],
            ("", "replicationcontrollers") | (APPS, "replicasets") => &["status.replicas"],
            ("", "services") => &["spec.clusterIP", "spec.type"],
            ("batch", "jobs") => &["status.successful"],
            ("certificates.k8s.io", _) => &["spec.signerName"],
            (RESOURCE, "resourceslices") => &["spec.nodeName", "spec.driver"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_table_once() {
        let all = kinds();
        let mut names: Vec<_> = all.iter().map(|k| (&k.group, &k.plural)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|k| k.plural == k.plural.to_lowercase()));
    }
}

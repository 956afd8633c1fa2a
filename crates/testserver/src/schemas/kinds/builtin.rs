//! The table of built-in kinds that common programs list and watch.

use std::sync::{Arc, LazyLock};

use crate::schemas::kinds::kind::{Field, Generation, Kind, NAMES, Rules, ScalePaths, group_version};
use crate::schemas::types::merging;
use crate::wire::names::NameRule;

/// A row of the table. Scope and subresources in `flags`: `c` cluster-scoped, `s` has `/status`, `g`
/// counts generations. Writes: `u` PUT creates, `v` PUT requires a resourceVersion, `d` DELETE returns
/// the object. Names: `l` names without dots, `r` names are only path segments, `j` names leave room
/// for the names of jobs.
struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    flags: &'static str,
}

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    flags: &'static str,
) -> Row {
    Row { group, version, plural, kind, short, flags }
}

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const TABLE: &[Row] = &[
    row("", "v1", "configmaps", "ConfigMap", "cm", ""),
    row("", "v1", "endpoints", "Endpoints", "ep", "u"),
    row("", "v1", "events", "Event", "ev", "ur"),
    row("", "v1", "limitranges", "LimitRange", "limits", "u"),
    row("", "v1", "namespaces", "Namespace", "ns", "csl"),
    row("", "v1", "nodes", "Node", "no", "cs"),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "sd"),
    row("", "v1", "persistentvolumes", "PersistentVolume", "pv", "csd"),
    row("", "v1", "pods", "Pod", "po", "sgd"),
    row("", "v1", "podtemplates", "PodTemplate", "", "ud"),
    row("", "v1", "replicationcontrollers", "ReplicationController", "rc", "sg"),
    row("", "v1", "resourcequotas", "ResourceQuota", "quota", "sd"),
    row("", "v1", "secrets", "Secret", "", ""),
    row("", "v1", "serviceaccounts", "ServiceAccount", "sa", "d"),
    row("", "v1", "services", "Service", "svc", "sudl"),
    row(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", "", "cgv"),
    row(ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "", "cgv"),
    row(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "cg"),
    row(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "csg"),
    row(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "cg"),
    row(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "cg"),
    row(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd,crds",
        "csg",
    ),
    row("apiregistration.k8s.io", "v1", "apiservices", "APIService", "", "cs"),
    row(APPS, "v1", "controllerrevisions", "ControllerRevision", "", ""),
    row(APPS, "v1", "daemonsets", "DaemonSet", "ds", "sg"),
    row(APPS, "v1", "deployments", "Deployment", "deploy", "sg"),
    row(APPS, "v1", "replicasets", "ReplicaSet", "rs", "sg"),
    row(APPS, "v1", "statefulsets", "StatefulSet", "sts", "sgl"),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "s"),
    row("batch", "v1", "cronjobs", "CronJob", "cj", "sgj"),
    row("batch", "v1", "jobs", "Job", "", "sg"),
    row("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "csr", "cs"),
    row("coordination.k8s.io", "v1", "leases", "Lease", "", "uv"),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "g"),
    row("events.k8s.io", "v1", "events", "Event", "ev", "ur"),
    row("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", "", "csg"),
    row(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        "",
        "csg",
    ),
    row(NETWORKING, "v1", "ingressclasses", "IngressClass", "", "cg"),
    row(NETWORKING, "v1", "ingresses", "Ingress", "ing", "sg"),
    row(NETWORKING, "v1", "ipaddresses", "IPAddress", "ip", "c"),
    row(NETWORKING, "v1", "networkpolicies", "NetworkPolicy", "netpol", "g"),
    row(NETWORKING, "v1", "servicecidrs", "ServiceCIDR", "", "csd"),
    row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "", "c"),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "sgvr"),
    row(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", "", "cur"),
    row(RBAC, "v1", "clusterroles", "ClusterRole", "", "cur"),
    row(RBAC, "v1", "rolebindings", "RoleBinding", "", "ur"),
    row(RBAC, "v1", "roles", "Role", "", "ur"),
    row(RESOURCE, "v1", "deviceclasses", "DeviceClass", "", "cgd"),
    row(RESOURCE, "v1", "resourceclaims", "ResourceClaim", "", "sd"),
    row(RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "", "d"),
    row(RESOURCE, "v1", "resourceslices", "ResourceSlice", "", "cgd"),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "cg"),
    row(STORAGE, "v1", "csidrivers", "CSIDriver", "", "cd"),
    row(STORAGE, "v1", "csinodes", "CSINode", "", "cd"),
    row(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", "", ""),
    row(STORAGE, "v1", "storageclasses", "StorageClass", "sc", "cd"),
    row(STORAGE, "v1", "volumeattachments", "VolumeAttachment", "", "csd"),
    row(STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass", "vac", "cd"),
];

/// Review kinds. A POST returns a result without storing an object.
const REVIEWS: &[Row] = &[
    row("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", "", "c"),
    row("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", "", ""),
    row("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", "c"),
    row("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", "c"),
    row("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", "", "c"),
];

/// Returns the review kinds.
pub(crate) fn reviews() -> impl Iterator<Item = Kind> {
    REVIEWS.iter().map(Row::kind)
}

/// The kind that `/scale` returns and accepts, for objects of all kinds.
pub(crate) static SCALE: LazyLock<Kind> =
    LazyLock::new(|| row("autoscaling", "v1", "scales", "Scale", "", "").kind());

/// The kind that a scheduler sends to bind a pod.
pub(crate) static BINDING: LazyLock<Kind> =
    LazyLock::new(|| row("", "v1", "bindings", "Binding", "", "").kind());

/// All built-in kinds. All servers of a process share them.
pub(crate) static KINDS: LazyLock<Vec<Arc<Kind>>> =
    LazyLock::new(|| TABLE.iter().map(|row| Arc::new(row.kind())).collect());

/// Returns a copy of all built-in kinds.
#[cfg(test)]
pub(crate) fn kinds() -> Vec<Kind> {
    TABLE.iter().map(Row::kind).collect()
}

impl Row {
    fn kind(&self) -> Kind {
        let Self { group, version, kind, .. } = *self;
        // Nodes and namespaces have their own field conversions, without `metadata.namespace`.
        let names: &[&str] = match (self.group, self.plural) {
            ("", "nodes" | "namespaces") => &["metadata.name"],
            _ => &NAMES,
        };
        Kind {
            group: self.group.into(),
            version: self.version.into(),
            storage_version: self.version.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind),
            short_names: self.short.split(',').filter(|s| !s.is_empty()).map(Into::into).collect(),
            categories: self.categories(),
            rules: self.rules(),
            fields: match self.plural {
                "events" => crate::schemas::kinds::events::fields(self.group),
                _ => names.iter().chain(self.fields()).map(|name| Field::at_path(name)).collect(),
            },
            schemas: None,
            columns: None,
            scale: self.scale(),
            merging: LazyLock::new(Box::new(move || merging::schema(&group_version(group, version), kind))),
        }
    }

    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    fn rules(&self) -> Rules {
        let generation = match (self.has('g'), self.has('s') || self.kind == "EndpointSlice") {
            (false, _) => Generation::None,
            (true, true) if self.kind != "EndpointSlice" => Generation::Spec,
            (true, _) => Generation::Content,
        };
        let names = if self.has('l') {
            NameRule::Label
        } else if self.has('r') {
            NameRule::Segment
        } else if self.has('j') {
            NameRule::CronJob
        } else {
            NameRule::Subdomain
        };
        Rules {
            namespaced: !self.has('c'),
            custom: false,
            status: self.has('s'),
            generation,
            names,
            unconditional_update: !self.has('v'),
            create_on_update: self.has('u'),
            returns_deleted: self.has('d'),
        }
    }

    fn scale(&self) -> Option<ScalePaths> {
        let scales = matches!(
            (self.group, self.plural),
            ("", "replicationcontrollers") | (APPS, "deployments" | "replicasets" | "statefulsets")
        );
        scales.then(|| ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: Some(".spec.selector".into()),
        })
    }

    fn categories(&self) -> Vec<String> {
        const ALL: [&str; 10] = [
            "pods",
            "replicationcontrollers",
            "services",
            "daemonsets",
            "deployments",
            "replicasets",
            "statefulsets",
            "horizontalpodautoscalers",
            "cronjobs",
            "jobs",
        ];
        match self.group {
            ADMISSION | "apiextensions.k8s.io" | "apiregistration.k8s.io" => vec!["api-extensions".into()],
            _ if ALL.contains(&self.plural) => vec!["all".into()],
            _ => Vec::new(),
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        match (self.group, self.plural) {
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

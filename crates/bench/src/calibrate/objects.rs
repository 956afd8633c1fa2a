//! Objects of other kinds than Pods, as programs and components of a cluster write them.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::managed_fields::{ManagedFields, managed_fields};
use crate::pods::{NOT_SENT, Pod, SENT_LABEL};
use crate::wire::Kind;

/// The contents of the objects of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) kind: Kind,
    /// The number of entries: keys of data, containers of a template, images of a node, or members.
    pub(super) entries: usize,
    /// The number of bytes of each value of data or parameters.
    pub(super) bytes: usize,
    pub(super) managed_fields: ManagedFields,
    pub(super) extra: Extra,
}

/// What an object contains in addition to the usual contents of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Nothing,
    /// The sizes of the values of data differ: 1, 4, 16 or 64 times the bytes of the content.
    MixedSizes,
    /// Labels.
    Labels(usize),
    /// Environment variables of the first container of a template.
    Variables(usize),
    /// Resources of a node.
    Resources(usize),
}

impl Content {
    /// Creates the object with this index. `revision` differs between the states of the object.
    pub(super) fn object(&self, index: usize, revision: usize) -> Value {
        let mut rng = Rng::with_seed(index as u64);
        let pod = Pod::new(index);
        let mut object = json!({"metadata": metadata(self.kind, &pod, index, revision)});
        let fields = match self.kind {
            Kind::ConfigMap => json!({"data": self.data(&mut rng)}),
            Kind::Secret => json!({"data": self.data(&mut rng), "type": "Opaque"}),
            Kind::Node => self.node(index, revision),
            Kind::Deployment | Kind::ReplicaSet | Kind::Pod => self.workload(&mut rng, &pod, revision),
            Kind::Database => self.database(&mut rng, index, revision),
        };
        merge(&mut object, fields);
        if let Extra::Labels(count) = self.extra {
            merge(&mut object["metadata"]["labels"], labels(&mut rng, count).into());
        }
        if let Some(fields) = managed_fields(self.managed_fields, &object) {
            object["metadata"]["managedFields"] = fields;
        }
        object
    }

    /// Returns values whose length is a multiple of 4, so that they are valid base64.
    fn data(&self, rng: &mut Rng) -> Map<String, Value> {
        let bytes = |entry: usize| match self.extra {
            Extra::MixedSizes => self.bytes << (2 * (entry % 4)),
            _ => self.bytes,
        };
        let entry =
            |entry| (format!("setting-{entry}.conf"), text(rng, bytes(entry).next_multiple_of(4)).into());
        (0..self.entries).map(entry).collect()
    }

    fn node(&self, index: usize, revision: usize) -> Value {
        let condition = |name: &str| {
            json!({
                "type": name, "status": "False", "reason": format!("KubeletHas{name}"),
                "message": format!("kubelet has no problem of the type {name}"),
                "lastHeartbeatTime": format!("2026-01-01T00:{:02}:00Z", revision % 60),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
        let image = |image: usize| {
            let name = format!("registry.example.com/team-{}/service-{image}", image % 20);
            json!({"names": [format!("{name}@sha256:{image:064x}"), format!("{name}:1.{image}.0")], "sizeBytes": 90_000_000 + image})
        };
        let mut resources =
            json!({"cpu": "16", "memory": "65852852Ki", "pods": "110", "ephemeral-storage": "103079200Ki"});
        if let Extra::Resources(count) = self.extra {
            for number in 0..count {
                resources[format!("example.com/device-{number}")] = number.to_string().into();
            }
        }
        json!({
            "spec": {
                "podCIDR": format!("10.{}.{}.0/24", index / 250, index % 250), "podCIDRs": [format!("10.{}.{}.0/24", index / 250, index % 250)],
                "providerID": format!("cloud:///zone-a/i-{index:017x}"),
                "taints": [{"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}],
            },
            "status": {
                "addresses": [{"type": "InternalIP", "address": format!("10.0.{}.{}", index / 250, index % 250)}, {"type": "Hostname", "address": format!("node-{index}")}],
                "allocatable": resources, "capacity": resources,
                "conditions": conditions,
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "images": (0..self.entries).map(image).collect::<Vec<_>>(),
                "nodeInfo": {
                    "architecture": "amd64", "bootID": format!("{index:032x}"), "containerRuntimeVersion": "containerd://2.1.4",
                    "kernelVersion": "6.12.40", "kubeProxyVersion": "", "kubeletVersion": "v1.36.0", "machineID": format!("{index:032x}"),
                    "operatingSystem": "linux", "osImage": "Example Linux 12", "systemUUID": format!("{index:032x}"),
                },
            },
        })
    }

    /// Returns the fields of a Deployment or ReplicaSet.
    fn workload(&self, rng: &mut Rng, pod: &Pod, revision: usize) -> Value {
        let mut created = pod.created();
        let mut spec = created["spec"].take();
        if let Some(containers) = spec["containers"].as_array_mut() {
            resize(containers, self.entries);
            if let Extra::Variables(count) = self.extra {
                add_variables(&mut containers[0], rng, count);
            }
        }
        let labels = json!({"app": pod.name()});
        let mut fields = json!({
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
            "status": {"replicas": 3, "readyReplicas": revision % 4, "availableReplicas": revision % 4, "observedGeneration": revision},
        });
        if self.kind == Kind::Deployment {
            let condition = |name: &str| {
                json!({
                    "type": name, "status": "True", "reason": "NewReplicaSetAvailable", "message": format!("ReplicaSet {:?} has progressed.", pod.name()),
                    "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            fields["spec"]["strategy"] = rolling;
            fields["spec"]["progressDeadlineSeconds"] = 600.into();
            fields["spec"]["revisionHistoryLimit"] = 10.into();
            fields["status"]["conditions"] = ["Available", "Progressing"].map(condition).to_vec().into();
        }
        fields
    }

    fn database(&self, rng: &mut Rng, index: usize, revision: usize) -> Value {
        let member = |member: usize| json!({"name": format!("db-{index}-{member}"), "address": format!("db-{index}-{member}.db.svc:5432"), "role": "replica", "lagBytes": revision});
        let user = |user: usize| json!({"name": format!("user-{user}"), "secretName": format!("db-{index}-user-{user}"), "privileges": ["SELECT", "INSERT"]});
        let parameter = |parameter: usize| (format!("parameter_{parameter}"), text(rng, self.bytes).into());
        json!({
            "spec": {
                "engine": "postgres", "version": "17.2", "replicas": 3,
                "storage": {"size": "100Gi", "className": "fast"},
                "parameters": (0..6).map(parameter).collect::<Map<String, Value>>(),
                "users": (0..3).map(user).collect::<Vec<_>>(),
                "backup": {"schedule": "0 3 * * *", "bucket": format!("backups-{index}"), "keep": 14},
            },
            "status": {
                "phase": "Running", "readyReplicas": revision % 4,
                "conditions": [{"type": "Ready", "status": "True", "reason": "AllReady", "message": "all members are ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "members": (0..self.entries).map(member).collect::<Vec<_>>(),
            },
        })
    }
}

fn metadata(kind: Kind, pod: &Pod, index: usize, revision: usize) -> Value {
    let mut metadata = json!({
        "name": format!("{}-{}", pod.name(), kind.plural()),
        "uid": format!("6f1c2b3a-0000-4000-8000-{index:012x}"),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/name": pod.name(), "app.kubernetes.io/managed-by": "Helm", SENT_LABEL: NOT_SENT.to_string()},
        "annotations": {"meta.helm.sh/release-name": pod.name(), "example.com/revision": revision.to_string()},
    });
    if kind != Kind::Node {
        metadata["namespace"] = pod.namespace().into();
    }
    metadata
}

/// Returns labels with random values.
pub(super) fn labels(rng: &mut Rng, count: usize) -> Map<String, Value> {
    (0..count).map(|number| (format!("example.com/label-{number}"), text(rng, 12).into())).collect()
}

/// Adds environment variables with random values to a container.
pub(super) fn add_variables(container: &mut Value, rng: &mut Rng, count: usize) {
    let Some(variables) = container["env"].as_array_mut() else { return };
    for number in 0..count {
        variables.push(json!({"name": format!("VARIABLE_{number}"), "value": text(rng, 16)}));
    }
}

/// Merges maps. Other values of `patch` replace the values of `target`.
pub(super) fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        // The restarted Pod reports only its changed conditions. The server keeps the other conditions.
        (Value::Array(target), Value::Array(patch)) if patch.len() < target.len() => {
            target.truncate(target.len() - patch.len());
            target.extend(patch);
        }
        (target, patch) => *target = patch,
    }
}

/// Adds copies of the last item with other names, or removes items. At least one item remains.
pub(super) fn resize(items: &mut Vec<Value>, wanted: usize) {
    items.truncate(wanted.max(1));
    while let Some(mut item) = items.last().cloned()
        && items.len() < wanted
    {
        item["name"] = format!("sidecar-{}", items.len()).into();
        items.push(item);
    }
}

/// Returns random letters and digits.
pub(super) fn text(rng: &mut Rng, bytes: usize) -> String {
    (0..bytes).map(|_| rng.alphanumeric()).collect()
}

//! Realistic Pods: the writes of kube-controller-manager, kube-scheduler and the kubelet during the
//! lifecycle of a Pod. Each Pod is different, and the same index always produces the same writes.

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The label with the time at which the replay server sent an event, in nanoseconds since 1970,
/// with a fixed number of digits. It is a label, because some representations read labels without
/// decoding the object.
pub(crate) const SENT_LABEL: &str = "kube-bench/sent";
/// The value of the label in an object that was not sent by an event.
pub(crate) const NOT_SENT: u64 = 1_000_000_000_000_000_000;

/// The numbers of namespaces and nodes.
const NAMESPACES: usize = 20;
const NODES: u64 = 250;
/// The creation time of the first Pod, in seconds since 1970.
const FIRST_CREATED: i64 = 1_760_000_000;

/// Names of Deployments.
const APPS: [&str; 8] =
    ["checkout", "catalog", "payments", "search-indexer", "recommendations", "sessions", "inventory", "web"];
/// Names of environment variables.
const SETTINGS: [&str; 10] = [
    "LOG_LEVEL",
    "HTTP_PORT",
    "DATABASE_URL",
    "CACHE_SIZE_MB",
    "FEATURE_FLAGS",
    "REGION",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "MAX_CONNECTIONS",
    "REQUEST_TIMEOUT_MS",
    "KAFKA_BROKERS",
];

/// The properties of a Pod that all its writes share.
pub(crate) struct Pod {
    index: usize,
    rng: Rng,
    app: &'static str,
    revision: String,
    node: u64,
    created: Timestamp,
}

/// Returns the namespaces of the first `count` Pods.
pub(crate) fn namespaces(count: usize) -> impl Iterator<Item = String> {
    (0..count.min(NAMESPACES)).map(namespace)
}

fn namespace(index: usize) -> String {
    format!("team-{:02}", index % NAMESPACES)
}

impl Pod {
    /// Creates the Pod with this index.
    pub(crate) fn new(index: usize) -> Self {
        let mut rng = Rng::with_seed(index as u64);
        let app = APPS[rng.usize(..APPS.len())];
        let revision = token(&mut rng, 10);
        let node = rng.u64(..NODES);
        let created = time(FIRST_CREATED + index as i64);
        Self { index, rng, app, revision, node, created }
    }

    /// Returns its namespace.
    pub(crate) fn namespace(&self) -> String {
        namespace(self.index)
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}-{:05x}", self.app, self.revision, self.index)
    }

    /// Returns the object that kube-controller-manager creates for a ReplicaSet.
    pub(crate) fn created(&self) -> Value {
        let mut rng = self.rng.clone();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name(),
                "generateName": format!("{}-{}-", self.app, self.revision),
                "labels": {
                    "app.kubernetes.io/name": self.app,
                    "app.kubernetes.io/part-of": self.namespace(),
                    "app.kubernetes.io/version": format!("1.{}.{}", rng.u8(..40), rng.u8(..20)),
                    "pod-template-hash": self.revision,
                    SENT_LABEL: NOT_SENT.to_string(),
                },
                "annotations": {
                    "checksum/config": token(&mut rng, 64),
                    "kubectl.kubernetes.io/restartedAt": self.created.to_string(),
                    "prometheus.io/port": "9090",
                    "prometheus.io/scrape": "true",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": format!("{}-{}", self.app, self.revision),
                    "uid": uid(&mut rng),
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": self.spec(&mut rng),
        })
    }

    fn spec(&self, rng: &mut Rng) -> Value {
        json!({
            "serviceAccountName": self.app,
            "terminationGracePeriodSeconds": 30 + rng.u32(..60),
            "securityContext": {"fsGroup": 2000, "runAsNonRoot": true, "runAsUser": 1000 + rng.u32(..500)},
            "containers": [self.main_container(rng), self.proxy(rng)],
            "volumes": [
                {"name": "config", "configMap": {"name": format!("{}-config", self.app)}},
                {"name": "tls", "secret": {"secretName": format!("{}-tls", self.app)}},
                {"name": "tmp", "emptyDir": {"sizeLimit": format!("{}Mi", 64 + rng.u32(..512))}},
            ],
            "tolerations": [
                {"key": "dedicated", "operator": "Equal", "value": self.namespace(), "effect": "NoSchedule"},
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": self.app}},
            }],
        })
    }

    fn main_container(&self, rng: &mut Rng) -> Value {
        let mut env: Vec<Value> =
            SETTINGS.iter().map(|name| json!({"name": name, "value": token(rng, 12)})).collect();
        env.push(json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}));
        let probe = |path: &str, period: u32| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": period, "timeoutSeconds": 2});
        json!({
            "name": "app",
            "image": self.image(),
            "args": ["--config=/etc/app/config.yaml", format!("--shard={}", self.index)],
            "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
            "env": env,
            "resources": {
                "requests": {"cpu": format!("{}m", 50 + rng.u32(..900)), "memory": format!("{}Mi", 64 + rng.u32(..900))},
                "limits": {"memory": format!("{}Mi", 1024 + rng.u32(..1024))},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app", "readOnly": true},
                {"name": "tls", "mountPath": "/etc/tls", "readOnly": true},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
            "livenessProbe": probe("/healthz", 10 + rng.u32(..20)),
            "readinessProbe": probe("/readyz", 5 + rng.u32(..10)),
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
        })
    }

    fn proxy(&self, rng: &mut Rng) -> Value {
        json!({
            "name": "proxy",
            "image": "registry.example.com/mesh/proxy:2.31.4",
            "args": ["--upstream=127.0.0.1:8080", format!("--id={}", uid(rng))],
            "ports": [{"name": "https", "containerPort": 8443}],
            "env": [
                {"name": "MESH_ID", "value": token(rng, 8)},
                {"name": "CLUSTER", "value": "eu-west-1"},
            ],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "tls", "mountPath": "/etc/tls", "readOnly": true}],
            "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 5},
        })
    }

    fn image(&self) -> String {
        format!("registry.example.com/{}/server:{}", self.app, self.revision)
    }

    /// Returns the status that kube-scheduler writes while no node has capacity.
    pub(crate) fn unschedulable(&self) -> Value {
        let message =
            format!("0/{NODES} nodes are available: {NODES} Insufficient cpu. no new claims to deallocate");
        json!({"status": {"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": self.after(1),
        }]}})
    }

    /// Returns the binding that kube-scheduler writes.
    pub(crate) fn binding(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self.name(), "namespace": self.namespace()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": format!("node-{:03}", self.node)},
        })
    }

    /// Returns the status that the kubelet writes after the start of the containers.
    pub(crate) fn started(&self) -> Value {
        let conditions =
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
        let condition = |kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": self.after(9)});
        let mut status = self.status(0);
        status["conditions"] = conditions.map(condition).into();
        json!({"status": status})
    }

    /// Returns the status that the kubelet writes after the restart of a container.
    pub(crate) fn restarted(&self) -> Value {
        let mut status = self.status(1);
        status["conditions"] = ["Ready", "ContainersReady"]
            .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": self.after(3600)}))
            .into();
        json!({"status": status})
    }

    fn status(&self, restarts: u32) -> Value {
        let address =
            |network: &str| format!("{network}.{}.{}", self.index / 250 % 250, self.index % 250 + 1);
        json!({
            "phase": "Running",
            "hostIP": address("10.4"),
            "hostIPs": [{"ip": address("10.4")}],
            "podIP": address("10.128"),
            "podIPs": [{"ip": address("10.128")}],
            "startTime": self.after(2),
            "containerStatuses": [
                self.running("app", &self.image(), restarts),
                self.running("proxy", "registry.example.com/mesh/proxy:2.31.4", 0),
            ],
        })
    }

    fn running(&self, name: &str, image: &str, restarts: u32) -> Value {
        let last = match restarts {
            0 => json!({}),
            _ => {
                json!({"terminated": self.killed(&self.container_id(name, restarts - 1))})
            }
        };
        json!({
            "name": name,
            "image": image,
            "imageID": format!("{image}@sha256:{}", self.digest(image, 0)),
            "containerID": self.container_id(name, restarts),
            "ready": true,
            "started": true,
            "restartCount": restarts,
            "lastState": last,
            "state": {"running": {"startedAt": self.after(6 + i64::from(restarts) * 3600)}},
        })
    }

    fn killed(&self, id: &str) -> Value {
        json!({
            "containerID": id,
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": self.after(6),
            "finishedAt": self.after(3600),
        })
    }

    fn container_id(&self, name: &str, restarts: u32) -> String {
        format!("containerd://{}", self.digest(name, restarts))
    }

    /// Returns hexadecimal digits that depend only on the Pod and the arguments.
    fn digest(&self, name: &str, restarts: u32) -> String {
        let words =
            name.bytes().fold(u64::from(restarts), |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let mut rng = Rng::with_seed(words ^ (self.index as u64) << 32);
        (0..64).map(|_| rng.digit(16)).collect()
    }

    fn after(&self, seconds: i64) -> String {
        time(self.created.as_second() + seconds).to_string()
    }
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn token(rng: &mut Rng, length: usize) -> String {
    (0..length).map(|_| rng.digit(36)).collect()
}

fn uid(rng: &mut Rng) -> String {
    let digits: String = (0..32).map(|_| rng.digit(16)).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pods_are_distinct_and_reproducible() {
        let writes = |index| {
            let pod = Pod::new(index);
            format!("{} {} {}", pod.created(), pod.started(), pod.restarted())
        };
        assert_eq!((0..200).map(writes).collect::<HashSet<_>>().len(), 200);
        assert_eq!(writes(7), writes(7));
    }
}

//! Simulates the writes of a live cluster for examples and demos, as if from a scheduler, kubelets and
//! controllers.
//!
//! The workload has two namespaces, three nodes and three apps. It creates Pods as pending, assigns them
//! to nodes, makes them ready, changes them, deletes them, and creates them again with the same names.
//! It also updates the EndpointSlice of each app. Equal seeds produce equal sequences of writes, with
//! one step per period of tokio's time.

use kube_testserver::{Server, Status};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Duration, MissedTickBehavior, interval},
};

struct App {
    namespace: &'static str,
    name: &'static str,
    replicas: usize,
    /// The last number of the Service address, and the third number of the Pod addresses.
    number: usize,
}

const APPS: [App; 3] = [
    App { namespace: "shop", name: "web", replicas: 4, number: 1 },
    App { namespace: "shop", name: "cart", replicas: 2, number: 2 },
    App { namespace: "ops", name: "metrics", replicas: 2, number: 3 },
];
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// Writes to a server like the components of a live cluster. It has a seed, and a period between two
/// steps.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: fastrand::Rng,
    period: Duration,
}

/// Holds a running workload. The workload stops when the handle is dropped.
#[derive(Debug)]
pub struct WorkloadHandle {
    task: JoinHandle<()>,
}

impl WorkloadHandle {
    /// Stops the workload, and waits until its task has stopped.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the workload still stops.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was aborted above, so its error is expected.
        let _ = (&mut self.task).await;
    }
}

impl Drop for WorkloadHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Workload {
    /// Creates a workload with one step per `period`. The minimum period is one millisecond.
    pub fn new(seed: u64, period: Duration) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), period: period.max(Duration::from_millis(1)) }
    }

    /// Creates the initial state: namespaces, nodes, Deployments, Services, running Pods and
    /// EndpointSlices. Existing objects are left unchanged, except for Pods and EndpointSlices.
    pub fn populate(&mut self, server: &Server) {
        for name in ["shop", "ops"] {
            create(server, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        for name in NODES {
            create(server, &node(name));
        }
        for app in &APPS {
            create(server, &app.deployment());
            create(server, &app.service());
            create(server, &app.slice(&[]));
            for ordinal in 0..app.replicas {
                for _ in 0..3 {
                    self.advance(server, app, ordinal);
                }
            }
            app.sync_slice(server);
        }
    }

    /// Creates the initial state, and then starts a task that writes until the handle is stopped or
    /// dropped.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub fn start(mut self, server: &Server) -> WorkloadHandle {
        self.populate(server);
        let server = server.clone();
        let task = tokio::spawn(async move {
            let mut ticks = interval(self.period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                self.step(&server);
            }
        });
        WorkloadHandle { task }
    }

    /// Changes one Pod, and updates the EndpointSlice of its app. Prefers a Pod that is not running yet.
    pub fn step(&mut self, server: &Server) {
        let everything = || APPS.iter().flat_map(|app| (0..app.replicas).map(move |ordinal| (app, ordinal)));
        let on_the_way: Vec<_> =
            everything().filter(|(app, at)| app.stage(server, *at).is_moving()).collect();
        let all: Vec<_> = everything().collect();
        let chosen = if !on_the_way.is_empty() && self.rng.u8(..10) < 7 { &on_the_way } else { &all };
        if let Some((app, ordinal)) = self.rng.choice(chosen) {
            self.advance(server, app, *ordinal);
        }
    }

    /// Moves a Pod to the next stage of its life.
    fn advance(&mut self, server: &Server, app: &App, ordinal: usize) {
        let name = app.pod_name(ordinal);
        let patch =
            |patch: Value| server.patch_untyped("v1", "Pod", Some(app.namespace), &name, &patch).map(drop);
        let done = match app.stage(server, ordinal) {
            Stage::Absent => server.create(&app.pod(ordinal)).map(drop),
            Stage::Pending => {
                let node = NODES[self.rng.usize(..NODES.len())];
                server.bind_pod(app.namespace, &name, node)
            }
            Stage::Assigned(pod) => server.update_status(&app.running(ordinal, pod)).map(drop),
            Stage::Running if self.rng.bool() => {
                let revision = self.rng.u16(..);
                patch(json!({"metadata": {"annotations": {"example.com/config": format!("{revision:04x}")}}}))
            }
            Stage::Running => server.delete_untyped("v1", "Pod", Some(app.namespace), &name).map(drop),
        };
        note(&done);
        app.sync_slice(server);
    }
}

enum Stage {
    Absent,
    Pending,
    Assigned(Value),
    Running,
}

impl Stage {
    fn is_moving(&self) -> bool {
        !matches!(self, Self::Running)
    }
}

impl App {
    fn pod_name(&self, ordinal: usize) -> String {
        format!("{}-{ordinal}", self.name)
    }

    fn pod_ip(&self, ordinal: usize) -> String {
        format!("10.1.{}.{}", self.number, ordinal + 4)
    }

    fn stage(&self, server: &Server, ordinal: usize) -> Stage {
        let Ok(pod) = server.get_untyped("v1", "Pod", Some(self.namespace), &self.pod_name(ordinal)) else {
            return Stage::Absent;
        };
        let running = pod.pointer("/status/phase").is_some_and(|phase| phase == "Running");
        match (running, pod.pointer("/spec/nodeName").is_some()) {
            (true, _) => Stage::Running,
            (false, true) => Stage::Assigned(pod),
            (false, false) => Stage::Pending,
        }
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": {"app": self.name}})
    }

    fn deployment(&self) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(self.name),
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {"metadata": {"labels": {"app": self.name}}, "spec": self.pod_spec()}
            }
        })
    }

    fn pod_spec(&self) -> Value {
        json!({"containers": [{
            "name": self.name, "image": format!("example.com/{}:1", self.name),
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}
        }]})
    }

    fn pod(&self, ordinal: usize) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(&self.pod_name(ordinal)),
            "spec": self.pod_spec()
        })
    }

    /// Returns the Pod with the status that its kubelet would write.
    fn running(&self, ordinal: usize, mut pod: Value) -> Value {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
        pod["status"] = json!({
            "phase": "Running", "qosClass": "Burstable",
            "podIP": self.pod_ip(ordinal), "podIPs": [{"ip": self.pod_ip(ordinal)}],
            "conditions": conditions,
            "containerStatuses": [{
                "name": self.name, "image": format!("example.com/{}:1", self.name), "imageID": "", "ready": true,
                "restartCount": 0, "started": true, "state": {"running": {}}
            }]
        });
        pod
    }

    fn service(&self) -> Value {
        let address = format!("10.96.0.{}", self.number);
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": self.metadata(self.name),
            "spec": {
                "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address],
                "selector": {"app": self.name},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
            }
        })
    }

    fn slice(&self, endpoints: &[Value]) -> Value {
        let mut metadata = self.metadata(&format!("{}-1", self.name));
        metadata["labels"]["kubernetes.io/service-name"] = self.name.into();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]
        })
    }

    /// Lists the running Pods in the EndpointSlice.
    fn sync_slice(&self, server: &Server) {
        let endpoint = |ordinal: usize| {
            let name = self.pod_name(ordinal);
            let pod = server.get_untyped("v1", "Pod", Some(self.namespace), &name).ok()?;
            let address = pod.pointer("/status/podIP")?;
            Some(json!({
                "addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": pod.pointer("/spec/nodeName"),
                "targetRef": {"kind": "Pod", "namespace": self.namespace, "name": name}
            }))
        };
        let endpoints: Vec<Value> = (0..self.replicas).filter_map(endpoint).collect();
        note(&server.update(&self.slice(&endpoints)).map(drop));
    }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        }
    })
}

fn create(server: &Server, object: &Value) {
    note(&server.create(object).map(drop));
}

/// A write is rejected if another client wrote first; the workload ignores it.
fn note(done: &Result<(), Status>) {
    if let Err(status) = done {
        tracing::debug!(%status, "the server rejected a write of the workload");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, steps: usize) -> (Server, u64) {
        let server = Server::new();
        let mut workload = Workload::new(seed, Duration::from_secs(1));
        workload.populate(&server);
        for _ in 0..steps {
            workload.step(&server);
        }
        let version = server.resource_version();
        (server, version)
    }

    #[test]
    fn initial_pods_are_running() {
        let (server, _) = run(1, 0);
        for ordinal in 0..4 {
            let pod = server.get_untyped("v1", "Pod", Some("shop"), &format!("web-{ordinal}")).unwrap();
            assert_eq!(pod["status"]["phase"], "Running");
        }
        let slice =
            server.get_untyped("discovery.k8s.io/v1", "EndpointSlice", Some("shop"), "web-1").unwrap();
        assert_eq!(slice["endpoints"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn same_seed_produces_same_writes() {
        let (one, version) = run(5, 200);
        let (two, same) = run(5, 200);
        assert_eq!(version, same);
        // The uid of a Pod depends on the number of earlier writes.
        let uids = |server: &Server| -> Vec<Value> {
            let pods = server.list_untyped("v1", "Pod", Some("shop")).unwrap();
            pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
        };
        assert_eq!(uids(&one), uids(&two));
        assert_ne!(run(6, 200).1, version);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_once_per_period_until_stopped() {
        let server = Server::new();
        let handle = Workload::new(1, Duration::from_millis(100)).start(&server);
        let before = server.resource_version();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let during = server.resource_version();
        assert!(during >= before + 49, "{before} {during}");
        handle.stop().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(server.resource_version(), during);
    }
}

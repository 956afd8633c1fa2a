//! The steps for the controllers of workloads, Services and namespaces.

use serde_json::{Value, json};

use crate::objects::Objects;
use crate::step::Action::{Create, Delete, Merge, Scale};
use crate::step::{Step, Steps};

pub(crate) fn steps() -> Steps {
    let template = |app| pod_template(app, "example.com/app:1");
    let mut steps = vec![
        Step {
            name: "a new namespace gets a service account",
            actions: vec![Create(namespace("workloads"))],
            is_done: |objects, space| objects.get("ServiceAccount", space, "default").is_some(),
        },
        Step {
            name: "a Deployment becomes Pods, and a Service gets their addresses",
            actions: vec![
                Create(workload("Deployment", "web", json!({"replicas": 3}), &template("web"))),
                Create(service("web", json!({"ports": [{"port": 80, "targetPort": "http"}]}))),
            ],
            is_done: |objects, space| has_endpoints(objects, space, 3),
        },
        Step {
            name: "a Deployment is scaled",
            actions: vec![Scale("Deployment", "web", 5)],
            is_done: |objects, space| has_endpoints(objects, space, 5),
        },
        Step {
            name: "a new image replaces all Pods",
            actions: vec![Merge(
                "Deployment",
                "web",
                json!({"spec": {"template": pod_template("web", "example.com/app:2")}}),
            )],
            is_done: |objects, space| {
                let new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "example.com/app:2";
                has_endpoints(objects, space, 5) && objects.of("Pod", space).filter(new).count() == 5
            },
        },
        Step {
            name: "the garbage collector deletes the Pods of a deleted Deployment",
            actions: vec![Delete("Deployment", "web")],
            is_done: |objects, space| {
                let mut left = objects.of("Pod", space).chain(objects.of("ReplicaSet", space));
                left.next().is_none() && objects.ready_endpoints(space, "web") == 0
            },
        },
    ];
    steps.extend(jobs());
    steps.extend(stateful_sets());
    steps.push(Step {
        name: "a namespace is deleted with its objects",
        actions: vec![Delete("Namespace", "workloads")],
        is_done: |objects, space| {
            let mut left = objects.current.keys();
            left.all(|(kind, namespace, name)| namespace != space && (*kind != "Namespace" || name != space))
        },
    });
    steps
}

fn jobs() -> Steps {
    vec![
        Step {
            name: "a Job completes",
            actions: vec![Create(job("sum"))],
            is_done: |objects, space| {
                objects.get("Job", space, "sum").is_some_and(|job| job["status"]["succeeded"] == 3)
            },
        },
        Step {
            name: "the garbage collector deletes the Pods of a deleted Job",
            actions: vec![Delete("Job", "sum")],
            is_done: |objects, space| objects.of("Pod", space).next().is_none(),
        },
    ]
}

fn stateful_sets() -> Steps {
    vec![
        Step {
            name: "a StatefulSet creates its Pods in order",
            actions: vec![
                Create(service("db", json!({"clusterIP": "None", "ports": [{"port": 5432}]}))),
                Create(workload(
                    "StatefulSet",
                    "db",
                    json!({"replicas": 3, "serviceName": "db"}),
                    &pod_template("db", "example.com/app:1"),
                )),
            ],
            is_done: |objects, space| objects.is_rolled_out("StatefulSet", space, "db", 3),
        },
        Step {
            name: "a StatefulSet deletes its Pods in reverse order",
            actions: vec![Scale("StatefulSet", "db", 1)],
            is_done: |objects, space| objects.is_rolled_out("StatefulSet", space, "db", 1),
        },
    ]
}

fn has_endpoints(objects: &Objects, namespace: &str, replicas: usize) -> bool {
    objects.is_rolled_out("Deployment", namespace, "web", replicas)
        && objects.ready_endpoints(namespace, "web") == replicas
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn pod_template(app: &str, image: &str) -> Value {
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "app", "image": image, "ports": ports}]},
    })
}

fn workload(kind: &str, name: &str, mut spec: Value, template: &Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": name}});
    spec["template"] = template.clone();
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn service(name: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"app": name});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn job(name: &str) -> Value {
    let containers = json!([{"name": "sum", "image": "example.com/sum:1"}]);
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "completions": 3, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
        },
    })
}

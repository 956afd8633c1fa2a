//! The objects that a kubelet writes: the status of a Pod, and its node.

use serde_json::{Value, json};

use crate::wire::object::{Object, meta};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Running {
        ready: bool,
    },
    Completed,
    /// The containers cannot start, for example because an image does not exist.
    Waiting(String),
    /// The containers have terminated with this reason.
    Terminated(String),
    /// The node has ended the Pod, for example with an eviction.
    Ended(String),
}

const CRASH_LOOP: &str = "CrashLoopBackOff";

impl Goal {
    pub(super) fn failed(reason: &str) -> Self {
        match reason {
            "Evicted" | "DeadlineExceeded" | "NodeShutdown" | "Preempting" => Self::Ended(reason.into()),
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" => Self::Waiting(reason.into()),
            "CreateContainerConfigError" | "CreateContainerError" => Self::Waiting(reason.into()),
            CRASH_LOOP => Self::Terminated("Error".into()),
            reason => Self::Terminated(reason.into()),
        }
    }

    fn phase(&self, pod: &Object) -> &'static str {
        match self {
            Self::Waiting(_) => "Pending",
            Self::Terminated(_) if spec(pod, "restartPolicy") == "Never" => "Failed",
            Self::Running { .. } | Self::Terminated(_) => "Running",
            Self::Completed => "Succeeded",
            Self::Ended(_) => "Failed",
        }
    }
}

pub(super) fn spec<'a>(pod: &'a Object, field: &str) -> &'a Value {
    pod.get("spec").map_or(&Value::Null, |spec| &spec[field])
}

fn status<'a>(pod: &'a Object, field: &str) -> &'a Value {
    pod.get("status").map_or(&Value::Null, |status| &status[field])
}

pub(super) fn phase(pod: &Object) -> &str {
    status(pod, "phase").as_str().unwrap_or("")
}

pub(super) fn is_ready(pod: &Object) -> bool {
    find(status(pod, "conditions"), "type", "Ready")["status"] == "True"
}

/// Returns the grace period, in seconds, of a Pod that is being deleted.
pub(super) fn grace(pod: &Object) -> Option<u64> {
    let seconds = pod.get("metadata").and_then(|metadata| metadata["deletionGracePeriodSeconds"].as_u64());
    (!meta(pod, "deletionTimestamp").is_empty()).then_some(seconds.unwrap_or(0))
}

fn find<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    items(list).find(|item| item[key] == value).unwrap_or(&Value::Null)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the Pod with addresses and a start time, if it has none yet.
pub(super) fn with_addresses(pod: &Object, host: &str, own: &str, now: &str) -> Object {
    let own = if spec(pod, "hostNetwork") == true { host } else { own };
    let mut pod = pod.clone();
    let status = pod.entry("status").or_insert_with(|| json!({}));
    if status["podIP"].is_null() {
        (status["hostIP"], status["hostIPs"]) = (host.into(), json!([{"ip": host}]));
        (status["podIP"], status["podIPs"]) = (own.into(), json!([{"ip": own}]));
        status["startTime"] = now.into();
    }
    pod
}

/// Returns the Pod with the status of the goal. If the status agrees with the goal, the Pod is unchanged.
pub(super) fn with_goal(pod: &Object, goal: &Goal, now: &str) -> Object {
    let mut after = pod.clone();
    let after_status = after.entry("status").or_insert_with(|| json!({}));
    let phase = goal.phase(pod);
    after_status["phase"] = phase.into();
    if let Goal::Ended(reason) = goal {
        after_status["reason"] = reason.as_str().into();
    }
    for list in ["initContainers", "containers"] {
        let statuses = list.replace("ontainers", "ontainerStatuses");
        let old = status(pod, &statuses);
        let state_of = |container: &Value| {
            let ends = list == "initContainers" && container["restartPolicy"] != "Always";
            let own = if ends && phase == "Running" { &Goal::Completed } else { goal };
            let old = find(old, "name", container["name"].as_str().unwrap_or(""));
            let mut state = container_status(old, container, own, phase == "Failed", now);
            if ends && *own == Goal::Completed {
                state["ready"] = true.into();
            }
            state
        };
        let states: Vec<Value> = items(spec(pod, list)).map(state_of).collect();
        if !states.is_empty() {
            after_status[&statuses] = states.into();
        }
    }
    after_status["conditions"] = conditions(pod, goal, now);
    after
}

fn container_status(old: &Value, container: &Value, goal: &Goal, is_final: bool, now: &str) -> Value {
    let began = || old.pointer("/state/running/startedAt").cloned().unwrap_or_else(|| now.into());
    let mut restarts = old["restartCount"].as_u64().unwrap_or(0);
    let mut last = if old["lastState"].is_null() { json!({}) } else { old["lastState"].clone() };
    let state = match goal {
        Goal::Running { .. } => json!({"running": {"startedAt": began()}}),
        Goal::Waiting(reason) => json!({"waiting": {"reason": reason}}),
        Goal::Terminated(reason) if !is_final => {
            if old.pointer("/state/waiting/reason").is_none_or(|reason| reason != CRASH_LOOP) {
                (restarts, last) = (restarts + 1, terminated(reason, &began(), now));
            }
            json!({"waiting": {"reason": CRASH_LOOP, "message": "back-off restarting failed container"}})
        }
        _ if old["state"]["terminated"].is_object() => old["state"].clone(),
        Goal::Terminated(reason) => terminated(reason, &began(), now),
        Goal::Ended(_) => terminated("Error", &began(), now),
        Goal::Completed => terminated("Completed", &began(), now),
    };
    json!({
        "name": container["name"], "image": container["image"], "imageID": "", "restartCount": restarts,
        "ready": *goal == Goal::Running { ready: true }, "started": matches!(goal, Goal::Running { .. }),
        "state": state, "lastState": last,
    })
}

fn terminated(reason: &str, began: &Value, now: &str) -> Value {
    let code = match reason {
        "Completed" => 0,
        "OOMKilled" => 137,
        _ => 1,
    };
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now}})
}

/// Returns a running Pod after a restart of its containers, which are not ready yet.
pub(super) fn restarted(pod: &Object, now: &str) -> Object {
    let mut pod = pod.clone();
    let statuses = pod.get_mut("status").and_then(|status| status["containerStatuses"].as_array_mut());
    for status in statuses.into_iter().flatten() {
        let began = status["state"]["running"]["startedAt"].take();
        status["lastState"] = terminated("Error", &began, now);
        status["restartCount"] = (status["restartCount"].as_u64().unwrap_or(0) + 1).into();
        status["state"] = json!({"running": {"startedAt": now}});
    }
    with_goal(&pod, &Goal::Running { ready: false }, now)
}

fn conditions(pod: &Object, goal: &Goal, now: &str) -> Value {
    let old = status(pod, "conditions");
    let ready = *goal == Goal::Running { ready: true };
    let unready = if *goal == Goal::Completed { "PodCompleted" } else { "ContainersNotReady" };
    let wanted = [
        ("PodScheduled", true, ""),
        ("PodReadyToStartContainers", goal.phase(pod) == "Running", ""),
        ("Initialized", !matches!(goal, Goal::Waiting(_)), "ContainersNotInitialized"),
        ("ContainersReady", ready, unready),
        ("Ready", ready, unready),
    ];
    let others = items(old).filter(|other| wanted.iter().all(|(kind, ..)| other["type"] != *kind)).cloned();
    let own = wanted.iter().map(|(kind, holds, reason)| {
        let value = if *holds { "True" } else { "False" };
        let before = find(old, "type", kind);
        let since = if before["status"] == value { &before["lastTransitionTime"] } else { &now.into() };
        let mut condition =
            json!({"type": kind, "status": value, "lastProbeTime": null, "lastTransitionTime": since});
        if !holds && !reason.is_empty() {
            condition["reason"] = (*reason).into();
        }
        condition
    });
    own.chain(others).collect()
}

pub(super) fn node(name: &str, ip: &str, now: &str) -> Value {
    let capacity = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now,
                "lastTransitionTime": now
            }]
        }
    })
}

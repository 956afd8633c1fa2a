//! The life of Pods under a paused clock.

use serde_json::Value;
use tokio::time::sleep;

use super::*;

fn pod(name: &str, restart_policy: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": restart_policy, "initContainers": [{"name": "init", "image": "init:1"}],
            "containers": [{"name": "main", "image": "nginx:1"}]
        }
    })
}

fn get(server: &Server, name: &str) -> Option<Value> {
    server.get_untyped("v1", "Pod", None, name).ok()
}

/// Waits until the field of the Pod has this value.
async fn until(server: &Server, name: &str, pointer: &str, value: impl Into<Value>) -> Value {
    let value = value.into();
    let look = |server: &Server| get(server, name).filter(|pod| pod.pointer(pointer) == Some(&value));
    let found = tokio::time::timeout(Duration::from_secs(600), server.wait_until(look)).await;
    found.unwrap_or_else(|_| panic!("{pointer} is not {value}: {:#}", get(server, name).unwrap_or_default()))
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let mut conditions = pod["status"]["conditions"].as_array().unwrap().iter();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Waits until the condition `Ready` of the Pod has this value.
async fn until_ready(server: &Server, name: &str, value: &str) -> Value {
    let is =
        |pod: &Value| pod["status"]["conditions"].is_array() && condition(pod, "Ready")["status"] == value;
    let look = |server: &Server| get(server, name).filter(is);
    tokio::time::timeout(Duration::from_secs(600), server.wait_until(look)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn pods_run_and_become_ready_after_the_delay() {
    let server = Server::new();
    let kubelet = server.kubelet().ready_after(Duration::from_secs(300)).start();
    server.create(&pod("web", "Always")).unwrap();
    let started = Instant::now();
    let running = until(&server, "web", "/status/phase", "Running").await;
    assert_eq!(running["spec"]["nodeName"], "node-1");
    assert_eq!(condition(&running, "Ready")["reason"], "ContainersNotReady");
    assert_eq!(condition(&running, "Initialized")["status"], "True");
    assert_eq!(running["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    let ready = until_ready(&server, "web", "True").await;
    assert_eq!(started.elapsed().as_secs(), 300);
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert_eq!(condition(&ready, kind)["status"], "True", "{kind}");
    }
    assert_eq!(ready["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(ready["status"]["podIP"], ready["status"]["podIPs"][0]["ip"]);
    assert_eq!(ready["status"]["hostIP"], "172.18.0.2");
    let node = server.get_untyped("v1", "Node", None, "node-1").unwrap();
    assert_eq!(node["status"]["addresses"][0]["address"], "172.18.0.2");
    kubelet.stop().await;
    let version = server.resource_version();
    server.create(&pod("late", "Always")).unwrap();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(server.resource_version(), version + 1, "the kubelet stopped");
}

#[tokio::test(start_paused = true)]
async fn pods_of_jobs_succeed_after_the_delay() {
    let server = Server::new();
    let kubelet = server.kubelet().complete_after(Duration::from_secs(40)).start();
    server.create(&pod("once", "Never")).unwrap();
    until_ready(&server, "once", "True").await;
    let started = Instant::now();
    let done = until(&server, "once", "/status/phase", "Succeeded").await;
    assert_eq!(started.elapsed().as_secs(), 40);
    assert_eq!(done["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(condition(&done, "Ready")["reason"], "PodCompleted");
    drop(kubelet);
}

#[tokio::test(start_paused = true)]
async fn failure_depends_on_reason_and_restart_policy() {
    let server = Server::new();
    let kubelet = server.kubelet().complete_after(Duration::MAX).start();
    for (name, policy, reason) in [
        ("job", "Never", "OOMKilled"),
        ("evicted", "Always", "Evicted"),
        ("image", "Always", "ImagePullBackOff"),
        ("web", "Always", "Error"),
    ] {
        server.create(&pod(name, policy)).unwrap();
        until_ready(&server, name, "True").await;
        kubelet.fail(&format!("app={name}"), reason).unwrap();
    }
    let failed = until(&server, "job", "/status/phase", "Failed").await;
    let state = &failed["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&state["exitCode"], &state["reason"]), (&json!(137), &json!("OOMKilled")));
    until(&server, "evicted", "/status/reason", "Evicted").await;
    let state = "/status/containerStatuses/0/state/waiting/reason";
    until(&server, "image", state, "ImagePullBackOff").await;
    let crashed = until(&server, "web", state, "CrashLoopBackOff").await;
    assert_eq!(crashed["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(crashed["status"]["phase"], "Running");
    kubelet.recover("app in (web, job)").unwrap();
    until_ready(&server, "web", "True").await;
    assert_eq!(get(&server, "job").unwrap()["status"]["phase"], "Failed");
    assert!(kubelet.fail("app=a=b", "Error").is_err());
}

#[tokio::test(start_paused = true)]
async fn restart_increments_count_and_readiness_follows() {
    let server = Server::new();
    let kubelet = server.kubelet().ready_after(Duration::from_secs(7)).start();
    assert_eq!(kubelet.restart(None, "web").unwrap_err().code(), 404);
    server.create(&pod("web", "Always")).unwrap();
    assert_eq!(kubelet.restart(None, "web").unwrap_err().code(), 400);
    until_ready(&server, "web", "True").await;
    let restarted = Instant::now();
    kubelet.restart(None, "web").unwrap();
    let pod = get(&server, "web").unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    until_ready(&server, "web", "True").await;
    assert_eq!(restarted.elapsed().as_secs(), 7);
    kubelet.never_ready("").unwrap();
    until_ready(&server, "web", "False").await;
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_stay_for_their_grace_period() {
    let server = Server::new();
    let kubelet = server.kubelet().start();
    for name in ["held", "web"] {
        server.create(&pod(name, "Always")).unwrap();
        until_ready(&server, name, "True").await;
    }
    server
        .patch_untyped("v1", "Pod", None, "held", &json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .unwrap();
    let began = Instant::now();
    for name in ["held", "web"] {
        let target = server.target("v1", "Pod", None, name).unwrap();
        write::delete::delete(&server.shared, &target, &DeleteOptions::default(), None).await.unwrap();
    }
    server.wait_until(|server| get(server, "web").is_none().then_some(())).await;
    assert_eq!(began.elapsed().as_secs(), 30);
    until(&server, "held", "/metadata/deletionGracePeriodSeconds", 0).await;
    let version = server.resource_version();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(server.resource_version(), version, "the finalizer holds the Pod");
    kubelet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scheduler_uses_each_node_and_ignores_the_pods_of_others() {
    let server = Server::new();
    let kubelet = server.kubelet().nodes(["a", "b"]).start();
    for (name, node) in [("one", "a"), ("two", "b"), ("three", "a")] {
        server.create(&pod(name, "Always")).unwrap();
        until(&server, name, "/spec/nodeName", node).await;
    }
    let mut elsewhere = pod("elsewhere", "Always");
    elsewhere["spec"]["nodeName"] = "c".into();
    server.create(&elsewhere).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(get(&server, "elsewhere").unwrap()["status"]["phase"], "Pending");
    drop(kubelet);
}

//! Fields of a Pod that depend on the cluster: priority and tolerations.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;

checks! {
    "A Pod without a priority class has the priority 0, and tolerates a failed node for five minutes.":
        pod_has_default_tolerations_and_priority;
    "A Pod has the priority of its class, and cannot contradict it.":
        pod_has_the_priority_of_its_class;
}

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn toleration(key: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
}

async fn pod_has_default_tolerations_and_priority(place: Place) -> Result<()> {
    let created = place.admin().post(&place.core("pods"), &pod(&json!({}))).await?.expect(201)?;
    let spec = &created["spec"];
    ensure!(spec["priority"] == 0 && spec["preemptionPolicy"] == "PreemptLowerPriority", "{spec}");
    ensure!(spec["tolerations"] == json!([toleration("not-ready"), toleration("unreachable")]), "{spec}");
    let owned = created["metadata"]["managedFields"].to_string();
    ensure!(!owned.contains("f:tolerations") && !owned.contains("f:priority"), "{owned}");

    // A PUT without these fields keeps them.
    let mut update = pod(&json!({}));
    update["metadata"]["labels"] = json!({"x": "y"});
    let updated = place.admin().put(&place.core("pods/p"), &update).await?.ok()?;
    ensure!(updated["spec"] == *spec, "{updated}");

    let own = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"});
    let all = json!({"operator": "Exists", "effect": "NoSchedule"});
    let mut other = pod(&json!({"tolerations": [own, all]}));
    other["metadata"]["name"] = "other".into();
    let created = place.admin().post(&place.core("pods"), &other).await?.expect(201)?;
    ensure!(created["spec"]["tolerations"] == json!([own, all, toleration("unreachable")]), "{created}");
    Ok(())
}

async fn pod_has_the_priority_of_its_class(place: Place) -> Result<()> {
    let class = format!("{}-high", place.namespace);
    let object = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": class},
        "value": 1000, "preemptionPolicy": "Never"
    });
    place.admin().post("/apis/scheduling.k8s.io/v1/priorityclasses", &object).await?.expect(201)?;
    let path = place.core("pods");
    let created = place.admin().post(&path, &pod(&json!({"priorityClassName": class}))).await?.expect(201)?;
    let spec = &created["spec"];
    ensure!(spec["priority"] == 1000 && spec["preemptionPolicy"] == "Never", "{spec}");

    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let mut other = pod(&json!({"priorityClassName": name}));
        other["metadata"]["name"] = "other".into();
        let created = place.admin().post(&format!("{path}?dryRun=All"), &other).await?.expect(201)?;
        ensure!(created["spec"]["priority"] == value, "{created}");
    }
    for (spec, detail) in [
        (json!({"priorityClassName": "absent"}), "no PriorityClass with name absent was found"),
        (
            json!({"priorityClassName": class, "priority": 1}),
            "the integer value of priority (1) must not be provided in pod spec; priority admission controller \
             computed 1000 from the given PriorityClass name",
        ),
    ] {
        let status = place.admin().post(&path, &pod(&spec)).await?.refused(403, "Forbidden")?;
        ensure!(status["message"] == format!("pods \"p\" is forbidden: {detail}"), "{status}");
    }
    place.admin().delete(&format!("/apis/scheduling.k8s.io/v1/priorityclasses/{class}")).await?.ok()?;
    Ok(())
}

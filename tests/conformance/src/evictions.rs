//! The parts of pods and namespaces that only take orders: bindings, evictions, finalize.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::starts_with;

checks! {
    "An eviction deletes a pod and writes the reason to its status.":
        eviction_deletes_a_pod, evicted_pod_has_reason, eviction_takes_the_options_of_a_delete;
    "An eviction that a disruption budget does not permit is rejected with 429 and a cause.":
        budget_holds_up_an_eviction;
    "An eviction contains the name of its pod, and only supports create.":
        eviction_requires_pod_name;
    "A binding requires the name of its pod and a node.":
        binding_requires_pod_and_node;
    "Finalize writes spec.finalizers of a namespace. Other writes cannot change this field.":
        finalize_writes_the_finalizers, finalize_is_only_put, namespace_is_removed_with_last_finalizer;
}

fn eviction(pod: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
}

fn path(place: &Place) -> String {
    place.core("pods/p/eviction")
}

async fn eviction_deletes_a_pod(place: Place) -> Result<()> {
    place.create_pod("p", None).await?;
    place.admin().post(&format!("{}?dryRun=All", path(&place)), &eviction("p")).await?.expect(201)?;
    place.admin().get(&place.core("pods/p")).await?.ok()?;
    let done = place.admin().post(&path(&place), &eviction("p")).await?.expect(201)?;
    ensure!(done["kind"] == "Status" && done["status"] == "Success" && done["code"] == 201, "{done}");
    place.admin().post(&path(&place), &eviction("p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn binding_requires_pod_and_node(place: Place) -> Result<()> {
    place.create_pod("p", None).await?;
    let path = place.core("pods/p/binding");
    for (binding, message) in [
        (json!({"target": {"name": "n"}}), "name in URL does not match name in Binding object"),
        (json!({"metadata": {"name": "q"}}), "name in URL does not match name in Binding object"),
        (
            json!({"metadata": {"name": "p"}, "target": []}),
            "Binding in version \"v1\" cannot be handled as a Binding: json: cannot unmarshal array",
        ),
        (json!({"kind": "Pod"}), "Pod in version \"v1\" cannot be handled as a Binding: "),
    ] {
        let status = place.admin().post(&path, &binding).await?.refused(400, "BadRequest")?;
        ensure!(starts_with(&status, message), "{status}");
    }
    place.admin().get(&path).await?.refused(405, "MethodNotAllowed")?;
    Ok(())
}

async fn evicted_pod_has_reason(place: Place) -> Result<()> {
    place.create_pod("p", Some("n")).await?;
    place.admin().post(&path(&place), &eviction("p")).await?.expect(201)?;
    let pod = place.admin().get(&place.core("pods/p")).await?.ok()?;
    ensure!(pod["metadata"]["deletionGracePeriodSeconds"] == 30, "{pod}");
    let condition = &pod["status"]["conditions"][0];
    ensure!(condition["type"] == "DisruptionTarget" && condition["status"] == "True", "{pod}");
    ensure!(condition["reason"] == "EvictionByEvictionAPI", "{pod}");
    Ok(())
}

async fn eviction_takes_the_options_of_a_delete(place: Place) -> Result<()> {
    place.create_pod("p", Some("n")).await?;
    let mut now = eviction("p");
    now["deleteOptions"] = json!({"gracePeriodSeconds": 0});
    place.admin().post(&path(&place), &now).await?.expect(201)?;
    place.admin().get(&place.core("pods/p")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn budget_holds_up_an_eviction(place: Place) -> Result<()> {
    place.create_pod("p", Some("n")).await?;
    let labels = json!({"metadata": {"labels": {"x": "1"}}});
    place.admin().patch(&place.core("pods/p"), &labels).await?.ok()?;
    let ready = |is: &str| {
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": is}]}});
        let (path, admin) = (place.core("pods/p/status"), place.admin());
        async move { admin.patch(&path, &status).await?.ok() }
    };
    ready("True").await?;
    let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", place.namespace);
    let budget = json!({
        "metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "1"}}},
    });
    place.admin().post(&budgets, &budget).await?.expect(201)?;
    let set = |allowed: i64| {
        let status = json!({"status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1,
        }});
        let path = format!("{budgets}/b/status");
        let admin = place.admin();
        async move { admin.patch(&path, &status).await?.ok() }
    };
    set(0).await?;
    let status = place.admin().post(&path(&place), &eviction("p")).await?.refused(429, "TooManyRequests")?;
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ensure!(status["message"] == message, "{status}");
    let cause = json!({
        "reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
    });
    ensure!(status["details"]["causes"] == json!([cause]), "{status}");
    // The eviction of a pod that is not ready is permitted while enough other pods are ready.
    ready("False").await?;
    place.admin().post(&format!("{}?dryRun=All", path(&place)), &eviction("p")).await?.expect(201)?;
    ready("True").await?;
    set(1).await?;
    place.admin().post(&path(&place), &eviction("p")).await?.expect(201)?;
    let budget = place.admin().get(&format!("{budgets}/b")).await?.ok()?;
    ensure!(budget["status"]["disruptionsAllowed"] == 0, "{budget}");
    ensure!(budget["status"]["disruptedPods"]["p"].is_string(), "{budget}");
    Ok(())
}

async fn eviction_requires_pod_name(place: Place) -> Result<()> {
    place.create_pod("p", None).await?;
    for other in [eviction("q"), json!({})] {
        let status = place.admin().post(&path(&place), &other).await?.refused(400, "BadRequest")?;
        ensure!(status["message"] == "name in URL does not match name in Eviction object", "{status}");
    }
    place.admin().get(&path(&place)).await?.refused(405, "MethodNotAllowed")?;
    Ok(())
}

fn namespace(place: &Place) -> String {
    format!("/api/v1/namespaces/{}", place.namespace)
}

async fn finalize(place: &Place, finalizers: Value) -> Result<super::raw::Reply> {
    let body = json!({"metadata": {"name": place.namespace}, "spec": {"finalizers": finalizers}});
    place.admin().put(&format!("{}/finalize", namespace(place)), &body).await
}

async fn finalize_writes_the_finalizers(place: Place) -> Result<()> {
    let both = json!(["x.test/f", "kubernetes"]);
    ensure!(finalize(&place, both.clone()).await?.ok()?["spec"]["finalizers"] == both);
    let patch = json!({"spec": {"finalizers": []}});
    let patched = place.admin().patch(&namespace(&place), &patch).await?.ok()?;
    ensure!(patched["spec"]["finalizers"] == both, "{patched}");
    Ok(())
}

async fn finalize_is_only_put(place: Place) -> Result<()> {
    let path = format!("{}/finalize", namespace(&place));
    place.admin().get(&path).await?.refused(405, "MethodNotAllowed")?;
    place.admin().patch(&path, &json!({})).await?.refused(405, "MethodNotAllowed")?;
    Ok(())
}

async fn namespace_is_removed_with_last_finalizer(place: Place) -> Result<()> {
    let other = place.beside().await?;
    finalize(&other, json!(["x.test/f"])).await?.ok()?;
    let marked = place.admin().delete(&namespace(&other)).await?.ok()?;
    ensure!(marked["status"]["phase"] == "Terminating", "{marked}");
    place.admin().get(&namespace(&other)).await?.ok()?;
    finalize(&other, json!([])).await?.ok()?;
    place.admin().get(&namespace(&other)).await?.refused(404, "NotFound")?;
    Ok(())
}

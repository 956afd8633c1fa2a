//! The status subresource, and the changes that increment the generation.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::values::version;

checks! {
    "A write of the object keeps its status, and a write of the status keeps the other fields.":
        create_ignores_the_status, write_of_the_object_keeps_the_status, write_of_status_keeps_other_fields,
        pod_status_is_patched;
    "A write of the status creates a new version, conflicts with an old version, and is sent as MODIFIED.":
        status_from_an_old_version_conflicts, write_of_status_is_sent_to_watches;
    "The generation counts only changes of the spec, and not of metadata or status.":
        generation_counts_changes_of_the_spec;
    "A write of only the status through the object has no effect.":
        status_written_through_object_is_ignored;
    "A kind without status has no status subresource, and neither has a missing object.":
        kind_without_status_has_no_such_part, status_of_missing_object_is_not_found;
}

fn deployments(place: &Place) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", place.namespace)
}

/// The deployment `d` with one replica, created with a status.
async fn create_deployment(place: &Place) -> Result<Value> {
    let body = json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {"replicas": 7},
    });
    place.admin().post(&deployments(place), &body).await?.expect(201)
}

async fn patch(place: &Place, part: &str, patch: Value) -> Result<Value> {
    place.admin().patch(&format!("{}/d{part}", deployments(place)), &patch).await?.ok()
}

/// Replicas in spec and status.
fn replicas(deployment: &Value) -> (Option<u64>, Option<u64>) {
    (deployment["spec"]["replicas"].as_u64(), deployment["status"]["replicas"].as_u64())
}

async fn create_ignores_the_status(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    ensure!(replicas(&created) == (Some(1), None) && created["metadata"]["generation"] == 1, "{created}");
    Ok(())
}

async fn write_of_the_object_keeps_the_status(place: Place) -> Result<()> {
    create_deployment(&place).await?;
    patch(&place, "/status", json!({"status": {"replicas": 5}})).await?;
    let patched = patch(&place, "", json!({"spec": {"replicas": 2}, "status": {"replicas": 6}})).await?;
    ensure!(replicas(&patched) == (Some(2), Some(5)), "{patched}");
    Ok(())
}

async fn write_of_status_keeps_other_fields(place: Place) -> Result<()> {
    create_deployment(&place).await?;
    let all = json!({"spec": {"replicas": 9}, "metadata": {"labels": {"x": "1"}}, "status": {"replicas": 5}});
    let mut written = patch(&place, "/status", all).await?;
    ensure!(replicas(&written) == (Some(1), Some(5)), "{written}");
    ensure!(written["metadata"].get("labels").is_none(), "{written}");
    written["spec"]["replicas"] = 3.into();
    written["status"]["replicas"] = 4.into();
    let written = place.admin().put(&format!("{}/d/status", deployments(&place)), &written).await?.ok()?;
    ensure!(replicas(&written) == (Some(1), Some(4)), "{written}");
    Ok(())
}

async fn pod_status_is_patched(place: Place) -> Result<()> {
    let created = place.create_pod("p", Some("n1")).await?;
    ensure!(created["status"]["phase"] == "Pending", "{created}");
    let written = place.set_phase("p", "Running").await?;
    ensure!(written["status"]["phase"] == "Running" && written["spec"] == created["spec"], "{written}");
    let read = place.admin().get(&place.core("pods/p/status")).await?.ok()?;
    ensure!(read == written && read == place.admin().get(&place.core("pods/p")).await?.ok()?, "{read}");
    Ok(())
}

async fn status_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let mut old = create_deployment(&place).await?;
    patch(&place, "/status", json!({"status": {"replicas": 1}})).await?;
    old["status"] = json!({"replicas": 2});
    place.admin().put(&format!("{}/d/status", deployments(&place)), &old).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn write_of_status_is_sent_to_watches(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    let path = format!("{}?watch=true&resourceVersion={}", deployments(&place), version(&created)?);
    let mut watch = place.admin().watch(&path).await?;
    let written = patch(&place, "/status", json!({"status": {"replicas": 1}})).await?;
    ensure!(version(&written)? > version(&created)?);
    ensure!(watch.expect("MODIFIED", "d").await? == written);
    Ok(())
}

async fn generation_counts_changes_of_the_spec(place: Place) -> Result<()> {
    create_deployment(&place).await?;
    for (part, change, generation) in [
        ("", json!({"spec": {"replicas": 2}}), 2),
        ("", json!({"metadata": {"labels": {"x": "1"}}}), 2),
        ("/status", json!({"status": {"replicas": 1}}), 2),
        ("", json!({"metadata": {"generation": 99}}), 2),
        ("", json!({"spec": {"replicas": 3}}), 3),
    ] {
        let patched = patch(&place, part, change.clone()).await?;
        ensure!(patched["metadata"]["generation"] == generation, "after {change}: {patched}");
    }
    Ok(())
}

async fn status_written_through_object_is_ignored(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    ensure!(patch(&place, "", json!({"status": {"replicas": 3}})).await? == created);
    Ok(())
}

async fn kind_without_status_has_no_such_part(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().get(&place.one("a/status")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn status_of_missing_object_is_not_found(place: Place) -> Result<()> {
    let status = place.admin().get(&place.core("pods/p/status")).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "p", "kind": "pods"}), "{status}");
    Ok(())
}

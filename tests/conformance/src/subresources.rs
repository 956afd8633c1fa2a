//! Status as a part that is written apart from the rest, and what counts up the generation.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::values::version;

checks! {
    "A write of the object keeps its status, and a write of the status keeps the rest.":
        a_create_ignores_the_status, a_write_of_the_object_keeps_the_status, a_write_of_the_status_keeps_the_rest,
        a_pod_status_is_patched;
    "A write of the status gives a new version, conflicts from an old one, and is told as MODIFIED.":
        a_status_from_an_old_version_conflicts, a_status_is_told;
    "The generation counts changes of the spec, neither those of metadata nor of the status.":
        the_generation_counts_changes_of_the_spec;
    "A write of the status alone through the object changes nothing.":
        a_status_written_through_the_object_changes_nothing;
    "A kind without status has no such part, and an object that is not there has none.":
        a_kind_without_status_has_no_such_part, the_status_of_nothing_is_not_found;
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

async fn a_create_ignores_the_status(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    ensure!(replicas(&created) == (Some(1), None) && created["metadata"]["generation"] == 1, "{created}");
    Ok(())
}

async fn a_write_of_the_object_keeps_the_status(place: Place) -> Result<()> {
    create_deployment(&place).await?;
    patch(&place, "/status", json!({"status": {"replicas": 5}})).await?;
    let patched = patch(&place, "", json!({"spec": {"replicas": 2}, "status": {"replicas": 6}})).await?;
    ensure!(replicas(&patched) == (Some(2), Some(5)), "{patched}");
    Ok(())
}

async fn a_write_of_the_status_keeps_the_rest(place: Place) -> Result<()> {
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

async fn a_pod_status_is_patched(place: Place) -> Result<()> {
    let created = place.create_pod("p", Some("n1")).await?;
    ensure!(created["status"]["phase"] == "Pending", "{created}");
    let written = place.set_phase("p", "Running").await?;
    ensure!(written["status"]["phase"] == "Running" && written["spec"] == created["spec"], "{written}");
    let read = place.admin().get(&place.core("pods/p/status")).await?.ok()?;
    ensure!(read == written && read == place.admin().get(&place.core("pods/p")).await?.ok()?, "{read}");
    Ok(())
}

async fn a_status_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let mut old = create_deployment(&place).await?;
    patch(&place, "/status", json!({"status": {"replicas": 1}})).await?;
    old["status"] = json!({"replicas": 2});
    place.admin().put(&format!("{}/d/status", deployments(&place)), &old).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_status_is_told(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    let path = format!("{}?watch=true&resourceVersion={}", deployments(&place), version(&created)?);
    let mut watch = place.admin().watch(&path).await?;
    let written = patch(&place, "/status", json!({"status": {"replicas": 1}})).await?;
    ensure!(version(&written)? > version(&created)?);
    ensure!(watch.expect("MODIFIED", "d").await? == written);
    Ok(())
}

async fn the_generation_counts_changes_of_the_spec(place: Place) -> Result<()> {
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

async fn a_status_written_through_the_object_changes_nothing(place: Place) -> Result<()> {
    let created = create_deployment(&place).await?;
    ensure!(patch(&place, "", json!({"status": {"replicas": 3}})).await? == created);
    Ok(())
}

async fn a_kind_without_status_has_no_such_part(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().get(&place.one("a/status")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn the_status_of_nothing_is_not_found(place: Place) -> Result<()> {
    let status = place.admin().get(&place.core("pods/p/status")).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "p", "kind": "pods"}), "{status}");
    Ok(())
}

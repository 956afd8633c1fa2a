//! Deletes of objects with and without finalizers, pods, collections and namespaces.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, Reply};
use super::values::{names, uid, version};

checks! {
    "A delete returns a Status of success with the name of the object.":
        delete_returns_name_of_object, delete_of_missing_object_is_rejected;
    "For some kinds, a delete returns the deleted object.":
        some_kinds_return_deleted_object;
    "A delete with preconditions that do not hold conflicts.":
        delete_of_another_version_conflicts, delete_of_another_uid_conflicts, delete_whose_conditions_hold_succeeds;
    "A delete only marks an object with finalizers. The removal of the last finalizer removes the object.":
        finalizers_hold_an_object_back, repeated_delete_does_not_change_object, last_finalizer_lets_an_object_go,
        marked_object_gets_no_new_finalizer;
    "A delete of a collection deletes the selected objects and returns their earlier state.":
        collection_is_deleted, selection_is_deleted;
    "A pod without a node is removed immediately, with the events MODIFIED and DELETED.":
        pod_without_node_is_removed_immediately;
    "A pod on a node is marked with its grace period and stays until a delete without grace.":
        bound_pod_stays_for_its_grace_period;
    "A terminating namespace rejects new objects while it still contains objects.":
        terminating_namespace_rejects_new_objects;
}

async fn delete_with(place: &Place, path: &str, options: &Value) -> Result<Reply> {
    place.admin().send(Method::DELETE, path, JSON, options).await
}

async fn is_gone(place: &Place, path: &str) -> Result<()> {
    place.admin().get(path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn delete_returns_name_of_object(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let status = place.delete("a").await?;
    ensure!(status["kind"] == "Status" && status["status"] == "Success", "{status}");
    let expected = json!({"name": "a", "kind": "configmaps", "uid": uid(&created)?});
    ensure!(status["details"] == expected, "{status}");
    is_gone(&place, &place.one("a")).await
}

async fn delete_of_missing_object_is_rejected(place: Place) -> Result<()> {
    let status = place.admin().delete(&place.one("a")).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    Ok(())
}

async fn some_kinds_return_deleted_object(place: Place) -> Result<()> {
    let metadata = json!({"name": "a"});
    for (plural, body, object) in [
        ("serviceaccounts", json!({"metadata": metadata}), true),
        ("services", json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}}), true),
        ("resourcequotas", json!({"metadata": metadata}), true),
        ("secrets", json!({"metadata": metadata}), false),
        ("endpoints", json!({"metadata": metadata}), false),
    ] {
        let created = place.admin().post(&place.core(plural), &body).await?.expect(201)?;
        let path = place.core(&format!("{plural}/a"));
        let deleted = place.admin().delete(&path).await?.ok()?;
        ensure!((deleted["kind"] == created["kind"]) == object, "{deleted}");
        ensure!((deleted["kind"] == "Status") != object, "{deleted}");
        is_gone(&place, &path).await?;
    }
    Ok(())
}

async fn delete_of_another_version_conflicts(place: Place) -> Result<()> {
    let old = place.create("a").await?;
    place.set("a", "1").await?;
    let options = json!({"preconditions": {"resourceVersion": old["metadata"]["resourceVersion"]}});
    delete_with(&place, &place.one("a"), &options).await?.refused(409, "Conflict")?;
    place.get("a").await?;
    Ok(())
}

async fn delete_of_another_uid_conflicts(place: Place) -> Result<()> {
    let old = place.create("a").await?;
    place.delete("a").await?;
    let new = place.create("a").await?;
    let options = json!({"preconditions": {"uid": uid(&old)?}});
    delete_with(&place, &place.one("a"), &options).await?.refused(409, "Conflict")?;
    ensure!(place.get("a").await? == new);
    Ok(())
}

async fn delete_whose_conditions_hold_succeeds(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let options = json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {"uid": uid(&created)?, "resourceVersion": created["metadata"]["resourceVersion"]},
    });
    delete_with(&place, &place.one("a"), &options).await?.ok()?;
    is_gone(&place, &place.one("a")).await
}

/// Creates `a` with two finalizers, deletes it, and returns the response.
async fn marked(place: &Place) -> Result<Value> {
    place.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/1", "x.test/2"]}})).await?;
    place.delete("a").await
}

async fn finalizers_hold_an_object_back(place: Place) -> Result<()> {
    let n = version(&place.create("before").await?)?;
    let marked = marked(&place).await?;
    ensure!(marked["kind"] == "ConfigMap", "{marked}");
    ensure!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    ensure!(marked["metadata"]["deletionGracePeriodSeconds"] == 0, "{marked}");
    ensure!(place.get("a").await? == marked);
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "a").await?;
    ensure!(watch.expect("MODIFIED", "a").await? == marked);
    Ok(())
}

async fn repeated_delete_does_not_change_object(place: Place) -> Result<()> {
    let marked = marked(&place).await?;
    ensure!(place.delete("a").await? == marked);
    Ok(())
}

async fn last_finalizer_lets_an_object_go(place: Place) -> Result<()> {
    let n = version(&marked(&place).await?)?;
    let fewer = place.patch("a", json!({"metadata": {"finalizers": ["x.test/2"]}})).await?;
    ensure!(version(&fewer)? > n && place.get("a").await? == fewer);
    place.patch("a", json!({"metadata": {"finalizers": null}})).await?;
    is_gone(&place, &place.one("a")).await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("MODIFIED", "a").await?;
    ensure!(version(&watch.expect("DELETED", "a").await?)? > version(&fewer)?);
    Ok(())
}

async fn marked_object_gets_no_new_finalizer(place: Place) -> Result<()> {
    marked(&place).await?;
    let patch = json!({"metadata": {"finalizers": ["x.test/1", "x.test/2", "x.test/3"]}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn collection_is_deleted(place: Place) -> Result<()> {
    let [_, b] = place.create_all(["a", "b"]).await?;
    let deleted = place.admin().delete(&place.all()).await?.ok()?;
    ensure!(deleted["kind"] == "ConfigMapList" && names(&deleted) == ["a", "b"], "{deleted}");
    ensure!(place.list("").await?["items"] == json!([]));
    let mut watch = place.watch(&format!("resourceVersion={}", version(&b)?)).await?;
    let mut told = [watch.event().await?, watch.event().await?];
    told.sort_by(|one, other| one.brief().cmp(&other.brief()));
    ensure!(told[0].brief() == ("DELETED", "a") && told[1].brief() == ("DELETED", "b"), "{told:?}");
    Ok(())
}

async fn selection_is_deleted(place: Place) -> Result<()> {
    place.create_labelled("a", json!({"x": "1"})).await?;
    place.create("b").await?;
    let deleted = place.admin().delete(&format!("{}?labelSelector=x", place.all())).await?.ok()?;
    ensure!(names(&deleted) == ["a"] && names(&place.list("").await?) == ["b"], "{deleted}");
    Ok(())
}

async fn pod_without_node_is_removed_immediately(place: Place) -> Result<()> {
    let n = version(&place.create_pod("p", None).await?)?;
    let path = place.core("pods/p");
    let deleted = place.admin().delete(&path).await?.ok()?;
    ensure!(deleted["kind"] == "Pod" && deleted["metadata"]["deletionGracePeriodSeconds"] == 0, "{deleted}");
    is_gone(&place, &path).await?;
    let mut watch = place.admin().watch(&place.core(&format!("pods?watch=true&resourceVersion={n}"))).await?;
    ensure!(watch.expect("MODIFIED", "p").await?["metadata"]["deletionTimestamp"].is_string());
    watch.expect("DELETED", "p").await?;
    Ok(())
}

async fn bound_pod_stays_for_its_grace_period(place: Place) -> Result<()> {
    place.create_pod("p", Some("n1")).await?;
    let path = place.core("pods/p");
    let marked = place.admin().delete(&path).await?.ok()?;
    ensure!(marked["metadata"]["deletionGracePeriodSeconds"] == 30, "{marked}");
    ensure!(place.admin().get(&path).await?.ok()? == marked);
    ensure!(place.admin().delete(&path).await?.ok()? == marked);
    place.admin().delete(&format!("{path}?gracePeriodSeconds=0")).await?.ok()?;
    is_gone(&place, &path).await
}

async fn terminating_namespace_rejects_new_objects(place: Place) -> Result<()> {
    let beside = place.beside().await?;
    // The namespace controller of this server cannot remove this object.
    beside.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/1"]}})).await?;
    let path = format!("/api/v1/namespaces/{}", beside.namespace);
    let terminating = place.admin().delete(&path).await?.ok()?;
    ensure!(terminating["status"]["phase"] == "Terminating", "{terminating}");
    ensure!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    let body = json!({"metadata": {"name": "b"}});
    let status = place.admin().post(&beside.all(), &body).await?.refused(403, "Forbidden")?;
    ensure!(status["details"]["causes"][0]["reason"] == "NamespaceTerminating", "{status}");
    beside.set("a", "1").await?;
    ensure!(names(&beside.list("").await?) == ["a"]);
    Ok(())
}

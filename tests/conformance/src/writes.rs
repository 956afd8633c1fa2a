//! Create, and update with and without a version.

use anyhow::{Result, ensure};
use http::{Request, header};
use serde_json::json;

use super::place::Place;
use super::values::{name, uid, version};

checks! {
    "A create returns 201 with the stored object, with uid, version and creation time.":
        create_returns_the_object, generated_name_starts_with_prefix, identity_of_request_is_ignored;
    "A name is unique in a namespace.":
        second_create_conflicts, same_name_is_free_in_other_namespace;
    "A create without an object, with a wrong kind, or in a missing namespace is rejected.":
        create_needs_a_name, name_must_be_a_dns_name, create_needs_its_namespace,
        create_stays_in_the_namespace_of_its_url, create_of_other_kind_is_rejected,
        create_brings_no_version, body_must_be_json;
    "Labels that cannot be selected are rejected.":
        labels_must_be_selectable;
    "An update replaces the object and creates a new version.":
        update_replaces_the_object, update_keeps_the_identity;
    "An update with an old version or with a different uid conflicts.":
        update_from_an_old_version_conflicts, update_of_another_uid_conflicts;
    "An update without a version overwrites.":
        update_without_a_version_overwrites;
    "An update without changes keeps the version.":
        update_without_change_keeps_the_version;
    "An update of a missing object is rejected with 404, and an update with a name other than in the URL with 400.":
        update_of_missing_object_is_rejected, update_requires_name_of_url;
    "For some kinds, an update creates a missing object, and some kinds require a version in an update.":
        update_creates_some_kinds, lease_is_not_overwritten_blindly;
    "A dry run has the response of the write and does not change the state.":
        dry_run_write_is_not_stored;
}

async fn create_returns_the_object(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {"y": "2"}}, "data": {"k": "v"}});
    let created = place.create_object(&body).await?;
    ensure!(created["kind"] == "ConfigMap" && created["apiVersion"] == "v1", "{created}");
    let metadata = &created["metadata"];
    ensure!(metadata["name"] == "a" && metadata["namespace"] == place.namespace, "{created}");
    ensure!(metadata["labels"] == body["metadata"]["labels"] && metadata["annotations"] == json!({"y": "2"}));
    ensure!(created["data"] == body["data"], "{created}");
    ensure!(version(&created)? > 0 && uid(&created)?.len() == 36, "{created}");
    let time = metadata["creationTimestamp"].as_str().unwrap_or("");
    ensure!(time.len() == "2000-01-01T00:00:00Z".len() && time.ends_with('Z'), "{created}");
    Ok(())
}

async fn generated_name_starts_with_prefix(place: Place) -> Result<()> {
    let body = json!({"metadata": {"generateName": "gen-"}});
    let (one, other) = (place.create_object(&body).await?, place.create_object(&body).await?);
    ensure!(name(&one).starts_with("gen-") && name(&one).len() == 9, "{one}");
    ensure!(name(&one) != name(&other) && one["metadata"]["generateName"] == "gen-", "{one}");
    Ok(())
}

async fn identity_of_request_is_ignored(place: Place) -> Result<()> {
    let time = "2001-02-03T04:05:06Z";
    let body = json!({"metadata": {"name": "a", "uid": "11111111-1111-1111-1111-111111111111", "creationTimestamp": time}});
    let created = place.create_object(&body).await?;
    ensure!(uid(&created)? != "11111111-1111-1111-1111-111111111111", "{created}");
    ensure!(created["metadata"]["creationTimestamp"] != time, "{created}");
    Ok(())
}

async fn second_create_conflicts(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "2"}});
    let status = place.admin().post(&place.all(), &body).await?.refused(409, "AlreadyExists")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    ensure!(place.get("a").await? == created);
    Ok(())
}

async fn same_name_is_free_in_other_namespace(place: Place) -> Result<()> {
    let here = place.create("a").await?;
    let there = place.beside().await?.create("a").await?;
    ensure!(uid(&here)? != uid(&there)? && version(&there)? > version(&here)?);
    Ok(())
}

async fn create_needs_a_name(place: Place) -> Result<()> {
    for body in [json!({"metadata": {}}), json!({"data": {"k": "v"}})] {
        place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn name_must_be_a_dns_name(place: Place) -> Result<()> {
    for name in ["Bad_Name", "-a", "a-", "a..b", "a b"] {
        let body = json!({"metadata": {"name": name}});
        let status = place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
        ensure!(status["details"]["causes"][0]["field"] == "metadata.name", "{status}");
    }
    Ok(())
}

async fn create_needs_its_namespace(place: Place) -> Result<()> {
    let path = "/api/v1/namespaces/was-never-there/configmaps";
    let status =
        place.admin().post(path, &json!({"metadata": {"name": "a"}})).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "was-never-there", "kind": "namespaces"}), "{status}");
    Ok(())
}

async fn create_stays_in_the_namespace_of_its_url(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a", "namespace": "default"}});
    place.admin().post(&place.all(), &body).await?.refused(400, "BadRequest")?;
    let body = json!({"metadata": {"name": "a", "namespace": place.namespace}});
    place.create_object(&body).await?;
    Ok(())
}

async fn create_of_other_kind_is_rejected(place: Place) -> Result<()> {
    let body = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}});
    place.admin().post(&place.all(), &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn create_brings_no_version(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a", "resourceVersion": "5"}});
    place.admin().post(&place.all(), &body).await?.refused(500, "")?;
    Ok(())
}

async fn labels_must_be_selectable(place: Place) -> Result<()> {
    for labels in [
        json!({"x~y": "1"}),
        json!({"a/b/c": "1"}),
        json!({"": "1"}),
        json!({"x": "not a value"}),
        json!({"x": "-"}),
    ] {
        let body = json!({"metadata": {"name": "a", "labels": labels}});
        let status = place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
        ensure!(status["details"]["causes"][0]["field"] == "metadata.labels", "{status}");
    }
    place.create_labelled("a", json!({"example.com/A_b.c-9": "", "x": "A_b.c-9"})).await?;
    let patch = json!({"metadata": {"labels": {"x~y": "1"}}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn body_must_be_json(place: Place) -> Result<()> {
    for (kind, body, code, reason) in [
        ("application/json", "{\"metadata\":", 400, "BadRequest"),
        ("text/plain", "x", 415, "UnsupportedMediaType"),
    ] {
        let request = Request::post(place.all()).header(header::CONTENT_TYPE, kind);
        place.admin().request_bytes(request, body.into()).await?.refused(code, reason)?;
    }
    Ok(())
}

async fn update_replaces_the_object(place: Place) -> Result<()> {
    let mut object = place.create_labelled("a", json!({"x": "1"})).await?;
    object["data"] = json!({"k": "1"});
    object["metadata"]["labels"] = json!({"y": "2"});
    let updated = place.admin().put(&place.one("a"), &object).await?.ok()?;
    ensure!(version(&updated)? > version(&object)?, "{updated}");
    ensure!(
        updated["data"] == json!({"k": "1"}) && updated["metadata"]["labels"] == json!({"y": "2"}),
        "{updated}"
    );
    ensure!(place.get("a").await? == updated);
    Ok(())
}

async fn update_keeps_the_identity(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let body = json!({
        "metadata": {"name": "a", "creationTimestamp": "2001-02-03T04:05:06Z"}, "data": {"k": "1"},
    });
    let updated = place.admin().put(&place.one("a"), &body).await?.ok()?;
    ensure!(uid(&updated)? == uid(&created)?, "{updated}");
    ensure!(
        updated["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"],
        "{updated}"
    );
    Ok(())
}

async fn update_from_an_old_version_conflicts(place: Place) -> Result<()> {
    let mut old = place.create("a").await?;
    let newer = place.set("a", "newer").await?;
    old["data"] = json!({"k": "older"});
    let status = place.admin().put(&place.one("a"), &old).await?.refused(409, "Conflict")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    ensure!(place.get("a").await? == newer);
    Ok(())
}

async fn update_of_another_uid_conflicts(place: Place) -> Result<()> {
    place.create("a").await?;
    let body = json!({"metadata": {"name": "a", "uid": "11111111-1111-1111-1111-111111111111"}});
    place.admin().put(&place.one("a"), &body).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn update_without_a_version_overwrites(place: Place) -> Result<()> {
    place.create("a").await?;
    place.set("a", "1").await?;
    let body = json!({"metadata": {"name": "a"}, "data": {"other": "2"}});
    let updated = place.admin().put(&place.one("a"), &body).await?.ok()?;
    ensure!(updated["data"] == json!({"other": "2"}), "{updated}");
    Ok(())
}

async fn update_without_change_keeps_the_version(place: Place) -> Result<()> {
    place.create("a").await?;
    let last = place.set("a", "1").await?;
    ensure!(place.admin().put(&place.one("a"), &last).await?.ok()? == last);
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    ensure!(version(&place.admin().put(&place.one("a"), &body).await?.ok()?)? == version(&last)?);
    Ok(())
}

async fn update_of_missing_object_is_rejected(place: Place) -> Result<()> {
    for metadata in [json!({"name": "a"}), json!({"name": "a", "resourceVersion": "7"})] {
        let body = json!({"metadata": metadata});
        let status = place.admin().put(&place.one("a"), &body).await?.refused(404, "NotFound")?;
        ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    }
    Ok(())
}

async fn update_requires_name_of_url(place: Place) -> Result<()> {
    place.create("a").await?;
    for metadata in [json!({"name": "b"}), json!({})] {
        let body = json!({"metadata": metadata});
        place.admin().put(&place.one("a"), &body).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn update_creates_some_kinds(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a"}});
    let inside =
        |group: &str, plural: &str| format!("/apis/{group}/v1/namespaces/{}/{plural}/a", place.namespace);
    for path in [
        inside("coordination.k8s.io", "leases"),
        inside("rbac.authorization.k8s.io", "roles"),
        place.core("endpoints/a"),
        place.core("limitranges/a"),
    ] {
        let created = place.admin().put(&path, &body).await?.expect(201)?;
        ensure!(name(&created) == "a" && !uid(&created)?.is_empty(), "{created}");
    }
    for path in [place.core("secrets/a"), place.core("serviceaccounts/a"), place.core("resourcequotas/a")] {
        place.admin().put(&path, &body).await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn lease_is_not_overwritten_blindly(place: Place) -> Result<()> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", place.namespace);
    let one = format!("{leases}/l");
    let mut lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "one"}});
    let created = place.admin().post(&leases, &lease).await?.expect(201)?;
    lease["spec"]["holderIdentity"] = "two".into();
    place.admin().put(&one, &lease).await?.refused(422, "Invalid")?;
    lease["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let updated = place.admin().put(&one, &lease).await?.ok()?;
    ensure!(
        updated["spec"]["holderIdentity"] == "two" && version(&updated)? > version(&created)?,
        "{updated}"
    );
    place.admin().put(&one, &lease).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn dry_run_write_is_not_stored(place: Place) -> Result<()> {
    let path = format!("{}?dryRun=All", place.all());
    let dry = place.admin().post(&path, &json!({"metadata": {"name": "a"}})).await?.expect(201)?;
    ensure!(name(&dry) == "a" && !uid(&dry)?.is_empty(), "{dry}");
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;

    let created = place.create("a").await?;
    let dry = format!("{}?dryRun=All", place.one("a"));
    place.admin().patch(&dry, &json!({"data": {"k": "1"}})).await?.ok()?;
    place.admin().delete(&dry).await?.ok()?;
    ensure!(place.get("a").await? == created);
    Ok(())
}

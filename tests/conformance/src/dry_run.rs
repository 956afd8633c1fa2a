//! Dry runs: the response is as for a write, and the state does not change.

use anyhow::{Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, MERGE_PATCH};
use super::values::{names, version};

checks! {
    "A dry run has the response of a write, and is not stored or sent to watches.":
        dry_run_does_not_create, dry_run_does_not_update, dry_run_does_not_delete, dry_run_is_not_watched;
    "A dry run returns the deletion timestamp that a delete would set.":
        dry_run_delete_returns_deletion_timestamp, dry_run_delete_of_namespace_returns_terminating_phase;
    "A dry run of deletecollection returns the objects that it would delete.":
        dry_delete_of_a_collection_lists_it;
    "Subresources also support dry runs.":
        dry_status_stays, dry_run_binding_does_not_bind;
    "A dry run is validated as a write.":
        dry_run_finds_conflicts;
    "A dry run is returned in the requested representation.":
        dry_run_returns_metadata_only;
    "The only value of dryRun is All.":
        other_dry_run_values_are_rejected;
}

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

fn dry(path: &str) -> String {
    format!("{path}?dryRun=All")
}

async fn dry_run_does_not_create(place: Place) -> Result<()> {
    let body = json!({"metadata": {"generateName": "a-"}, "data": {"k": "1"}});
    let would = place.admin().post(&dry(&place.all()), &body).await?.expect(201)?;
    ensure!(would["metadata"]["uid"].is_string() && would["data"]["k"] == "1", "{would}");
    ensure!(would["metadata"].get("resourceVersion").is_none(), "{would}");
    ensure!(would["metadata"]["name"].as_str().is_some_and(|name| name.len() == 7), "{would}");
    ensure!(place.list("").await?["items"] == json!([]));
    Ok(())
}

async fn dry_run_does_not_update(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    let mut wanted = a.clone();
    wanted["data"] = json!({"k": "1"});
    let put = place.admin().put(&dry(&place.one("a")), &wanted).await?.ok()?;
    let patch = json!({"data": {"k": "1"}});
    let patched = place.admin().patch(&dry(&place.one("a")), &patch).await?.ok()?;
    for would in [put, patched] {
        ensure!(would["data"]["k"] == "1" && version(&would)? == version(&a)?, "{would}");
    }
    ensure!(place.get("a").await? == a);
    Ok(())
}

async fn dry_run_does_not_delete(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    let would = place.admin().delete(&dry(&place.one("a"))).await?.ok()?;
    ensure!(would["status"] == "Success" && would["details"]["uid"] == a["metadata"]["uid"], "{would}");
    let body = json!({"dryRun": ["All"]});
    place.admin().send(Method::DELETE, &place.one("a"), JSON, &body).await?.ok()?;
    ensure!(place.get("a").await? == a);
    Ok(())
}

async fn dry_run_is_not_watched(place: Place) -> Result<()> {
    let n = version(&place.create("a").await?)?;
    let body = json!({"metadata": {"name": "b"}});
    place.admin().post(&dry(&place.all()), &body).await?.expect(201)?;
    place.admin().patch(&dry(&place.one("a")), &json!({"data": {"k": "1"}})).await?.ok()?;
    place.admin().delete(&dry(&place.one("a"))).await?.ok()?;
    place.create("c").await?;
    let mut watch = place.watch(&format!("resourceVersion={n}")).await?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn dry_run_delete_returns_deletion_timestamp(place: Place) -> Result<()> {
    let a = place.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/f"]}})).await?;
    let path = format!("{}&propagationPolicy=Foreground", dry(&place.one("a")));
    let would = place.admin().delete(&path).await?.ok()?;
    ensure!(would["metadata"]["deletionTimestamp"].is_string(), "{would}");
    ensure!(would["metadata"]["finalizers"] == json!(["x.test/f", "foregroundDeletion"]), "{would}");
    ensure!(version(&would)? == version(&a)? && place.get("a").await? == a);

    let pod = place.create_pod("p", Some("n")).await?;
    let would = place.admin().delete(&dry(&place.core("pods/p"))).await?.ok()?;
    ensure!(
        would["metadata"]["deletionGracePeriodSeconds"] == 30 && would["metadata"]["generation"] == 2,
        "{would}"
    );
    ensure!(place.admin().get(&place.core("pods/p")).await?.ok()? == pod);
    Ok(())
}

async fn dry_run_delete_of_namespace_returns_terminating_phase(place: Place) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}", place.namespace);
    let would = place.admin().delete(&dry(&path)).await?.ok()?;
    ensure!(would["status"]["phase"] == "Terminating", "{would}");
    ensure!(place.admin().get(&path).await?.ok()?["status"]["phase"] == "Active");
    Ok(())
}

async fn dry_delete_of_a_collection_lists_it(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    ensure!(names(&place.admin().delete(&dry(&place.all())).await?.ok()?) == ["a", "b"]);
    ensure!(names(&place.list("").await?) == ["a", "b"]);
    Ok(())
}

async fn dry_status_stays(place: Place) -> Result<()> {
    let pod = place.create_pod("p", None).await?;
    let path = dry(&place.core("pods/p/status"));
    let would = place.admin().patch(&path, &json!({"status": {"phase": "Running"}})).await?.ok()?;
    ensure!(would["status"]["phase"] == "Running" && version(&would)? == version(&pod)?, "{would}");
    ensure!(place.admin().get(&place.core("pods/p")).await?.ok()? == pod);
    Ok(())
}

async fn dry_run_binding_does_not_bind(place: Place) -> Result<()> {
    let pod = place.create_pod("p", None).await?;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    place.admin().post(&dry(&place.core("pods/p/binding")), &binding).await?.expect(201)?;
    ensure!(place.admin().get(&place.core("pods/p")).await?.ok()? == pod);
    Ok(())
}

async fn dry_run_finds_conflicts(place: Place) -> Result<()> {
    place.create("a").await?;
    let body = json!({"metadata": {"name": "a"}});
    place.admin().post(&dry(&place.all()), &body).await?.refused(409, "AlreadyExists")?;
    let old = json!({"metadata": {"resourceVersion": "1"}});
    place.admin().patch(&dry(&place.one("a")), &old).await?.refused(409, "Conflict")?;
    place.admin().delete(&dry(&place.one("b"))).await?.refused(404, "NotFound")?;
    let bad = json!({"metadata": {"name": "Bad"}});
    place.admin().post(&dry(&place.all()), &bad).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn dry_run_returns_metadata_only(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    let send = |method: Method, path: String, kind: &'static str, body: Value| {
        let request = Request::builder().method(method).uri(dry(&path)).header(header::ACCEPT, METADATA);
        let request = request.header(header::CONTENT_TYPE, kind);
        let admin = place.admin();
        async move { admin.request(request, Some(&body)).await }
    };
    let created = send(Method::POST, place.all(), JSON, body.clone()).await?.expect(201)?;
    place.create_object(&body).await?;
    let patch = json!({"metadata": {"labels": {"x": "1"}}});
    let patched = send(Method::PATCH, place.one("a"), MERGE_PATCH, patch).await?.ok()?;
    for would in [&created, &patched] {
        ensure!(would["kind"] == "PartialObjectMetadata" && would.get("data").is_none(), "{would}");
        ensure!(would["metadata"]["name"] == "a", "{would}");
    }
    ensure!(patched["metadata"]["labels"]["x"] == "1", "{patched}");
    Ok(())
}

async fn other_dry_run_values_are_rejected(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    let body = json!({"metadata": {"name": "b"}});
    for (value, shown) in [("x", "[\"x\"]"), ("", "[\"\"]"), ("All&dryRun=all", "[\"All\",\"all\"]")] {
        let query = format!("?dryRun={value}");
        let (all, one) = (format!("{}{query}", place.all()), format!("{}{query}", place.one("a")));
        for (reply, kind) in [
            (place.admin().post(&all, &body).await?, "CreateOptions"),
            (place.admin().put(&one, &a).await?, "UpdateOptions"),
            (place.admin().patch(&one, &json!({})).await?, "PatchOptions"),
            (place.admin().delete(&one).await?, "DeleteOptions"),
            (place.admin().delete(&all).await?, "DeleteOptions"),
        ] {
            let status = reply.refused(422, "Invalid")?;
            let text = format!("dryRun: Unsupported value: {shown}: supported values: \"All\"");
            let expected = format!("{kind}.meta.k8s.io \"\" is invalid: {text}");
            ensure!(status["message"] == expected, "{status}");
            ensure!(status["details"]["causes"][0]["reason"] == "FieldValueNotSupported", "{status}");
        }
    }
    ensure!(names(&place.list("").await?) == ["a"]);
    Ok(())
}

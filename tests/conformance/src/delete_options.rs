//! The options of DELETE: in its body or its query, for dependents, for the grace period of a pod, and
//! for a collection.

use anyhow::{Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, Reply};
use super::values::{names, uid, version};

checks! {
    "The options of a delete are read from its body, or from its query if there is no body.":
        body_counts_and_the_query_does_not, query_has_every_option;
    "A delete with invalid options is rejected and deletes no object.":
        malformed_options_are_rejected, invalid_options_are_rejected, options_of_other_kind_are_rejected;
    "A delete with a propagation policy adds the finalizer of the garbage collector.":
        foreground_and_orphan_are_finalizers, last_policy_counts, orphan_dependents_is_equivalent_to_policy;
    "By default, a delete orphans the dependents of Jobs and replication controllers, and never the dependents of events.":
        oldest_kinds_orphan, events_have_no_dependents;
    "A delete with the old orphanDependents option succeeds while the object still exists.":
        not_orphaned_is_accepted;
    "A later delete of a pod can only shorten its grace period.":
        pods_time_gets_shorter, negative_grace_is_a_second;
    "A delete of a collection supports all options, and respects its limit and its preconditions.":
        page_of_a_collection_is_deleted, empty_selection_returns_empty_list, condition_fails_for_the_collection,
        objects_with_finalizers_stay_marked;
    "A delete of a namespace also supports a propagation policy.":
        namespace_takes_the_finalizer;
}

async fn delete_with(place: &Place, path: &str, options: &Value) -> Result<Reply> {
    place.admin().send(Method::DELETE, path, JSON, options).await
}

/// `a`, which a finalizer holds.
async fn held(place: &Place) -> Result<Value> {
    place.create_object(&json!({"metadata": {"name": "a", "finalizers": ["x.test/f"]}})).await
}

fn finalizers(object: &Value) -> &Value {
    &object["metadata"]["finalizers"]
}

async fn body_counts_and_the_query_does_not(place: Place) -> Result<()> {
    place.create("a").await?;
    let path = format!("{}?propagationPolicy=Bogus&gracePeriodSeconds=x", place.one("a"));
    delete_with(&place, &path, &json!({})).await?.ok()?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn query_has_every_option(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    for query in ["uid=other", "resourceVersion=1"] {
        place.admin().delete(&format!("{}?{query}", place.one("a"))).await?.refused(409, "Conflict")?;
    }
    let query = format!(
        "uid={}&resourceVersion={}&propagationPolicy=Orphan&gracePeriodSeconds=0",
        uid(&a)?,
        version(&a)?
    );
    let marked = place.admin().delete(&format!("{}?{query}", place.one("a"))).await?.ok()?;
    ensure!(finalizers(&marked) == &json!(["orphan"]), "{marked}");
    Ok(())
}

async fn malformed_options_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for (body, message) in [
        // The JSON parsers of the servers describe the error in different words.
        ("{", "couldn't get version/kind; json parse error: "),
        (r#"{"gracePeriodSeconds":"x"}"#, "json: cannot unmarshal string"),
        (r#"{"preconditions":{"uid":5}}"#, "json: cannot unmarshal number"),
        (r#"{"dryRun":"All"}"#, "json: cannot unmarshal string"),
    ] {
        let request = Request::delete(place.one("a")).header(header::CONTENT_TYPE, JSON);
        let reply = place.admin().request_bytes(request, body.into()).await?;
        let status = reply.refused(400, "BadRequest")?;
        let found = status["message"].as_str().unwrap_or_default();
        ensure!(found.starts_with(message), "{status}");
    }
    let number = place.admin().delete(&format!("{}?gracePeriodSeconds=x", place.one("a"))).await?;
    let status = number.refused(400, "BadRequest")?;
    ensure!(status["message"] == "strconv.ParseInt: parsing \"x\": invalid syntax", "{status}");
    let request = Request::delete(place.one("a")).header(header::CONTENT_TYPE, "text/plain");
    place.admin().request_bytes(request, "{}".into()).await?.refused(415, "UnsupportedMediaType")?;
    place.get("a").await?;
    Ok(())
}

async fn invalid_options_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for (options, message) in [
        (
            json!({"propagationPolicy": "Bogus"}),
            "propagationPolicy: Unsupported value: \"Bogus\": supported values: \"Foreground\", \"Background\", \
             \"Orphan\", \"nil\"",
        ),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
        ),
        (
            json!({"dryRun": ["All", "x"]}),
            "dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \"All\"",
        ),
    ] {
        for path in [place.one("a"), place.all()] {
            let status = delete_with(&place, &path, &options).await?.refused(422, "Invalid")?;
            let expected = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {message}");
            ensure!(status["message"] == expected, "{status}");
            ensure!(status["details"]["kind"] == "DeleteOptions", "{status}");
        }
    }
    place.get("a").await?;
    Ok(())
}

async fn options_of_other_kind_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    let other = json!({"kind": "ConfigMap", "apiVersion": "v1"});
    delete_with(&place, &place.one("a"), &other).await?.refused(400, "BadRequest")?;
    let odd = json!({"kind": "DeleteOptions", "apiVersion": "bogus/v1"});
    delete_with(&place, &place.one("a"), &odd).await?.ok()?;
    Ok(())
}

async fn foreground_and_orphan_are_finalizers(place: Place) -> Result<()> {
    for (name, policy, finalizer) in [("a", "Foreground", "foregroundDeletion"), ("b", "Orphan", "orphan")] {
        place.create(name).await?;
        let options = json!({"propagationPolicy": policy});
        let marked = delete_with(&place, &place.one(name), &options).await?.ok()?;
        ensure!(finalizers(&marked) == &json!([finalizer]), "{marked}");
        ensure!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
        ensure!(place.get(name).await? == marked);
    }
    Ok(())
}

async fn last_policy_counts(place: Place) -> Result<()> {
    held(&place).await?;
    for (policy, expected) in [
        (json!("Orphan"), json!(["x.test/f", "orphan"])),
        (json!("Foreground"), json!(["x.test/f", "foregroundDeletion"])),
        (Value::Null, json!(["x.test/f", "foregroundDeletion"])),
        (json!("Background"), json!(["x.test/f"])),
    ] {
        let marked =
            delete_with(&place, &place.one("a"), &json!({"propagationPolicy": policy})).await?.ok()?;
        ensure!(finalizers(&marked) == &expected, "{policy}: {marked}");
    }
    Ok(())
}

async fn orphan_dependents_is_equivalent_to_policy(place: Place) -> Result<()> {
    place.create("a").await?;
    let marked = delete_with(&place, &place.one("a"), &json!({"orphanDependents": true})).await?.ok()?;
    ensure!(finalizers(&marked) == &json!(["orphan"]), "{marked}");
    place.create("b").await?;
    let gone = delete_with(&place, &place.one("b"), &json!({"orphanDependents": false})).await?.ok()?;
    ensure!(gone["status"] == "Success", "{gone}");
    Ok(())
}

async fn oldest_kinds_orphan(place: Place) -> Result<()> {
    let pod = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", place.namespace);
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": {"spec": pod}}});
    place.admin().post(&jobs, &job).await?.expect(201)?;
    let marked = place.admin().delete(&format!("{jobs}/j")).await?.ok()?;
    ensure!(finalizers(&marked) == &json!(["orphan"]), "{marked}");
    place.admin().post(&jobs, &json!({"metadata": {"name": "k"}, "spec": job["spec"]})).await?.expect(201)?;
    let background = json!({"propagationPolicy": "Background"});
    ensure!(delete_with(&place, &format!("{jobs}/k"), &background).await?.ok()?["status"] == "Success");
    Ok(())
}

async fn events_have_no_dependents(place: Place) -> Result<()> {
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": place.namespace}});
    place.admin().post(&place.core("events"), &event).await?.expect(201)?;
    let options = json!({"propagationPolicy": "Foreground"});
    let gone = delete_with(&place, &place.core("events/e"), &options).await?.ok()?;
    ensure!(gone["status"] == "Success", "{gone}");
    Ok(())
}

async fn not_orphaned_is_accepted(place: Place) -> Result<()> {
    held(&place).await?;
    let marked =
        delete_with(&place, &place.one("a"), &json!({"orphanDependents": false})).await?.expect(202)?;
    ensure!(finalizers(&marked) == &json!(["x.test/f"]), "{marked}");
    ensure!(place.get("a").await? == marked);
    Ok(())
}

async fn pods_time_gets_shorter(place: Place) -> Result<()> {
    place.create_pod("p", Some("n")).await?;
    let path = |query: &str| place.core(&format!("pods/p{query}"));
    let first = place.admin().delete(&path("")).await?.ok()?;
    ensure!(first["metadata"]["deletionGracePeriodSeconds"] == 30, "{first}");
    for query in ["?gracePeriodSeconds=60", "?gracePeriodSeconds=30", ""] {
        ensure!(place.admin().delete(&path(query)).await?.ok()? == first, "{query}");
    }
    let sooner = place.admin().delete(&path("?gracePeriodSeconds=10")).await?.ok()?;
    ensure!(sooner["metadata"]["deletionGracePeriodSeconds"] == 10, "{sooner}");
    ensure!(sooner["metadata"]["generation"] == first["metadata"]["generation"], "{sooner}");
    let at = |object: &Value| object["metadata"]["deletionTimestamp"].as_str().unwrap_or("").to_owned();
    ensure!(at(&sooner) < at(&first), "{sooner}");
    place.admin().delete(&path("?gracePeriodSeconds=0")).await?.ok()?;
    place.admin().get(&path("")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn negative_grace_is_a_second(place: Place) -> Result<()> {
    place.create_pod("p", Some("n")).await?;
    let marked = place.admin().delete(&place.core("pods/p?gracePeriodSeconds=-7")).await?.ok()?;
    ensure!(marked["metadata"]["deletionGracePeriodSeconds"] == 1, "{marked}");
    Ok(())
}

async fn page_of_a_collection_is_deleted(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c"]).await?;
    let page = place.admin().delete(&format!("{}?limit=2", place.all())).await?.ok()?;
    ensure!(names(&page) == ["a", "b"] && page["metadata"]["continue"].is_string(), "{page}");
    ensure!(names(&place.list("").await?) == ["c"]);
    Ok(())
}

async fn empty_selection_returns_empty_list(place: Place) -> Result<()> {
    place.create("a").await?;
    let none = place.admin().delete(&format!("{}?labelSelector=x", place.all())).await?.ok()?;
    ensure!(none["kind"] == "ConfigMapList" && none["items"] == json!([]), "{none}");
    place.get("a").await?;
    Ok(())
}

async fn condition_fails_for_the_collection(place: Place) -> Result<()> {
    place.create("a").await?;
    let options = json!({"preconditions": {"uid": "other"}});
    let status = delete_with(&place, &place.all(), &options).await?.refused(409, "Conflict")?;
    ensure!(status["details"]["name"] == "a", "{status}");
    place.get("a").await?;
    Ok(())
}

async fn objects_with_finalizers_stay_marked(place: Place) -> Result<()> {
    held(&place).await?;
    place.create("b").await?;
    let options = json!({"propagationPolicy": "Orphan"});
    let path = format!("{}?fieldSelector=metadata.name=a", place.all());
    ensure!(names(&delete_with(&place, &path, &options).await?.ok()?) == ["a"]);
    let a = place.get("a").await?;
    ensure!(finalizers(&a) == &json!(["x.test/f", "orphan"]), "{a}");
    ensure!(names(&place.admin().delete(&place.all()).await?.ok()?) == ["a", "b"]);
    ensure!(names(&place.list("").await?) == ["a"]);
    Ok(())
}

async fn namespace_takes_the_finalizer(place: Place) -> Result<()> {
    let other = place.beside().await?;
    let path = format!("/api/v1/namespaces/{}?propagationPolicy=Foreground", other.namespace);
    let marked = place.admin().delete(&path).await?.ok()?;
    ensure!(finalizers(&marked) == &json!(["foregroundDeletion"]), "{marked}");
    ensure!(marked["status"]["phase"] == "Terminating", "{marked}");
    Ok(())
}

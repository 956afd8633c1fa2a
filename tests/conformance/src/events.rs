//! Events, which two groups serve as one resource, and leases: the requirements of event recorders and
//! leader election.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::starts_with;
use super::values::{names, version};

checks! {
    "An event of either group is the same object in both, each with its own words.":
        core_event_is_seen_in_the_new_group, new_event_is_seen_in_the_core_group, both_groups_list_all_events,
        both_groups_watch_all_events, delete_in_one_group_deletes_in_both;
    "Each group selects events by its own fields.":
        core_group_selects_by_its_fields, new_group_selects_by_its_fields;
    "A core event is in the namespace of its object, and a new event requires a reporter and an action.":
        core_event_is_in_the_namespace_of_its_object, new_event_is_complete;
    "The count of a core event can increase; for events of events.k8s.io only the series changes.":
        core_event_is_counted, only_the_series_of_a_new_event_changes;
    "A lease is created, renewed at its version, and lost to a faster client.":
        lease_is_created_and_renewed, lease_needs_a_version, times_of_a_lease_have_microseconds,
        lease_has_a_duration;
}

fn new_events(place: &Place) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", place.namespace)
}

async fn create_core(place: &Place) -> Result<Value> {
    let event = json!({
        "metadata": {"name": "c"},
        "involvedObject": {"kind": "Pod", "namespace": place.namespace, "name": "p", "uid": "u"},
        "reason": "R", "message": "M", "source": {"component": "comp", "host": "h"}, "count": 3, "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:05Z",
    });
    place.admin().post(&place.core("events"), &event).await?.expect(201)
}

fn new_event(place: &Place) -> Value {
    json!({
        "metadata": {"name": "n"}, "regarding": {"kind": "Pod", "namespace": place.namespace, "name": "q"},
        "reason": "R", "note": "N", "type": "Normal", "action": "A", "reportingController": "x.test/c",
        "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.123456Z",
    })
}

async fn create_new(place: &Place) -> Result<Value> {
    place.admin().post(&new_events(place), &new_event(place)).await?.expect(201)
}

/// Returns the object without metadata, kind and apiVersion.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(map) = content.as_object_mut() {
        for key in ["metadata", "kind", "apiVersion"] {
            map.remove(key);
        }
    }
    content
}

async fn core_event_is_seen_in_the_new_group(place: Place) -> Result<()> {
    let core = create_core(&place).await?;
    ensure!(core["eventTime"].is_null() && core["reportingComponent"] == "", "{core}");
    let new = place.admin().get(&format!("{}/c", new_events(&place))).await?.ok()?;
    ensure!(new["kind"] == "Event" && new["apiVersion"] == "events.k8s.io/v1", "{new}");
    ensure!(new["metadata"]["uid"] == core["metadata"]["uid"] && version(&new)? == version(&core)?, "{new}");
    let expected = json!({
        "eventTime": null, "reason": "R", "note": "M", "type": "Normal", "regarding": core["involvedObject"],
        "deprecatedSource": {"component": "comp", "host": "h"}, "deprecatedCount": 3,
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T00:00:05Z",
    });
    ensure!(content(&new) == expected, "{new}");
    Ok(())
}

async fn new_event_is_seen_in_the_core_group(place: Place) -> Result<()> {
    let new = create_new(&place).await?;
    ensure!(new["deprecatedSource"] == json!({}) && new["deprecatedFirstTimestamp"].is_null(), "{new}");
    let core = place.admin().get(&place.core("events/n")).await?.ok()?;
    let expected = json!({
        "involvedObject": new["regarding"], "reason": "R", "message": "N", "source": {}, "type": "Normal",
        "firstTimestamp": null, "lastTimestamp": null, "eventTime": "2026-01-01T00:00:00.123456Z", "action": "A",
        "reportingComponent": "x.test/c", "reportingInstance": "i",
    });
    ensure!(content(&core) == expected && core["apiVersion"] == "v1", "{core}");
    Ok(())
}

async fn both_groups_list_all_events(place: Place) -> Result<()> {
    create_core(&place).await?;
    create_new(&place).await?;
    let core = place.admin().get(&place.core("events")).await?.ok()?;
    let new = place.admin().get(&new_events(&place)).await?.ok()?;
    ensure!(names(&core) == ["c", "n"] && names(&new) == ["c", "n"], "{core} {new}");
    ensure!(new["kind"] == "EventList" && new["apiVersion"] == "events.k8s.io/v1", "{new}");
    ensure!(new["items"][0]["note"] == "M" && core["items"][1]["message"] == "N", "{core} {new}");
    ensure!(new["items"][0].get("message").is_none(), "{new}");
    Ok(())
}

async fn both_groups_watch_all_events(place: Place) -> Result<()> {
    let n = version(&create_core(&place).await?)?;
    let query = format!("watch=true&resourceVersion={n}");
    let mut core = place.admin().watch(&format!("{}?{query}", place.core("events"))).await?;
    let mut new = place.admin().watch(&format!("{}?{query}", new_events(&place))).await?;
    create_new(&place).await?;
    let patch = json!({"count": 4});
    place.admin().patch(&place.core("events/c"), &patch).await?.ok()?;
    ensure!(core.expect("ADDED", "n").await?["message"] == "N");
    ensure!(new.expect("ADDED", "n").await?["note"] == "N");
    ensure!(core.expect("MODIFIED", "c").await?["count"] == 4);
    let told = new.expect("MODIFIED", "c").await?;
    ensure!(told["deprecatedCount"] == 4 && told["apiVersion"] == "events.k8s.io/v1", "{told}");
    Ok(())
}

async fn delete_in_one_group_deletes_in_both(place: Place) -> Result<()> {
    create_core(&place).await?;
    let path = format!("{}/c", new_events(&place));
    let gone = place.admin().delete(&path).await?.ok()?;
    ensure!(gone["details"]["group"] == "events.k8s.io" && gone["status"] == "Success", "{gone}");
    place.admin().get(&place.core("events/c")).await?.refused(404, "NotFound")?;
    let status = place.admin().get(&path).await?.refused(404, "NotFound")?;
    ensure!(status["message"] == "events.events.k8s.io \"c\" not found", "{status}");
    Ok(())
}

async fn selected(place: &Place, path: String, cases: &[(&str, &[&str])]) -> Result<()> {
    for (selector, expected) in cases {
        let list = place.admin().get(&format!("{path}?fieldSelector={selector}")).await?.ok()?;
        ensure!(names(&list) == *expected, "{selector}: {list}");
    }
    Ok(())
}

async fn core_group_selects_by_its_fields(place: Place) -> Result<()> {
    create_core(&place).await?;
    create_new(&place).await?;
    let cases: &[(&str, &[&str])] = &[
        ("involvedObject.name=p", &["c"]),
        ("involvedObject.kind=Pod,involvedObject.uid!=u", &["n"]),
        ("reason=R,type=Normal", &["c", "n"]),
        ("source=comp", &["c"]),
        ("source=x.test/c", &["n"]),
        ("reportingComponent=x.test/c", &["n"]),
        ("reportingComponent=comp", &[]),
    ];
    selected(&place, place.core("events"), cases).await?;
    for unknown in ["regarding.name", "reportingController", "action", "message"] {
        let path = format!("{}?fieldSelector={unknown}=x", place.core("events"));
        let status = place.admin().get(&path).await?.refused(400, "BadRequest")?;
        ensure!(status["message"] == format!("field label not supported: {unknown}"), "{status}");
    }
    Ok(())
}

async fn new_group_selects_by_its_fields(place: Place) -> Result<()> {
    create_core(&place).await?;
    create_new(&place).await?;
    let cases: &[(&str, &[&str])] = &[
        ("regarding.name=p", &["c"]),
        ("regarding.kind=Pod", &["c", "n"]),
        ("reportingController=x.test/c", &["n"]),
        ("reason=R,metadata.name=n", &["n"]),
    ];
    selected(&place, new_events(&place), cases).await?;
    for unknown in ["involvedObject.name", "source", "reportingComponent"] {
        let path = format!("{}?fieldSelector={unknown}=x", new_events(&place));
        place.admin().get(&path).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn core_event_is_in_the_namespace_of_its_object(place: Place) -> Result<()> {
    for namespace in ["other", ""] {
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": namespace}});
        let status = place.admin().post(&place.core("events"), &event).await?.refused(422, "Invalid")?;
        let message = format!(
            "Event \"e\" is invalid: involvedObject.namespace: Invalid value: {namespace:?}: does not match \
             event.namespace"
        );
        ensure!(status["message"] == message, "{status}");
    }
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n"}});
    place.admin().post("/api/v1/namespaces/default/events?dryRun=All", &event).await?.expect(201)?;
    Ok(())
}

async fn new_event_is_complete(place: Place) -> Result<()> {
    let long = "x".repeat(1025);
    for (key, value, expected) in [
        ("type", json!("Bogus"), "type: Invalid value: \"\": has invalid value: Bogus"),
        ("note", json!(long), "message: Invalid value: \"\": can have at most 1024 characters"),
        ("reason", json!(""), "reason: Required value"),
        ("action", json!(null), "action: Required value"),
        ("eventTime", json!(null), "eventTime: Required value"),
        ("reportingInstance", json!(""), "reportingInstance: Required value"),
        ("deprecatedSource", json!({"component": "c"}), "source: Invalid value: \"\": needs to be unset"),
        ("deprecatedCount", json!(1), "count: Invalid value: \"\": needs to be unset"),
        (
            "series",
            json!({"count": 1}),
            "[series.count: Invalid value: \"\": should be at least 2, series.lastObservedTime: Required value]",
        ),
    ] {
        let mut event = new_event(&place);
        event[key] = value;
        let status = place.admin().post(&new_events(&place), &event).await?.refused(422, "Invalid")?;
        ensure!(status["message"] == format!("Event \"n\" is invalid: {expected}"), "{status}");
    }
    Ok(())
}

async fn core_event_is_counted(place: Place) -> Result<()> {
    create_core(&place).await?;
    let patch = json!({"count": 4, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "again"});
    let counted = place.admin().patch(&place.core("events/c"), &patch).await?.ok()?;
    ensure!(counted["count"] == 4 && counted["message"] == "again", "{counted}");
    Ok(())
}

async fn only_the_series_of_a_new_event_changes(place: Place) -> Result<()> {
    create_new(&place).await?;
    let path = format!("{}/n", new_events(&place));
    let status = place.admin().patch(&path, &json!({"note": "other"})).await?.refused(422, "Invalid")?;
    let message = "Event \"n\" is invalid: message: Invalid value: \"other\": field is immutable";
    ensure!(status["message"] == message, "{status}");
    let series = json!({"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000001Z"});
    let patched = place.admin().patch(&path, &json!({"series": series})).await?.ok()?;
    ensure!(patched["series"] == series, "{patched}");
    Ok(())
}

fn leases(place: &Place) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", place.namespace)
}

async fn lease_is_created_and_renewed(place: Place) -> Result<()> {
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
    });
    let body = json!({"metadata": {"name": "l"}, "spec": spec});
    let taken = place.admin().post(&leases(&place), &body).await?.expect(201)?;
    ensure!(taken["spec"] == spec, "{taken}");
    place.admin().post(&leases(&place), &body).await?.refused(409, "AlreadyExists")?;
    let path = format!("{}/l", leases(&place));
    let mut renewed = taken.clone();
    renewed["spec"]["renewTime"] = "2026-01-01T00:00:02.000001Z".into();
    let renewed = place.admin().put(&path, &renewed).await?.ok()?;
    ensure!(version(&renewed)? > version(&taken)?, "{renewed}");
    let status = place.admin().put(&path, &taken).await?.refused(409, "Conflict")?;
    ensure!(status["details"]["kind"] == "leases", "{status}");
    ensure!(place.admin().get(&path).await?.ok()? == renewed);
    Ok(())
}

async fn lease_needs_a_version(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let path = format!("{}/l", leases(&place));
    place.admin().put(&path, &body).await?.expect(201)?;
    let status = place.admin().put(&path, &body).await?.refused(422, "Invalid")?;
    let message = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                   specified for an update";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn times_of_a_lease_have_microseconds(place: Place) -> Result<()> {
    let body = |time: &str| json!({"metadata": {"name": "l"}, "spec": {"renewTime": time}});
    let status = place.admin().post(&leases(&place), &body("2026-01-01T00:00:00Z")).await?;
    let status = status.refused(400, "BadRequest")?;
    let start = "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-01-01T00:00:00Z\" as \
                 \"2006-01-02T15:04:05.000000Z07:00\": ";
    ensure!(starts_with(&status, start), "{status}");
    let local = body("2026-01-01T02:00:00.123456+02:00");
    let lease = place.admin().post(&leases(&place), &local).await?.expect(201)?;
    ensure!(lease["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z", "{lease}");
    Ok(())
}

async fn lease_has_a_duration(place: Place) -> Result<()> {
    let body =
        json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
    let status = place.admin().post(&leases(&place), &body).await?.refused(422, "Invalid")?;
    let message = "Lease.coordination.k8s.io \"l\" is invalid: [spec.leaseDurationSeconds: Invalid value: 0: must be \
                   greater than 0, spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]";
    ensure!(status["message"] == message, "{status}");
    let empty =
        place.admin().post(&leases(&place), &json!({"metadata": {"name": "l"}})).await?.expect(201)?;
    ensure!(empty["spec"] == json!({}), "{empty}");
    Ok(())
}

//! Values and fields of built-in kinds. Quantities, times and bytes are normalized. Unknown fields are
//! dropped, reported or rejected.

use anyhow::{Result, ensure};
use http::Request;
use serde_json::{Value, json};

use super::builtin_bodies::{config_map, dry, pod, with};
use super::place::Place;
use super::raw::starts_with;
use super::schemas::warnings;
use super::values::name;

checks! {
    "Quantities, times and bytes are stored in one form.":
        quantities_get_their_shortest_form, times_are_stored_in_utc, bytes_are_stored_in_canonical_base64;
    "Unknown fields are dropped, and reported or rejected as fieldValidation requests.":
        unknown_fields_are_dropped, unknown_fields_are_reported, unknown_fields_are_rejected_strictly;
    "An apply of unknown fields, or of values of a wrong type, is rejected.":
        applies_are_validated_against_schema;
}

async fn quantities_get_their_shortest_form(place: Place) -> Result<()> {
    let volume = |size: Value| json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}]});
    let pods = dry(&place.core("pods"));
    for (sent, stored) in [
        (json!(1024), "1024"),
        (json!(0.5), "500m"),
        (json!("1024Mi"), "1Gi"),
        (json!("1.5Gi"), "1536Mi"),
        (json!("0.1Gi"), "107374182400m"),
        (json!("1000k"), "1M"),
        (json!(" 10e3 "), "10e3"),
        (json!("1e4"), "10e3"),
        (json!("16Ei"), "9223372036854775807"),
        (json!("1.1n"), "2n"),
    ] {
        let created =
            place.admin().post(&pods, &pod(&volume(sent.clone()), &json!({}))).await?.expect(201)?;
        let found = &created["spec"]["volumes"][0]["emptyDir"]["sizeLimit"];
        ensure!(found == stored, "{sent} became {found}, not {stored}");
    }
    for sent in [json!("1K"), json!(true)] {
        let status =
            place.admin().post(&pods, &pod(&volume(sent), &json!({}))).await?.refused(400, "BadRequest")?;
        ensure!(starts_with(&status, "Pod in version \"v1\" cannot be handled as a Pod: "), "{status}");
    }
    Ok(())
}

async fn times_are_stored_in_utc(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    let event = |time: &str| {
        json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": namespace},
            "firstTimestamp": time})
    };
    let events = dry(&place.core("events"));
    for (sent, stored) in [
        ("2026-01-01T02:00:00.75+02:00", json!("2026-01-01T00:00:00Z")),
        ("2026-01-01T00:00:00Z", json!("2026-01-01T00:00:00Z")),
        ("0001-01-01T00:00:00Z", Value::Null),
    ] {
        let created = place.admin().post(&events, &event(sent)).await?.expect(201)?;
        ensure!(created["firstTimestamp"] == stored, "{created}");
    }
    for sent in [
        "x",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T00:00:00Zx",
    ] {
        let status = place.admin().post(&events, &event(sent)).await?.refused(400, "BadRequest")?;
        let start = format!("Event in version \"v1\" cannot be handled as a Event: parsing time {sent:?}");
        ensure!(starts_with(&status, &start), "{status}");
    }
    Ok(())
}

async fn bytes_are_stored_in_canonical_base64(place: Place) -> Result<()> {
    let secrets = dry(&place.core("secrets"));
    for (sent, stored) in [(json!("YQ=="), "YQ=="), (json!("YQ==\n"), "YQ=="), (json!("YR=="), "YQ==")] {
        let created =
            place.admin().post(&secrets, &with("s", &json!({"data": {"k": sent}}))).await?.expect(201)?;
        ensure!(created["data"]["k"] == stored, "{created}");
    }
    for sent in ["!!", "YQ", "YWJjYQ=", "YQ=x", "YQ==YQ=="] {
        let body = with("s", &json!({"data": {"k": sent}}));
        let status = place.admin().post(&secrets, &body).await?.refused(400, "BadRequest")?;
        let start =
            "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte ";
        ensure!(starts_with(&status, start), "{status}");
    }
    Ok(())
}

/// A ConfigMap with one field that it doesn't have, and a pod with three.
fn unknown(place: &Place) -> [(String, Value, Vec<&'static str>); 2] {
    let spec = json!({"zip": 1, "volumes": [{"name": "v", "emptyDir": {"zap": 1}}]});
    [
        (place.all(), config_map(&json!({"data": {"k": "1"}, "Data": {"x": 1}})), vec!["Data"]),
        (
            place.core("pods"),
            pod(&spec, &json!({"zop": {}})),
            vec!["spec.containers[0].zop", "spec.volumes[0].emptyDir.zap", "spec.zip"],
        ),
    ]
}

fn quoted(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| format!("unknown field \"{field}\"")).collect()
}

async fn unknown_fields_are_dropped(place: Place) -> Result<()> {
    for (path, body, _) in unknown(&place) {
        let path = format!("{path}?dryRun=All&fieldValidation=Ignore");
        let answer = place.admin().post(&path, &body).await?;
        ensure!(warnings(&answer).is_empty(), "{answer}");
        let text = answer.expect(201)?.to_string();
        for field in ["\"zip\"", "\"zop\"", "\"zap\"", "\"Data\""] {
            ensure!(!text.contains(field), "{text}");
        }
    }
    place.create("b").await?;
    let patched =
        place.admin().patch(&place.one("b"), &json!({"zip": 1, "metadata": {"zap": 1}})).await?.ok()?;
    ensure!(patched.get("zip").is_none() && patched["metadata"].get("zap").is_none(), "{patched}");
    ensure!(name(&patched) == "b" && place.get("b").await? == patched, "{patched}");
    Ok(())
}

async fn unknown_fields_are_reported(place: Place) -> Result<()> {
    for (path, body, fields) in unknown(&place) {
        let answer = place.admin().post(&dry(&path), &body).await?;
        let mut told = warnings(&answer);
        told.sort_unstable();
        let expected: Vec<String> =
            fields.iter().map(|field| format!("299 - \"unknown field \\\"{field}\\\"\"")).collect();
        ensure!(told == expected, "{told:?}");
        answer.expect(201)?;
    }
    Ok(())
}

async fn unknown_fields_are_rejected_strictly(place: Place) -> Result<()> {
    let [(path, body, fields), _] = unknown(&place);
    let path = format!("{path}?fieldValidation=Strict");
    let status = place.admin().post(&path, &body).await?.refused(400, "BadRequest")?;
    let message = format!(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {}",
        quoted(&fields).join(", ")
    );
    ensure!(status["message"] == message.as_str(), "{status}");
    place.create("a").await?;
    let one = format!("{}?fieldValidation=Strict", place.one("a"));
    let status = place.admin().patch(&one, &json!({"zip": 1})).await?.refused(422, "Invalid")?;
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.ends_with("\\\"zip\\\":1}\": strict decoding error: unknown field \"zip\""), "{status}");
    Ok(())
}

async fn applies_are_validated_against_schema(place: Place) -> Result<()> {
    let path = format!("{}?fieldManager=m&dryRun=All", place.core("pods/p"));
    let volume = json!({"volumes": [{"name": "v", "emptyDir": 5}]});
    let none = json!({});
    for (spec, container, why) in [
        (json!({"zip": 1}), &none, "spec.zip: field not declared in schema"),
        (json!({"kind": "x"}), &none, "spec.kind: field not declared in schema"),
        (none.clone(), &json!({"zip": 1}), "spec.containers[name=\"c\"].zip: field not declared in schema"),
        (
            none.clone(),
            &json!({"ports": [{"containerPort": 80, "zip": 1}]}),
            "spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].zip: field not declared in schema",
        ),
        (json!({"priority": "x"}), &none, "spec.priority: expected numeric (int or float), got "),
        (json!({"hostNetwork": "x"}), &none, "spec.hostNetwork: expected boolean, got "),
        (json!({"tolerations": 5}), &none, "spec.tolerations: expected list, got "),
        (volume, &none, "spec.volumes[name=\"v\"].emptyDir: expected map, got "),
        (json!({"securityContext": []}), &none, "spec.securityContext: expected map, got "),
        (json!({"nodeSelector": {"a": 5}}), &none, "spec.nodeSelector.a: expected string, got "),
        (none.clone(), &json!({"args": [5]}), "spec.containers[name=\"c\"].args[0]: expected string, got "),
        (
            none.clone(),
            &json!({"resources": {"requests": {"cpu": {}}}}),
            "spec.containers[name=\"c\"].resources.requests.cpu: expected any scalar, got ",
        ),
    ] {
        let mut body = pod(&spec, container);
        (body["apiVersion"], body["kind"]) = ("v1".into(), "Pod".into());
        let request = Request::patch(&path).header("content-type", "application/apply-patch+yaml");
        let status = place.admin().request_bytes(request, body.to_string().into()).await?.refused(500, "")?;
        let message = format!("failed to create typed patch object (/p; /v1, Kind=Pod): .{why}");
        let found = status["message"].as_str().unwrap_or_default();
        ensure!(found.starts_with(&message), "{status}");
    }
    Ok(())
}

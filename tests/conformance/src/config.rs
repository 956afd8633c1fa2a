//! ConfigMaps and Secrets: valid keys, the maximum size, and immutable objects.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::starts_with;

checks! {
    "Keys are valid file names and occur in only one of the two maps.":
        keys_of_config_maps_are_checked, keys_of_secrets_are_checked, key_is_text_or_bytes;
    "A ConfigMap or a Secret may hold a megabyte.":
        config_map_may_not_be_too_large, secret_may_not_be_too_large;
    "Immutable data and the immutable field cannot change.":
        immutable_config_map_stays, immutable_secret_stays, type_of_a_secret_stays;
    "Secrets of some types must contain the fields of the type.":
        secrets_contain_required_fields_of_their_types;
}

const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const IMMUTABLE: &str = "Forbidden: field is immutable when `immutable` is set";
const MEGABYTE: usize = 1024 * 1024;

/// Field and message of each cause, in order of the fields.
fn causes(status: &Value) -> Vec<String> {
    let all = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or("").to_owned();
    let mut all: Vec<String> =
        all.map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect();
    all.sort();
    all
}

async fn keys_of_config_maps_are_checked(place: Place) -> Result<()> {
    for field in ["data", "binaryData"] {
        for (key, why) in [("a b", KEY), ("", KEY), (".", "must not be '.'"), ("..a", "must not ")] {
            let body = json!({"metadata": {"name": "a"}, field: {key: "", "good_Key-1.x": ""}});
            let status = place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
            let line = format!("{field}[{key}]: Invalid value: {key:?}: {why}");
            ensure!(causes(&status).len() == 1 && causes(&status)[0].starts_with(&line), "{status}");
            ensure!(starts_with(&status, &format!("ConfigMap \"a\" is invalid: {line}")), "{status}");
        }
    }
    place.create("a").await?;
    let patch = json!({"data": {"x".repeat(254): ""}});
    let status = place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    let line = causes(&status).concat();
    ensure!(line.ends_with(": must be no more than 253 characters"), "{status}");
    Ok(())
}

async fn keys_of_secrets_are_checked(place: Place) -> Result<()> {
    for field in ["data", "stringData"] {
        let body = json!({"metadata": {"name": "a"}, field: {"a/b": ""}});
        let status = place.admin().post(&place.core("secrets"), &body).await?.refused(422, "Invalid")?;
        ensure!(causes(&status) == [format!("data[a/b]: Invalid value: \"a/b\": {KEY}")], "{status}");
    }
    Ok(())
}

async fn key_is_text_or_bytes(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}, "binaryData": {"k": "YQ=="}});
    let status = place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
    ensure!(
        causes(&status) == ["data[k]: Invalid value: \"k\": duplicate of key present in binaryData"],
        "{status}"
    );
    Ok(())
}

async fn config_map_may_not_be_too_large(place: Place) -> Result<()> {
    let with = |bytes: usize| json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(bytes - 1)}, "binaryData": {"b": "YQ=="}});
    let status = place.admin().post(&place.all(), &with(MEGABYTE + 1)).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == ["[]: Too long: may not be more than 1048576 bytes"], "{status}");
    place.create_object(&with(MEGABYTE)).await?;
    let patch = json!({"data": {"l": "x"}});
    place.admin().patch(&place.one("a"), &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn secret_may_not_be_too_large(place: Place) -> Result<()> {
    let with = |bytes: usize| json!({"metadata": {"name": "a"}, "stringData": {"k": "x".repeat(bytes)}});
    let secrets = place.core("secrets");
    let status = place.admin().post(&secrets, &with(MEGABYTE + 1)).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == ["data: Too long: may not be more than 1048576 bytes"], "{status}");
    place.admin().post(&secrets, &with(MEGABYTE)).await?.expect(201)?;
    Ok(())
}

async fn immutable_config_map_stays(place: Place) -> Result<()> {
    let body = json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "1"}});
    place.create_object(&body).await?;
    let one = place.one("a");
    for (patch, fields) in [
        (json!({"data": {"k": "2"}}), vec!["data"]),
        (json!({"immutable": false}), vec!["immutable"]),
        (json!({"immutable": null, "binaryData": {"b": ""}}), vec!["binaryData", "immutable"]),
    ] {
        let status = place.admin().patch(&one, &patch).await?.refused(422, "Invalid")?;
        let expected: Vec<String> = fields.iter().map(|field| format!("{field}: {IMMUTABLE}")).collect();
        ensure!(causes(&status) == expected, "{status}");
    }
    place.admin().put(&one, &json!({"metadata": {"name": "a"}})).await?.refused(422, "Invalid")?;
    place.label("a", json!({"x": "1"})).await?;
    place.delete("a").await?;
    Ok(())
}

async fn immutable_secret_stays(place: Place) -> Result<()> {
    let secrets = place.core("secrets");
    let body = json!({"metadata": {"name": "a"}, "immutable": true, "stringData": {"k": "1"}});
    place.admin().post(&secrets, &body).await?.expect(201)?;
    let one = place.core("secrets/a");
    for (patch, field) in [
        (json!({"stringData": {"l": "2"}}), "data"),
        (json!({"data": null}), "data"),
        (json!({"immutable": false}), "immutable"),
    ] {
        let status = place.admin().patch(&one, &patch).await?.refused(422, "Invalid")?;
        ensure!(causes(&status) == [format!("{field}: {IMMUTABLE}")], "{status}");
    }
    place.admin().patch(&one, &json!({"stringData": {"k": "1"}})).await?.ok()?;
    Ok(())
}

async fn type_of_a_secret_stays(place: Place) -> Result<()> {
    place.admin().post(&place.core("secrets"), &json!({"metadata": {"name": "a"}})).await?.expect(201)?;
    let patch = json!({"type": "other"});
    let status = place.admin().patch(&place.core("secrets/a"), &patch).await?.refused(422, "Invalid")?;
    ensure!(causes(&status) == ["type: Invalid value: \"other\": field is immutable"], "{status}");
    Ok(())
}

async fn secrets_contain_required_fields_of_their_types(place: Place) -> Result<()> {
    let secrets = place.core("secrets?dryRun=All");
    for (kind, data, missing) in [
        ("tls", json!({}), vec!["data[tls.crt]", "data[tls.key]"]),
        ("tls", json!({"tls.crt": ""}), vec!["data[tls.key]"]),
        ("tls", json!({"tls.crt": "", "tls.key": ""}), vec![]),
        ("basic-auth", json!({}), vec!["data[password]", "data[username]"]),
        ("basic-auth", json!({"username": ""}), vec![]),
        ("ssh-auth", json!({"ssh-privatekey": ""}), vec!["data[ssh-privatekey]"]),
        ("ssh-auth", json!({"ssh-privatekey": "YQ=="}), vec![]),
        ("dockercfg", json!({}), vec!["data[.dockercfg]"]),
        ("dockerconfigjson", json!({}), vec!["data[.dockerconfigjson]"]),
        ("dockerconfigjson", json!({".dockerconfigjson": "e30="}), vec![]),
        (
            "service-account-token",
            json!({}),
            vec!["metadata.annotations[kubernetes.io/service-account.name]"],
        ),
    ] {
        let body = json!({"metadata": {"name": "a"}, "type": format!("kubernetes.io/{kind}"), "data": data});
        let answer = place.admin().post(&secrets, &body).await?;
        if missing.is_empty() {
            answer.expect(201)?;
            continue;
        }
        let status = answer.refused(422, "Invalid")?;
        let expected: Vec<String> = missing.iter().map(|field| format!("{field}: Required value")).collect();
        ensure!(causes(&status) == expected, "{status}");
    }
    // A text that is not JSON, and a list.
    for bytes in ["eA==", "W10="] {
        let body = json!({"metadata": {"name": "a"}, "type": "kubernetes.io/dockercfg", "data": {".dockercfg": bytes}});
        let status = place.admin().post(&secrets, &body).await?.refused(422, "Invalid")?;
        let start = "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": ";
        ensure!(causes(&status).concat().starts_with(start), "{status}");
    }
    Ok(())
}

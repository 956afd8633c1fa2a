//! Keys and values of labels and annotations, and the errors for invalid ones.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;

checks! {
    "A key of a label or an annotation has a name of at most 63 bytes and perhaps a prefix that is a DNS name.":
        keys_are_names, each_part_of_a_key_is_complained_about;
    "A selector with an invalid key or value is rejected, and the error contains the path of the value.":
        selector_error_contains_value;
    "Empty labels, annotations, finalizers and owners are not kept.":
        empty_maps_are_removed;
}

const NAME: &str = "name part must consist of alphanumeric characters";

async fn causes(place: &Place, metadata: Value) -> Result<Vec<String>> {
    let body = json!({"metadata": metadata});
    let status = place.admin().post(&place.all(), &body).await?.refused(422, "Invalid")?;
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    Ok(causes
        .iter()
        .filter_map(|cause| Some(format!("{}: {}", cause["field"].as_str()?, cause["message"].as_str()?)))
        .collect())
}

async fn keys_are_names(place: Place) -> Result<()> {
    for (key, why) in [
        ("a b", NAME),
        ("/a", "prefix part must be non-empty"),
        ("a/b/c", "a valid label key must consist of"),
        ("A_B/a", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        (&"x".repeat(64), "name part must be no more than 63 bytes"),
    ] {
        let metadata = json!({"name": "x", "labels": {key: ""}});
        let found = causes(&place, metadata).await?;
        let expected = format!("metadata.labels: Invalid value: \"{key}\": {why}");
        ensure!(
            found.iter().all(|cause| cause.starts_with(&expected)) && !found.is_empty(),
            "{key}: {found:?}"
        );
    }
    let found = causes(&place, json!({"name": "x", "annotations": {"a b": "any text"}})).await?;
    ensure!(
        found.len() == 1 && found[0].contains(NAME) && found[0].starts_with("metadata.annotations"),
        "{found:?}"
    );
    // Prefixes of annotations may have upper case letters.
    place.create_object(&json!({"metadata": {"name": "x", "annotations": {"Example.COM/a": ""}}})).await?;
    Ok(())
}

async fn each_part_of_a_key_is_complained_about(place: Place) -> Result<()> {
    let found = causes(&place, json!({"name": "x", "labels": {"/": "a/b"}})).await?;
    let has = |text: &str| found.iter().any(|cause| cause.contains(text));
    ensure!(
        has("prefix part must be non-empty") && has("name part must be non-empty") && has(NAME),
        "{found:?}"
    );
    ensure!(has("\"a/b\": a valid label must be an empty string or consist of"), "{found:?}");
    Ok(())
}

async fn selector_error_contains_value(place: Place) -> Result<()> {
    for (selector, why) in [
        ("a%20in%20(x/y,b)", "unable to parse requirement: values["),
        ("a!=x/y", "unable to parse requirement: values[0][a]: Invalid value: \"x/y\": a valid label must"),
        ("a%3Ex", "unable to parse requirement: values[0]: Invalid value: \"x\": "),
        ("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
    ] {
        let path = format!("{}?labelSelector={selector}", place.all());
        let status = place.admin().get(&path).await?.refused(400, "BadRequest")?;
        let message = status["message"].as_str().unwrap_or("");
        ensure!(message.starts_with(why), "{selector}: {message}");
    }
    Ok(())
}

async fn empty_maps_are_removed(place: Place) -> Result<()> {
    let empty =
        json!({"name": "a", "labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []});
    let created = place.create_object(&json!({"metadata": empty})).await?;
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        ensure!(created["metadata"].get(key).is_none(), "{created}");
    }
    let labelled = place.label("a", json!({"app": "web"})).await?;
    let bare = place.label("a", json!({"app": null})).await?;
    ensure!(labelled["metadata"]["labels"] == json!({"app": "web"}), "{labelled}");
    ensure!(bare["metadata"].get("labels").is_none(), "{bare}");
    Ok(())
}

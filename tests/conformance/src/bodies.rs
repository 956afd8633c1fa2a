//! Bodies that are not JSON, or not an object.

use anyhow::{Result, ensure};
use http::{Method, Request, header};

use super::place::Place;
use super::raw::{JSON, MERGE_PATCH};

checks! {
    "A body that is not JSON is rejected with 400.":
        malformed_json_is_rejected, empty_body_is_not_json, malformed_patch_is_rejected, unreadable_options_are_rejected;
    "A body that is not a map, or has a kind that is not a string, is rejected with 400.":
        body_is_a_map, kind_is_a_text, metadata_is_a_map;
}

async fn message(place: &Place, method: Method, path: &str, kind: &str, body: &str) -> Result<String> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let status = place.admin().request_bytes(request, body.into()).await?.refused(400, "BadRequest")?;
    Ok(status["message"].as_str().unwrap_or("").to_owned())
}

/// Checks the message for a body that is not an object of a kind.
async fn unrecognized(place: &Place, body: &str) -> Result<()> {
    let found = message(place, Method::POST, &place.all(), JSON, body).await?;
    let start =
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; ";
    ensure!(found.starts_with(start), "{found:?}");
    Ok(())
}

/// Checks the message for a body that is not JSON. The JSON parsers of the servers describe the error in
/// different words.
async fn malformed(place: &Place, body: &str) -> Result<()> {
    let found = message(place, Method::POST, &place.all(), JSON, body).await?;
    let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json \
                 parse error: ";
    ensure!(found.starts_with(start), "{found}");
    Ok(())
}

async fn malformed_json_is_rejected(place: Place) -> Result<()> {
    for body in [
        "{\"a\":1",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":1 \"b\"",
        "{\"a\":[1 2]}",
        "{\"a\":[1,]}",
        "{\"a\":00}",
        "{\"a\":1.}",
        "{\"a\":nul}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u1g\"}",
        "{} x",
    ] {
        malformed(&place, body).await?;
    }
    malformed(&place, "a: 1").await
}

async fn empty_body_is_not_json(place: Place) -> Result<()> {
    malformed(&place, "").await
}

async fn malformed_patch_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for kind in [MERGE_PATCH, "application/json-patch+json"] {
        let found = message(&place, Method::PATCH, &place.one("a"), kind, "[1,]").await?;
        ensure!(found.starts_with("error decoding patch: "), "{found}");
    }
    Ok(())
}

async fn unreadable_options_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    for body in ["{a", "{\"kind\":1}", "{\"kind\":\"Pod\"}"] {
        message(&place, Method::DELETE, &place.one("a"), JSON, body).await?;
    }
    Ok(())
}

async fn body_is_a_map(place: Place) -> Result<()> {
    for body in ["[1]", "true", "1.5", "\"x\""] {
        unrecognized(&place, body).await?;
    }
    Ok(())
}

async fn kind_is_a_text(place: Place) -> Result<()> {
    for body in ["{\"kind\":1}", "{\"kind\":[]}", "{\"apiVersion\":{}}"] {
        unrecognized(&place, body).await?;
    }
    Ok(())
}

async fn metadata_is_a_map(place: Place) -> Result<()> {
    for (body, found) in
        [("{\"metadata\":1}", "number"), ("{\"metadata\":\"x\"}", "string"), ("{\"metadata\":[]}", "array")]
    {
        let message = message(&place, Method::POST, &place.all(), JSON, body).await?;
        let expected = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal {found}"
        );
        ensure!(message.starts_with(&expected), "{message}");
    }
    Ok(())
}

//! Bodies that are not JSON, or not an object.

use anyhow::{Result, ensure};
use http::{Method, Request, header};

use super::place::Place;
use super::raw::{JSON, MERGE_PATCH};

checks! {
    "A body that is not JSON is rejected with 400 and the position of the error.":
        malformed_json_is_rejected_with_position, empty_body_is_not_json, malformed_patch_is_rejected_with_position, malformed_options_are_rejected_with_position;
    "A body that is not a map, or has a kind that is not a string, is rejected with 400 and the found type.":
        body_is_a_map, kind_is_a_text, metadata_is_a_map;
}

async fn message(place: &Place, method: Method, path: &str, kind: &str, body: &str) -> Result<String> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let status = place.admin().request_bytes(request, body.into()).await?.refused(400, "BadRequest")?;
    Ok(status["message"].as_str().unwrap_or("").to_owned())
}

/// Checks the message for a body that cannot be parsed: `why`, and the start of the body.
async fn unrecognized(place: &Place, body: &str, why: &str, shown: &str) -> Result<()> {
    let found = message(place, Method::POST, &place.all(), JSON, body).await?;
    let start = "the object provided is unrecognized (must be of type ConfigMap)";
    let expected = format!("{start}: couldn't get version/kind; json parse error: {why} ({shown})");
    ensure!(found == expected, "expected {expected:?}, got {found:?}");
    Ok(())
}

async fn malformed_json_is_rejected_with_position(place: Place) -> Result<()> {
    for (body, why) in [
        ("{\"a\":1", "unexpected end of JSON input"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":}", "invalid character '}' looking for beginning of value"),
        ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
        ("{\"a\":[1 2]}", "invalid character '2' after array element"),
        ("{\"a\":[1,]}", "invalid character ']' looking for beginning of value"),
        ("{\"a\":00}", "invalid character '0' after object key:value pair"),
        ("{\"a\":1.}", "invalid character '}' after decimal point in numeric literal"),
        ("{\"a\":nul}", "invalid character '}' in literal null (expecting 'l')"),
        ("{\"a\":\"\n\"}", "invalid character '\\n' in string literal"),
        ("{\"a\":\"\\x\"}", "invalid character 'x' in string escape code"),
        ("{\"a\":\"\\u1g\"}", "invalid character 'g' in \\u hexadecimal character escape"),
        ("{} x", "invalid character 'x' after top-level value"),
    ] {
        unrecognized(&place, body, why, body).await?;
    }
    unrecognized(&place, "a: 1", "invalid character 'a' looking for beginning of value", "613a2031").await
}

async fn empty_body_is_not_json(place: Place) -> Result<()> {
    unrecognized(&place, "", "unexpected end of JSON input", "<empty>").await
}

async fn malformed_patch_is_rejected_with_position(place: Place) -> Result<()> {
    place.create("a").await?;
    for kind in [MERGE_PATCH, "application/json-patch+json"] {
        let found = message(&place, Method::PATCH, &place.one("a"), kind, "[1,]").await?;
        let expected = "error decoding patch: invalid character ']' looking for beginning of value";
        ensure!(found == expected, "{found}");
    }
    Ok(())
}

async fn malformed_options_are_rejected_with_position(place: Place) -> Result<()> {
    place.create("a").await?;
    for (body, why) in [
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("{\"kind\":1}", "json: cannot unmarshal number into Go struct field .kind of type string"),
    ] {
        let found = message(&place, Method::DELETE, &place.one("a"), JSON, body).await?;
        ensure!(found == format!("couldn't get version/kind; json parse error: {why}"), "{found}");
    }
    let found = message(&place, Method::DELETE, &place.one("a"), JSON, "{\"kind\":\"Pod\"}").await?;
    ensure!(found.starts_with("no kind \"Pod\" is registered for version \"meta.k8s.io/v1\""), "{found}");
    Ok(())
}

async fn body_is_a_map(place: Place) -> Result<()> {
    let into = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    for (body, found, shown) in [
        ("[1]", "array", "5b315d"),
        ("true", "bool", "74727565"),
        ("1.5", "number", "312e35"),
        ("\"x\"", "string", "227822"),
    ] {
        let why = format!("json: cannot unmarshal {found} into Go value of type {into}");
        unrecognized(&place, body, &why, shown).await?;
    }
    Ok(())
}

async fn kind_is_a_text(place: Place) -> Result<()> {
    for (body, found, key) in [
        ("{\"kind\":1}", "number", "kind"),
        ("{\"kind\":[]}", "array", "kind"),
        ("{\"apiVersion\":{}}", "object", "apiVersion"),
    ] {
        let why = format!("json: cannot unmarshal {found} into Go struct field .{key} of type string");
        unrecognized(&place, body, &why, body).await?;
    }
    Ok(())
}

async fn metadata_is_a_map(place: Place) -> Result<()> {
    for (body, found) in
        [("{\"metadata\":1}", "number"), ("{\"metadata\":\"x\"}", "string"), ("{\"metadata\":[]}", "array")]
    {
        let message = message(&place, Method::POST, &place.all(), JSON, body).await?;
        let why = format!(
            "json: cannot unmarshal {found} into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
        );
        let expected = format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {why}");
        ensure!(message == expected, "{message}");
    }
    Ok(())
}

//! Odd parameters.

use anyhow::{Result, ensure};
use http::header;
use serde_json::json;

use super::place::Place;
use super::values::names;

checks! {
    "A timeout is a duration in the format of Go. Other values are rejected with 400 before all other checks. A watch \
     ignores the parameter.":
        timeout_must_be_a_duration, timeout_is_validated_before_authorization, watch_has_no_timeout;
    "A request that exceeds its timeout is rejected with 504, by a Status without a kind." if has_watch_cache:
        request_may_take_too_long;
    "A parameter with a semicolon or an invalid escape is ignored.":
        broken_parameter_does_not_count;
    "A watch that begins with an initial state cannot continue a list." if has_watch_list:
        watch_does_not_continue_a_list;
    "An invalid continue token is rejected with 400 and a reason.":
        continuation_is_a_token;
    "A value of a field selector has a backslash only before a comma, an equals sign and a backslash.":
        field_selector_is_escaped, empty_value_is_equal_to_missing_field;
    "A GET at a version that is not a number is rejected with 500 and no reason." if has_watch_cache:
        get_at_invalid_version_is_rejected;
    "Without a watch cache, a GET at a version that is not a number is rejected with 400." if lacks_watch_cache:
        get_at_no_number_is_a_bad_request;
    "A GET with export is rejected with 400.":
        export_is_rejected;
}

const NO_NUMBER: &str =
    "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";

async fn message(place: &Place, query: &str, code: u16, reason: &str) -> Result<String> {
    let status = place.admin().get(&format!("{}?{query}", place.all())).await?.refused(code, reason)?;
    Ok(status["message"].as_str().unwrap_or("").to_owned())
}

async fn timeout_must_be_a_duration(place: Place) -> Result<()> {
    for timeout in ["x", "1", "1h1"] {
        let found = message(&place, &format!("timeout={timeout}"), 400, "BadRequest").await?;
        ensure!(found.starts_with("invalid timeout specified in the request URL - time: "), "{found}");
    }
    for timeout in ["1m30.5s", "0", "-1s", "", "2562047h"] {
        place.list(&format!("timeout={timeout}")).await?;
    }
    Ok(())
}

async fn timeout_is_validated_before_authorization(place: Place) -> Result<()> {
    for path in [place.all(), place.one("absent"), "/version".to_owned(), "/nothing".to_owned()] {
        place.stranger().get(&format!("{path}?timeout=x")).await?.refused(400, "BadRequest")?;
    }
    let post = place.admin().post(&format!("{}?timeout=x", place.all()), &json!([])).await?;
    post.refused(400, "BadRequest")?;
    Ok(())
}

async fn watch_has_no_timeout(place: Place) -> Result<()> {
    let mut watch = place.watch("timeout=x&timeoutSeconds=1").await?;
    watch.rest().await?;
    Ok(())
}

async fn request_may_take_too_long(place: Place) -> Result<()> {
    // This future version makes the list wait until its timeout.
    let reply = place.admin().get(&format!("{}?resourceVersion=9000000000&timeout=1s", place.all())).await?;
    ensure!(reply.header(header::CONTENT_TYPE) == "text/plain; charset=utf-8", "{:?}", reply.headers);
    let status = reply.expect(504)?;
    let expected = json!({"metadata": {}, "status": "Failure", "reason": "Timeout", "details": {}, "code": 504,
        "message": "Timeout: request did not complete within the allotted timeout"});
    ensure!(status == expected, "{status}");
    Ok(())
}

async fn broken_parameter_does_not_count(place: Place) -> Result<()> {
    place.create_all(["a", "b"]).await?;
    for query in ["labelSelector=%zz", "limit=1;x=1", "%zz=1", "labelSelector=x%", "fieldSelector=%2"] {
        ensure!(names(&place.list(query).await?) == ["a", "b"], "{query}");
    }
    ensure!(names(&place.list("labelSelector=%zz&limit=1").await?) == ["a"]);
    Ok(())
}

async fn watch_does_not_continue_a_list(place: Place) -> Result<()> {
    let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for more in ["", "&resourceVersion=0", &format!("&{streaming}")] {
        let found = message(&place, &format!("watch=1&continue=x{more}"), 422, "Invalid").await?;
        let why =
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
        ensure!(found == format!("ListOptions.meta.k8s.io \"\" is invalid: {why}"), "{found}");
    }
    Ok(())
}

async fn continuation_is_a_token(place: Place) -> Result<()> {
    for token in [
        "x",
        "!",
        "YQ=",
        // {}
        "e30",
        // {"v":"a"}
        "eyJ2IjoiYSJ9",
        // {"v":"meta.k8s.io/v1","rv":0,"start":"a"}
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
        // {"v":"meta.k8s.io/v1","rv":-2,"start":""}
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTIsInN0YXJ0IjoiIn0",
        // {"v":"meta.k8s.io/v1","rv":-2,"start":"../../"}
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTIsInN0YXJ0IjoiLi4vLi4vIn0",
    ] {
        for version in ["", "&resourceVersion=5"] {
            let found = message(&place, &format!("continue={token}{version}"), 400, "BadRequest").await?;
            let start = "invalid continue token: continue key is not valid: ";
            ensure!(found.starts_with(start), "{token}: {found}");
        }
    }
    Ok(())
}

async fn field_selector_is_escaped(place: Place) -> Result<()> {
    for (value, why) in [
        ("a%5Cx", "invalid escape sequence: \\x"),
        ("a%5C", "invalid escape sequence: \\"),
        ("a=b", "unescaped character in value: 61"),
    ] {
        let query = format!("fieldSelector=metadata.name%3D{value}");
        let found = message(&place, &query, 400, "BadRequest").await?;
        ensure!(found == format!("invalid field selector: {why}"), "{found}");
    }
    ensure!(names(&place.list("fieldSelector=metadata.name%3Da%5C,b").await?).is_empty());
    Ok(())
}

async fn empty_value_is_equal_to_missing_field(place: Place) -> Result<()> {
    place.create("a").await?;
    for selector in ["=", "==", "!="] {
        ensure!(names(&place.list(&format!("fieldSelector={selector}")).await?) == ["a"], "{selector}");
    }
    message(&place, "fieldSelector==x", 400, "BadRequest").await?;
    Ok(())
}

async fn get_at_invalid_version_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    let one = format!("{}?resourceVersion=x", place.one("a"));
    let status = place.admin().get(&one).await?.refused(500, "")?;
    ensure!(status["message"] == NO_NUMBER, "{status}");
    Ok(())
}

async fn get_at_no_number_is_a_bad_request(place: Place) -> Result<()> {
    place.create("a").await?;
    let one = format!("{}?resourceVersion=x", place.one("a"));
    let status = place.admin().get(&one).await?.refused(400, "BadRequest")?;
    ensure!(status["message"] == format!("invalid resource version: {NO_NUMBER}"), "{status}");
    Ok(())
}

async fn export_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    place.admin().get(&format!("{}?export=true", place.one("a"))).await?.refused(400, "BadRequest")?;
    place.admin().get(&format!("{}?export=false", place.one("a"))).await?.ok()?;
    Ok(())
}

//! What is refused, and how: users, paths, methods and parameters.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use super::place::Place;

checks! {
    "A token that the server does not know is refused with 401.":
        an_unknown_token_is_refused;
    "A user without rights is refused with 403, and told which right is missing.":
        a_list_needs_the_right_to_list, a_watch_needs_the_right_to_watch, a_get_needs_the_right_to_get,
        a_create_needs_the_right_to_create, rights_are_asked_before_the_resource_is_looked_for, a_path_needs_a_right_too;
    "Every user may ask for the version, for health and for what is served.":
        everyone_may_discover;
    "A resource that is not served is refused with 404: with a Status in a known group, with text elsewhere.":
        an_unknown_resource_is_not_found, an_unknown_group_is_not_found, an_absent_object_is_not_found;
    "A method that a resource does not have is refused with 405.":
        a_method_that_is_not_there_is_refused;
    "A version that is no number is refused: with 400 by a LIST, with 500 and no reason by a WATCH.":
        a_list_at_no_number_is_refused, a_watch_from_no_number_is_refused;
    "Exact and NotOlderThan need a version, Exact one that is not 0; another match is refused.":
        a_match_needs_a_version, an_exact_match_is_not_for_zero, an_unknown_match_is_refused;
    "A limit or timeout that is no number is refused with 400.":
        a_number_must_be_one;
}

async fn an_unknown_token_is_refused(place: Place) -> Result<()> {
    for path in [place.all(), format!("{}?watch=true", place.all()), place.one("a")] {
        let status = place.stranger().get(&path).await?.refused(401, "Unauthorized")?;
        ensure!(status["message"] == "Unauthorized", "{status}");
    }
    Ok(())
}

async fn forbidden(place: &Place, path: &str, verb: &str) -> Result<()> {
    let status = place.nobody().get(path).await?.refused(403, "Forbidden")?;
    let message = status["message"].as_str().unwrap_or("");
    let expected = format!("cannot {verb} resource \"configmaps\" in API group \"\"");
    ensure!(message.contains(&expected), "{message}");
    ensure!(status["details"]["kind"] == "configmaps", "{status}");
    Ok(())
}

async fn a_list_needs_the_right_to_list(place: Place) -> Result<()> {
    forbidden(&place, &place.all(), "list").await?;
    forbidden(&place, "/api/v1/configmaps", "list").await
}

async fn a_watch_needs_the_right_to_watch(place: Place) -> Result<()> {
    forbidden(&place, &format!("{}?watch=true", place.all()), "watch").await
}

async fn a_get_needs_the_right_to_get(place: Place) -> Result<()> {
    place.create("a").await?;
    forbidden(&place, &place.one("a"), "get").await?;
    forbidden(&place, &place.one("absent"), "get").await
}

async fn a_create_needs_the_right_to_create(place: Place) -> Result<()> {
    place
        .nobody()
        .post(&place.all(), &json!({"metadata": {"name": "a"}}))
        .await?
        .refused(403, "Forbidden")?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn rights_are_asked_before_the_resource_is_looked_for(place: Place) -> Result<()> {
    let status = place.nobody().get("/api/v1/nothings").await?.refused(403, "Forbidden")?;
    ensure!(status["details"] == json!({"kind": "nothings"}), "{status}");
    Ok(())
}

async fn a_path_needs_a_right_too(place: Place) -> Result<()> {
    let status = place.nobody().get("/nothing").await?.refused(403, "Forbidden")?;
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.ends_with("cannot get path \"/nothing\""), "{status}");
    Ok(())
}

async fn everyone_may_discover(place: Place) -> Result<()> {
    for path in ["/version", "/readyz", "/healthz", "/livez", "/api", "/apis", "/api/v1", "/apis/apps/v1"] {
        let reply = place.nobody().get(path).await?;
        ensure!(reply.status == 200, "{reply}");
    }
    Ok(())
}

async fn an_unknown_resource_is_not_found(place: Place) -> Result<()> {
    for path in
        [place.core("nothings"), place.core("nothings?watch=true"), "/apis/apps/v1/nothings".to_owned()]
    {
        let status = place.admin().get(&path).await?.refused(404, "NotFound")?;
        ensure!(status["message"] == "the server could not find the requested resource", "{status}");
    }
    Ok(())
}

async fn an_unknown_group_is_not_found(place: Place) -> Result<()> {
    for path in ["/apis/nothing.test/v1/things", "/apis/nothing.test/v1/things?watch=true", "/nothing"] {
        let reply = place.admin().get(path).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
        ensure!(reply.header(http::header::CONTENT_TYPE).starts_with("text/plain"), "{:?}", reply.headers);
    }
    Ok(())
}

async fn an_absent_object_is_not_found(place: Place) -> Result<()> {
    let status = place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    ensure!(status["message"] == "configmaps \"a\" not found", "{status}");
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/d", place.namespace);
    let status = place.admin().get(&path).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "d", "group": "apps", "kind": "deployments"}), "{status}");
    Ok(())
}

async fn a_method_that_is_not_there_is_refused(place: Place) -> Result<()> {
    place.create("a").await?;
    for (method, path) in [
        (Method::PUT, place.all()),
        (Method::PATCH, place.all()),
        (Method::POST, place.one("a")),
        (Method::POST, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
    ] {
        let reply = place.admin().send(method, &path, "application/json", &json!({})).await?;
        reply.refused(405, "MethodNotAllowed")?;
    }
    Ok(())
}

async fn refused(place: &Place, queries: &[&str], code: u16, reason: &str) -> Result<()> {
    for query in queries {
        place.admin().get(&format!("{}?{query}", place.all())).await?.refused(code, reason)?;
    }
    Ok(())
}

async fn a_list_at_no_number_is_refused(place: Place) -> Result<()> {
    let queries =
        ["resourceVersion=abc", "resourceVersion=-1", "resourceVersion=abc&resourceVersionMatch=Exact"];
    refused(&place, &queries, 400, "BadRequest").await
}

async fn a_watch_from_no_number_is_refused(place: Place) -> Result<()> {
    refused(&place, &["watch=true&resourceVersion=abc", "watch=true&resourceVersion=-1"], 500, "").await
}

async fn a_match_needs_a_version(place: Place) -> Result<()> {
    refused(&place, &["resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"], 422, "Invalid")
        .await
}

async fn an_exact_match_is_not_for_zero(place: Place) -> Result<()> {
    refused(&place, &["resourceVersionMatch=Exact&resourceVersion=0"], 422, "Invalid").await
}

async fn an_unknown_match_is_refused(place: Place) -> Result<()> {
    let queries = ["resourceVersionMatch=Bogus", "resourceVersionMatch=Bogus&resourceVersion=1"];
    refused(&place, &queries, 422, "Invalid").await
}

async fn a_number_must_be_one(place: Place) -> Result<()> {
    let queries = [
        "limit=abc",
        "limit=",
        "timeoutSeconds=abc",
        "timeoutSeconds=1.5",
        "watch=true&timeoutSeconds=abc",
        "watch=true&limit=abc",
    ];
    refused(&place, &queries, 400, "BadRequest").await
}

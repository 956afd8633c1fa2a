//! Rejected requests: users, paths, methods and parameters.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use super::place::Place;

checks! {
    "An unknown token is rejected with 401.":
        unknown_token_is_rejected;
    "A user without permission is rejected with 403 and the missing permission.":
        list_needs_the_right_to_list, watch_requires_permission, get_needs_the_right_to_get,
        create_needs_the_right_to_create, authorization_precedes_lookup_of_resource, path_requires_permission;
    "Each user can read the version, health and discovery.":
        each_user_can_read_discovery;
    "An unknown resource is rejected with 404: with a Status in a known group, with text in other groups.":
        unknown_resource_is_not_found, unknown_group_is_not_found, absent_object_is_not_found;
    "A method that a resource does not support is rejected with 405.":
        unsupported_method_is_rejected;
    "A version that is not a number is rejected: with 400 by a LIST, with 500 and no reason by a WATCH.":
        list_at_invalid_version_is_rejected, watch_from_invalid_version_is_rejected;
    "Exact and NotOlderThan require a version, and Exact a version other than 0; an unknown match is rejected.":
        match_needs_a_version, exact_match_is_not_for_zero, unknown_match_is_rejected;
    "A limit or timeout that is not a number is rejected with 400.":
        number_must_be_one;
}

async fn unknown_token_is_rejected(place: Place) -> Result<()> {
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

async fn list_needs_the_right_to_list(place: Place) -> Result<()> {
    forbidden(&place, &place.all(), "list").await?;
    forbidden(&place, "/api/v1/configmaps", "list").await
}

async fn watch_requires_permission(place: Place) -> Result<()> {
    forbidden(&place, &format!("{}?watch=true", place.all()), "watch").await
}

async fn get_needs_the_right_to_get(place: Place) -> Result<()> {
    place.create("a").await?;
    forbidden(&place, &place.one("a"), "get").await?;
    forbidden(&place, &place.one("absent"), "get").await
}

async fn create_needs_the_right_to_create(place: Place) -> Result<()> {
    place
        .nobody()
        .post(&place.all(), &json!({"metadata": {"name": "a"}}))
        .await?
        .refused(403, "Forbidden")?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn authorization_precedes_lookup_of_resource(place: Place) -> Result<()> {
    let status = place.nobody().get("/api/v1/nothings").await?.refused(403, "Forbidden")?;
    ensure!(status["details"] == json!({"kind": "nothings"}), "{status}");
    Ok(())
}

async fn path_requires_permission(place: Place) -> Result<()> {
    let status = place.nobody().get("/nothing").await?.refused(403, "Forbidden")?;
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.ends_with("cannot get path \"/nothing\""), "{status}");
    Ok(())
}

async fn each_user_can_read_discovery(place: Place) -> Result<()> {
    for path in ["/version", "/readyz", "/healthz", "/livez", "/api", "/apis", "/api/v1", "/apis/apps/v1"] {
        let reply = place.nobody().get(path).await?;
        ensure!(reply.status == 200, "{reply}");
    }
    Ok(())
}

async fn unknown_resource_is_not_found(place: Place) -> Result<()> {
    for path in
        [place.core("nothings"), place.core("nothings?watch=true"), "/apis/apps/v1/nothings".to_owned()]
    {
        let status = place.admin().get(&path).await?.refused(404, "NotFound")?;
        ensure!(status["message"] == "the server could not find the requested resource", "{status}");
    }
    Ok(())
}

async fn unknown_group_is_not_found(place: Place) -> Result<()> {
    for path in ["/apis/nothing.test/v1/things", "/apis/nothing.test/v1/things?watch=true", "/nothing"] {
        let reply = place.admin().get(path).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
        ensure!(reply.header(http::header::CONTENT_TYPE).starts_with("text/plain"), "{:?}", reply.headers);
    }
    Ok(())
}

async fn absent_object_is_not_found(place: Place) -> Result<()> {
    let status = place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "a", "kind": "configmaps"}), "{status}");
    ensure!(status["message"] == "configmaps \"a\" not found", "{status}");
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/d", place.namespace);
    let status = place.admin().get(&path).await?.refused(404, "NotFound")?;
    ensure!(status["details"] == json!({"name": "d", "group": "apps", "kind": "deployments"}), "{status}");
    Ok(())
}

async fn unsupported_method_is_rejected(place: Place) -> Result<()> {
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

async fn list_at_invalid_version_is_rejected(place: Place) -> Result<()> {
    let queries =
        ["resourceVersion=abc", "resourceVersion=-1", "resourceVersion=abc&resourceVersionMatch=Exact"];
    refused(&place, &queries, 400, "BadRequest").await
}

async fn watch_from_invalid_version_is_rejected(place: Place) -> Result<()> {
    refused(&place, &["watch=true&resourceVersion=abc", "watch=true&resourceVersion=-1"], 500, "").await
}

async fn match_needs_a_version(place: Place) -> Result<()> {
    refused(&place, &["resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"], 422, "Invalid")
        .await
}

async fn exact_match_is_not_for_zero(place: Place) -> Result<()> {
    refused(&place, &["resourceVersionMatch=Exact&resourceVersion=0"], 422, "Invalid").await
}

async fn unknown_match_is_rejected(place: Place) -> Result<()> {
    let queries = ["resourceVersionMatch=Bogus", "resourceVersionMatch=Bogus&resourceVersion=1"];
    refused(&place, &queries, 422, "Invalid").await
}

async fn number_must_be_one(place: Place) -> Result<()> {
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

//! Odd paths, and methods that few clients use.

use anyhow::{Result, ensure};
use http::{Method, Request};
use serde_json::{Value, json};

use super::custom::Custom;
use super::place::Place;
use super::raw::{JSON, MERGE_PATCH, Reply};
use super::values::names;

checks! {
    "The server decodes the escapes of a path before it splits the path into segments, and ignores final slashes.":
        escaped_slash_is_a_slash, invalid_escape_is_rejected;
    "Two slashes are a namespace without a name: a LIST then reads all namespaces, and other requests fail.":
        list_of_empty_namespace_reads_all, object_needs_a_namespace;
    "A watch path does not support writes.":
        path_of_a_watch_is_only_read;
    "The handler of custom resources looks at the verb, not at the method.":
        head_of_custom_resources_is_a_get, custom_resource_has_separate_messages_for_unknown_methods,
        namespaced_custom_resource_has_no_path_without_namespace;
}

async fn escaped_slash_is_a_slash(place: Place) -> Result<()> {
    place.create("a").await?;
    for end in ["", "/", "//", "/%2F", "%2f"] {
        let list = place.admin().get(&format!("{}{end}", place.all())).await?.ok()?;
        ensure!(names(&list) == ["a"], "{end}: {list}");
        let object = place.admin().get(&format!("{}{end}", place.one("a"))).await?.ok()?;
        ensure!(object["metadata"]["name"] == "a", "{end}: {object}");
    }
    let status = place.admin().get(&place.one("a%2Fb")).await?.refused(404, "NotFound")?;
    ensure!(status["message"] == "the server could not find the requested resource", "{status}");
    place.admin().get(&place.one("a").replacen("/v1", "%2Fv1", 1)).await?.ok()?;
    Ok(())
}

async fn invalid_escape_is_rejected(place: Place) -> Result<()> {
    for name in ["a%zz", "a%", "a%2"] {
        let reply = place.admin().get(&place.one(name)).await?;
        ensure!(reply.status == 400 && reply.text == "400 Bad Request", "{reply}");
    }
    Ok(())
}

async fn list_of_empty_namespace_reads_all(place: Place) -> Result<()> {
    place.create("a").await?;
    let chosen = format!("fieldSelector=metadata.name=a,metadata.namespace={}", place.namespace);
    let list = place.admin().get(&format!("/api/v1/namespaces//configmaps?{chosen}")).await?.ok()?;
    ensure!(names(&list) == ["a"], "{list}");
    Ok(())
}

async fn object_needs_a_namespace(place: Place) -> Result<()> {
    let path = "/api/v1/namespaces//configmaps/a";
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let status = send(&place, &method, path).await?.refused(400, "BadRequest")?;
        ensure!(status["message"] == "Namespace parameter required.", "{method}: {status}");
    }
    for method in [Method::GET, Method::PUT, Method::POST, Method::DELETE] {
        send(&place, &method, "/api/v1/configmaps/a").await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn path_of_a_watch_is_only_read(place: Place) -> Result<()> {
    place.create("a").await?;
    let path = place.one("a").replacen("/v1/", "/v1/watch/", 1);
    for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD] {
        let reply = send(&place, &method, &path).await?;
        ensure!(reply.status == 405, "{method}: {reply}");
    }
    place.get("a").await?;
    Ok(())
}

async fn install(place: &Place) -> Result<Custom<'_>> {
    Custom::install(place, json!({"type": "object"}), json!({})).await
}

async fn head_of_custom_resources_is_a_get(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    kind.create("a", json!({})).await?;
    for (path, status) in [(kind.all(), 200), (kind.one("a"), 200), (kind.one("b"), 404), (place.all(), 405)]
    {
        let reply = send(&place, &Method::HEAD, &path).await?;
        ensure!(reply.status == status, "{reply}");
    }
    Ok(())
}

async fn custom_resource_has_separate_messages_for_unknown_methods(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let status = send(&place, &Method::OPTIONS, &kind.all()).await?.refused(405, "MethodNotAllowed")?;
    let message = format!(" is not supported on resources of kind \"widgets.{}\"", kind.group);
    ensure!(status["message"] == message, "{status}");
    ensure!(status["details"] == json!({"group": kind.group, "kind": "widgets"}), "{status}");
    for method in [Method::PUT, Method::PATCH] {
        let status = send(&place, &method, &kind.all()).await?.refused(400, "BadRequest")?;
        ensure!(status["message"] == "name must be provided", "{status}");
    }
    Ok(())
}

async fn namespaced_custom_resource_has_no_path_without_namespace(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    kind.create("a", json!({})).await?;
    let everywhere = format!("/apis/{}/v1/widgets", kind.group);
    for path in [everywhere.clone(), everywhere.replacen("/widgets", "/namespaces//widgets", 1)] {
        ensure!(names(&place.admin().get(&path).await?.ok()?) == ["a"]);
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let reply = send(&place, &method, &path).await?;
            ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
        }
        let reply = place.admin().get(&format!("{path}/a")).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
    }
    Ok(())
}

/// Sends a request, with a body if the method requires it.
async fn send(place: &Place, method: &Method, path: &str) -> Result<Reply> {
    let kind = if *method == Method::PATCH { MERGE_PATCH } else { JSON };
    let body = json!({"metadata": {"name": "a"}});
    let body: Option<&Value> = matches!(*method, Method::POST | Method::PUT | Method::PATCH).then_some(&body);
    let request = Request::builder().method(method.clone()).uri(path);
    let request = if body.is_some() { request.header(http::header::CONTENT_TYPE, kind) } else { request };
    place.admin().request(request, body).await
}

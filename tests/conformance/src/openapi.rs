//! OpenAPI documents.

use anyhow::{Result, ensure};
use http::{Request, header};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::custom::{Custom, LOOK_AGAIN};
use super::place::Place;
use super::raw::JSON;

checks! {
    "The index contains a link to the document of each version, and the link changes with the document.":
        index_links_documents, old_link_is_redirected, document_of_a_crd_follows_its_schema;
    "The format of a document is negotiated, an unknown format is rejected with 406, and an ETag permits 304.":
        formats_are_negotiated, unchanged_open_api_document_is_not_sent_again;
    "An unknown document is not found.":
        unknown_document_is_not_found;
}

const INDEX: &str = "/openapi/v3";
const APPS: &str = "/openapi/v3/apis/apps/v1";

/// Returns the link to a document. The link is absent if no document has the path.
async fn link(place: &Place, path: &str) -> Result<Option<String>> {
    let index = place.admin().get(INDEX).await?.ok()?;
    Ok(index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned))
}

async fn index_links_documents(place: Place) -> Result<()> {
    let link = link(&place, "apis/apps/v1").await?.unwrap_or_default();
    ensure!(link.starts_with("/openapi/v3/apis/apps/v1?hash="), "{link}");
    let document = place.admin().get(&link).await?;
    ensure!(document.header(header::CACHE_CONTROL) == "public, immutable", "{document}");
    let schemas = &document.ok()?["components"]["schemas"];
    ensure!(schemas["io.k8s.api.apps.v1.Deployment"]["type"] == "object", "{schemas}");
    Ok(())
}

async fn old_link_is_redirected(place: Place) -> Result<()> {
    let current = link(&place, "apis/apps/v1").await?.unwrap_or_default();
    let reply = place.admin().get(&format!("{APPS}?hash=0")).await?;
    ensure!(reply.status == 301 && reply.header(header::LOCATION) == current, "{reply}");
    let unfixed = place.admin().get(&format!("{APPS}?hash=")).await?;
    ensure!(
        unfixed.status == 200 && unfixed.header(header::CACHE_CONTROL) == "no-cache, private",
        "{}",
        unfixed.status
    );
    Ok(())
}

async fn document_of_a_crd_follows_its_schema(place: Place) -> Result<()> {
    let schema = |name: &str| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {name: {"type": "string"}}}}});
    let custom = Custom::install(&place, schema("one"), json!({})).await?;
    let path = format!("apis/{}/v1", custom.group);
    let fields = async |place: &Place| -> Result<Option<Value>> {
        let Some(link) = link(place, &path).await? else { return Ok(None) };
        let document = place.admin().get(&link).await?;
        if document.status != 200 {
            return Ok(None);
        }
        let group: Vec<&str> = custom.group.rsplit('.').collect();
        let name = format!("{}.v1.Widget", group.join("."));
        Ok(Some(document.ok()?["components"]["schemas"][name]["properties"]["spec"]["properties"].clone()))
    };
    // The real server publishes documents asynchronously.
    while fields(&place).await? != Some(json!({"one": {"type": "string"}})) {
        sleep(LOOK_AGAIN).await;
    }
    let seen = custom.create("seen", json!({})).await?;
    custom.change_schema(&seen, schema("two")).await?;
    while fields(&place).await? != Some(json!({"two": {"type": "string"}})) {
        sleep(LOOK_AGAIN).await;
    }
    place.admin().delete(&custom.crd("widgets")).await?.ok()?;
    while link(&place, &path).await?.is_some() {
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

async fn formats_are_negotiated(place: Place) -> Result<()> {
    let protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let v2 = "/openapi/v2";
    for (path, accept, sent) in [
        (APPS, "*/*", JSON),
        (APPS, "text/html, application/*", JSON),
        (v2, JSON, JSON),
        (v2, protobuf, protobuf),
        (v2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json;q=0.5", protobuf),
    ] {
        let request = Request::get(path).header(header::ACCEPT, accept);
        let reply = place.admin().request(request, None).await?;
        let (kind, vary) = (reply.header(header::CONTENT_TYPE), reply.headers.get_all(header::VARY));
        ensure!(
            reply.status == 200 && kind == sent && vary.iter().any(|name| name == "Accept"),
            "{accept}: {reply}"
        );
    }
    for path in [APPS, v2] {
        let reply = place.admin().get_as(path, "text/html").await?;
        ensure!(reply.status == 406 && reply.text.is_empty(), "{path}: {reply}");
    }
    let index = place.admin().get_as(INDEX, "text/html").await?;
    ensure!(index.header(header::CONTENT_TYPE) == "text/plain; charset=utf-8", "{index}");
    Ok(())
}

async fn unchanged_open_api_document_is_not_sent_again(place: Place) -> Result<()> {
    let first = place.admin().get(APPS).await?;
    let tag = first.header(header::ETAG);
    let current = link(&place, "apis/apps/v1").await?.unwrap_or_default();
    ensure!(
        Some(tag) == current.split_once('=').map(|(_, hash)| format!("\"{hash}\"")).as_deref(),
        "{tag} {current}"
    );
    let request = Request::get(APPS).header(header::IF_NONE_MATCH, tag);
    let second = place.admin().request(request, None).await?;
    ensure!(second.status == 304 && second.text.is_empty() && second.header(header::ETAG) == tag, "{second}");
    Ok(())
}

async fn unknown_document_is_not_found(place: Place) -> Result<()> {
    for path in ["/openapi/v3/apis/absent.example.com/v1", "/openapi/v3/"] {
        let reply = place.admin().get(path).await?;
        ensure!(reply.status == 404 && reply.text.is_empty(), "{path}: {reply}");
    }
    for path in ["/openapi", "/openapi/v4", "/openapi/v2/"] {
        let reply = place.admin().get(path).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{path}: {reply}");
    }
    Ok(())
}

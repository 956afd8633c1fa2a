//! OpenAPI documents of the served kinds: `/openapi/v2`, `/openapi/v3`, and a document of version 3 for each
//! group and version.
//!
//! A document is built for its first request. Its hash covers only the kinds of the document, so a change
//! of a CRD changes only the documents that contain its kinds.

mod custom;
mod document;
mod models;
mod paths;
mod protobuf;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use self::document::Part;
use crate::encoding::body::Body;
use crate::http::service::{self, Call, page_not_found};
use crate::state::Shared;
use crate::state::documents::Document;
use crate::wire::accept;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name of this media type in requests of kubectl.
const PROTOBUF_OF_KUBECTL: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

pub(crate) fn respond(shared: &Shared, call: &Call) -> Response<Body> {
    let path = call.parts.uri.path();
    let parts = document::parts(shared);
    match path.strip_prefix("/openapi/v3") {
        Some("") => service::document("text/plain; charset=utf-8", index(&parts).to_string()),
        Some(rest) => match parts.into_iter().find(|part| rest.strip_prefix('/') == Some(&part.path)) {
            Some(part) => version_3(shared, call, &part),
            None => empty(StatusCode::NOT_FOUND),
        },
        None if path == "/openapi/v2" => version_2(shared, call, &parts),
        None => page_not_found(),
    }
}

fn version_2(shared: &Shared, call: &Call, parts: &[Part]) -> Response<Body> {
    let hash = document::hash(parts);
    match media_type(call, &[JSON, PROTOBUF_OF_KUBECTL, PROTOBUF]) {
        None => empty(StatusCode::NOT_ACCEPTABLE),
        Some(JSON) => cached(shared, call, JSON, &hash, || document::version_2(parts).to_string().into()),
        Some(_) => cached(shared, call, PROTOBUF, &hash, || protobuf::document(&document::version_2(parts))),
    }
}

fn version_3(shared: &Shared, call: &Call, part: &Part) -> Response<Body> {
    if media_type(call, &[JSON]).is_none() {
        return empty(StatusCode::NOT_ACCEPTABLE);
    }
    let hash = document::hash(std::slice::from_ref(part));
    let wanted = call.query.get("hash").filter(|wanted| !wanted.is_empty());
    if wanted.is_some_and(|wanted| wanted != hash) {
        let mut response = empty(StatusCode::MOVED_PERMANENTLY);
        set(&mut response, header::LOCATION, &link(part, &hash));
        return response;
    }
    let mut response = cached(shared, call, JSON, &hash, || document::version_3(part).to_string().into());
    if wanted.is_some() {
        set(&mut response, header::CACHE_CONTROL, "public, immutable");
    }
    response
}

/// Returns the links to the documents of version 3. The hash in a link changes with the document.
fn index(parts: &[Part]) -> Value {
    let links = parts.iter().map(|part| {
        let hash = document::hash(std::slice::from_ref(part));
        (part.path.clone(), json!({"serverRelativeURL": link(part, &hash)}))
    });
    json!({"paths": links.collect::<Map<_, _>>()})
}

fn link(part: &Part, hash: &str) -> String {
    format!("/openapi/v3/{}?hash={hash}", part.path)
}

/// Returns the first of the supported media types that the client accepts.
fn media_type(call: &Call, supported: &[&'static str]) -> Option<&'static str> {
    let accepted = accept::accepted(&call.parts.headers);
    accepted.iter().find_map(|media| supported.iter().find(|name| media.covers(name)).copied())
}

/// Responds with a document. Builds it if the cached document has another hash.
fn cached(
    shared: &Shared,
    call: &Call,
    media: &'static str,
    hash: &str,
    build: impl FnOnce() -> Vec<u8>,
) -> Response<Body> {
    let key = (call.parts.uri.path().to_owned(), media);
    let documents = &shared.openapi.0;
    let found =
        documents.lock().get(&key).filter(|known| known.hash == hash).map(|known| known.bytes.clone());
    let bytes = found.unwrap_or_else(|| {
        // The lock is free meanwhile. If two requests build the same document, the results are equal.
        let bytes = Bytes::from(build());
        documents.lock().insert(key, Document { hash: hash.to_owned(), bytes: bytes.clone() });
        bytes
    });
    service::cacheable(call, media, hash, bytes)
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = service::document("", "");
    *response.status_mut() = status;
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

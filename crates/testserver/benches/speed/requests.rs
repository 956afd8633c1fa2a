//! Sends requests to the tower service of a server in the same process.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_testserver::{ApiService, Body};
use tower_service::Service;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a request and returns the body of the response. Panics if the request fails.
pub(crate) async fn open(
    service: &mut ApiService,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: Bytes,
) -> Body {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    let request = request.body(Full::new(body)).expect("a request");
    let response = service.call(request).await.expect("a response");
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response.into_body()
}

/// Sends a write and reads the response. Returns the length of the response in bytes.
pub(crate) async fn write(
    service: &mut ApiService,
    method: Method,
    path: &str,
    media_type: &'static str,
    content: Bytes,
) -> usize {
    let mut body = open(service, method, path, media_type, content).await;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.expect("a complete response").into_data().map_or(0, |data| data.len());
    }
    length
}

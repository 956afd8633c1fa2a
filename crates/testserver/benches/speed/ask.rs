//! Requests to a server in the same process, as its tower service takes them.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_testserver::{ApiService, Body};
use tower::Service;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a request and gives the body of its answer, which must be a success.
pub(crate) async fn open(
    service: &mut ApiService,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: Bytes,
) -> Body {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    let request = request.body(Full::new(body)).expect("a request");
    let answer = service.call(request).await.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.into_body()
}

/// Sends a write and reads its answer; gives the answer's length.
pub(crate) async fn write(
    service: &mut ApiService,
    method: Method,
    path: &str,
    media_type: &'static str,
    body: Bytes,
) -> usize {
    let mut answer = open(service, method, path, media_type, body).await;
    let mut length = 0;
    while let Some(frame) = answer.frame().await {
        length += frame.expect("a whole answer").into_data().map_or(0, |data| data.len());
    }
    length
}

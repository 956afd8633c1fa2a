//! A server without state. Every LIST returns the same objects, and every WATCH stays open.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use kube_client::{Client, client::Body};

/// The number of objects of each list.
pub(crate) const OBJECTS: usize = 2;

const LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[
    {"metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"1"}},
    {"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"2"}}]}"#;

/// Returns a client of the server.
pub(crate) fn client() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body: BoxBody<Bytes, Infallible> = if is_watch {
            StreamBody::new(futures_util::stream::pending()).boxed()
        } else {
            Full::from(LIST).boxed()
        };
        Ok::<_, Infallible>(Response::new(body))
    });
    Client::new(service, "default")
}

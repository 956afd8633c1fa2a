//! A server without state. Every LIST returns the same objects, and every WATCH stays open.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use kube_client::{Client, client::Body};

/// The number of objects of each list.
pub(crate) const OBJECTS: usize = 2;

/// Returns a list with the objects `a`, `b`, and numbers.
fn list(objects: usize) -> Bytes {
    let name = |number: usize| match number {
        1 => "a".to_owned(),
        2 => "b".to_owned(),
        number => number.to_string(),
    };
    let item = |number: usize| {
        let name = name(number);
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{number}","resourceVersion":"{number}"}}}}"#
        )
    };
    let items: Vec<String> = (1..=objects).map(item).collect();
    let metadata = format!(r#""metadata":{{"resourceVersion":"{}"}}"#, objects + 10);
    format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1",{metadata},"items":[{}]}}"#, items.join(",")).into()
}

/// Returns a client of the server.
pub(crate) fn client() -> Client {
    client_of(OBJECTS)
}

/// Returns a client of a server with this number of objects.
pub(crate) fn client_of(objects: usize) -> Client {
    let list = list(objects);
    let service = tower::service_fn(move |request: Request<Body>| {
        let list = list.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let body: BoxBody<Bytes, Infallible> = if is_watch {
                StreamBody::new(futures_util::stream::pending()).boxed()
            } else {
                Full::from(list).boxed()
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(service, "default")
}

//! A request body that is empty and can't be cloned.
//!
//! kube-client's own retry layer (`default_retry`, on by default) repeats requests that the
//! server answered with 429, 503 or 504, up to 15 times and invisibly; the reflector's backoff
//! would be multiplied by it. The layer leaves alone what it can't repeat, which is a request
//! whose body can't be cloned. [`Body::empty`] can be; the body of a response can't.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use kube_client::{Client, client::Body};

/// An empty body that hides the request from retry layers.
///
/// # Cancel safety
/// Safe: nothing is kept.
pub(crate) async fn uncloneable_body() -> Result<Body, kube_client::Error> {
    let answer = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    // The client runs its service on a task, which ends when the client is dropped below.
    let response = Client::new(answer, "").send(Request::new(Body::empty())).await?;
    Ok(response.into_body())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;

    #[tokio::test]
    async fn the_body_is_empty_and_cannot_be_cloned() {
        let body = uncloneable_body().await.unwrap();
        assert!(body.try_clone().is_none());
        assert!(body.is_end_stream());
        assert!(Body::empty().try_clone().is_some(), "kube-client's own empty body is cloneable");
    }
}

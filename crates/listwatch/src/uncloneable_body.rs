//! An empty request body that cannot be cloned.
//!
//! kube-client's retry layer (`default_retry`, on by default) repeats a request up to 15 times after a
//! response of 429, 503 or 504, and does not report it. Each attempt of the reflector would become many
//! requests. The layer does not repeat a request whose body cannot be cloned. [`Body::empty`] can be
//! cloned, but the body of a response cannot.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use kube_client::{Client, client::Body};

/// Creates an empty body that prevents retries.
///
/// # Cancel safety
/// This function is cancel safe.
pub(crate) async fn uncloneable_body() -> Result<Body, kube_client::Error> {
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    // The client runs its service on a task. Dropping the client stops the task.
    let response = Client::new(service, "").send(Request::new(Body::empty())).await?;
    Ok(response.into_body())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;

    #[tokio::test]
    async fn body_is_empty_and_cannot_be_cloned() {
        let body = uncloneable_body().await.unwrap();
        assert!(body.try_clone().is_none());
        assert!(body.is_end_stream());
        assert!(Body::empty().try_clone().is_some(), "kube-client's own empty body is cloneable");
    }
}

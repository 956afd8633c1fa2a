//! `single_use_body`: request bodies that retry layers cannot send twice.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use kube_client::{Client, client::Body};
use tower::BoxError;

/// Returns a request body that cannot be cloned. A retry layer therefore cannot send the request twice.
///
/// The retry layer of kube-client (`Config::default_retry`, on by default) repeats a request up to 15
/// times after a response with the status 429, 503 or 504. It does not report these repetitions. The
/// layer does not repeat a request whose body cannot be cloned. The constructors of [`Body`] create
/// cloneable bodies, but the body of a response cannot be cloned. This function therefore passes `body`
/// through a client that returns `body` as its response.
///
/// # Errors
/// Fails only if the runtime shuts down.
///
/// # Panics
/// Panics outside of a Tokio runtime.
///
/// # Cancel safety
/// If the future is dropped, `body` is dropped.
pub async fn single_use_body<B>(body: B) -> Result<Body, kube_client::Error>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut body = Some(body);
    let service = tower::service_fn(move |_: Request<Body>| {
        let response = body.take().map(Response::new);
        async { response.ok_or_else(|| BoxError::from("the request body was already sent")) }
    });
    // The client runs its service on a task. Dropping the client stops the task.
    let response = Client::new(service, "").send(Request::new(Body::empty())).await?;
    Ok(response.into_body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_has_same_content_and_cannot_be_cloned() {
        for text in ["", "{}"] {
            let cloneable = Body::from(text.as_bytes().to_vec());
            assert!(cloneable.try_clone().is_some(), "a body of kube-client can be cloned");
            let body = single_use_body(cloneable).await.unwrap();
            assert!(body.try_clone().is_none());
            let length = u64::try_from(text.len()).unwrap();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(length), text.is_empty()));
            assert_eq!(body.collect_bytes().await.unwrap(), text);
        }
    }
}

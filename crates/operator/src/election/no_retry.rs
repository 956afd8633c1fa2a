//! `NoRetry`: requests that no retry layer sends twice.
//!
//! The retry layer of kube-client (`Config::default_retry`, on by default) repeats a request if the server responds with
//! 429, 503 or 504. It repeats the request up to 15 times, after the delay in `Retry-After`. It does not repeat a request whose body cannot be cloned. In
//! kube-client, only the body of a response cannot be cloned. This module therefore sends each body through a client that
//! returns it as its response.
//!
//! The body also checks leadership when a connection takes it. The sender and the connection are different tasks, and the
//! process may be paused between them until its lease has expired. A request without its body is not executed.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube_client::{Client, Result, client::Body};
use tower::BoxError;

use super::leadership::{Leadership, NotLeading};

/// Wraps requests so that they are sent at most once. Clones share one task, which ends with the last clone.
#[derive(Clone)]
pub(crate) struct NoRetry {
    echo: Client,
}

impl NoRetry {
    /// Creates a wrapper for requests that do not depend on leadership.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) fn new() -> Self {
        Self::for_leader(Leadership::always())
    }

    /// Creates a wrapper for requests of the leader. If this process is not the leader when a body is read, the body fails with
    /// [`NotLeading`].
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) fn for_leader(leadership: Leadership) -> Self {
        let echo = tower::service_fn(move |request: Request<Body>| {
            let guarded = GuardedBody { body: request.into_body(), leadership: leadership.clone() };
            async { Ok::<_, Infallible>(Response::new(guarded)) }
        });
        Self { echo: Client::new(echo, "") }
    }

    /// Returns the same request with a body that cannot be cloned.
    pub(crate) async fn wrap(&self, request: Request<Body>) -> Result<Request<Body>> {
        let (parts, body) = request.into_parts();
        let echoed = self.echo.send(Request::new(body)).await?;
        Ok(Request::from_parts(parts, echoed.into_body()))
    }
}

/// A body that can be read only while this process is the leader.
struct GuardedBody {
    body: Body,
    leadership: Leadership,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.leadership.is_leader() {
            return Poll::Ready(Some(Err(NotLeading.into())));
        }
        pin!(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        sync::watch,
        time::{Duration, Instant, advance},
    };

    use super::*;
    use crate::election::leadership::LeaderState;

    #[tokio::test]
    async fn wrapped_request_is_equal_and_body_is_not_cloneable() {
        for text in ["", "{}"] {
            let request = Request::put("/a?b=c").header("x", "y").extension("patch");
            let request = request.body(Body::from(text.as_bytes().to_vec())).unwrap();
            assert!(request.body().try_clone().is_some(), "a body of kube-client can be cloned");
            let wrapped = NoRetry::new().wrap(request).await.unwrap();
            assert_eq!((wrapped.method().as_str(), wrapped.uri().to_string().as_str()), ("PUT", "/a?b=c"));
            assert_eq!(
                (&wrapped.headers()["x"], wrapped.extensions().get()),
                (&"y".parse().unwrap(), Some(&"patch"))
            );
            let body = wrapped.into_body();
            assert!(body.try_clone().is_none());
            assert_eq!(
                (body.size_hint().exact(), body.is_end_stream()),
                (Some(text.len() as u64), text.is_empty())
            );
            assert_eq!(body.collect_bytes().await.unwrap(), text);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn body_read_after_lease_expiry_fails() {
        let (_sender, state) = watch::channel(LeaderState::Leading(Instant::now() + Duration::from_secs(10)));
        let no_retry = NoRetry::for_leader(Leadership::new(state));
        let bodies = async || {
            let request = Request::put("/a").body(Body::from(b"{}".to_vec())).unwrap();
            no_retry.wrap(request).await.unwrap().into_body()
        };
        let (early, late) = (bodies().await, bodies().await);
        assert_eq!(early.collect_bytes().await.unwrap(), "{}");
        advance(Duration::from_secs(10)).await;
        let error = late.collect_bytes().await.unwrap_err();
        let kube_client::Error::Service(error) = error else { panic!("{error}") };
        assert!(error.is::<NotLeading>(), "{error}");
    }
}

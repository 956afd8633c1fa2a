//! `NoRetry`: requests that no retry layer sends twice.
//!
//! The body of a wrapped request also checks leadership when a connection reads it. The sender and the
//! connection are different tasks, and the process may be paused between them until its lease has expired.
//! A request without its body is not executed.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube_client::{Client, Result, client::Body};
use kube_listwatch::single_use_body;
use tower::BoxError;

use super::leadership::{Leadership, LeaseExpired, NotLeading};
use crate::{SlotLost, SlotPermit};

/// Wraps requests so that they are sent at most once.
#[derive(Clone)]
pub(crate) struct NoRetry {
    authority: Authority,
}

/// The condition under which a request may be sent.
#[derive(Clone)]
pub(crate) enum Authority {
    Leader(Leadership),
    /// The owner of the slot of the reconciled object.
    Owner(Arc<SlotPermit>),
}

impl Authority {
    /// Returns an error if a request must not be sent now.
    pub(crate) fn check(&self) -> Result<(), BoxError> {
        match self {
            Self::Leader(leadership) if leadership.is_leader() => Ok(()),
            Self::Leader(_) => Err(NotLeading.into()),
            Self::Owner(permit) if permit.is_valid() => Ok(()),
            Self::Owner(permit) => Err(SlotLost::NotOwner(permit.slot()).into()),
        }
    }

    /// Waits until the authority is lost while a request is in flight. Returns the error of the request.
    pub(crate) async fn lost(&self) -> BoxError {
        match self {
            Self::Leader(leadership) => {
                leadership.lost().await;
                LeaseExpired.into()
            }
            Self::Owner(permit) => {
                permit.lost().await;
                SlotLost::InFlight(permit.slot()).into()
            }
        }
    }
}

impl NoRetry {
    /// Creates a wrapper for requests that do not depend on leadership.
    pub(crate) fn new() -> Self {
        Self::with(Authority::Leader(Leadership::always()))
    }

    /// Creates a wrapper for requests that need an authority. If it is lost when a body is read, the body
    /// fails.
    pub(crate) fn with(authority: Authority) -> Self {
        Self { authority }
    }

    /// Returns a client that sends each request at most once.
    pub(crate) fn client(&self, client: Client) -> Client {
        let (namespace, no_retry) = (client.default_namespace().to_owned(), self.clone());
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, no_retry) = (client.clone(), no_retry.clone());
            async move { Ok::<_, BoxError>(client.send(no_retry.wrap(request).await?).await?) }
        });
        Client::new(send, namespace)
    }

    /// Returns the same request with a body that cannot be cloned.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) async fn wrap(&self, request: Request<Body>) -> Result<Request<Body>> {
        let (parts, body) = request.into_parts();
        let guarded = GuardedBody { body, authority: self.authority.clone() };
        Ok(Request::from_parts(parts, single_use_body(guarded).await?))
    }
}

/// A body that can be read only with authority.
struct GuardedBody {
    body: Body,
    authority: Authority,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Err(error) = self.authority.check() {
            return Poll::Ready(Some(Err(error)));
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
        let no_retry = NoRetry::with(Authority::Leader(Leadership::new(state)));
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

//! `NoRetry`: requests that no retry layer sends twice.
//!
//! kube-client's own layer (`Config::default_retry`, on unless it is switched off) sends what was answered with 429, 503 or
//! 504 again, up to 15 times, after whatever a `Retry-After` says. It leaves alone a request whose body can't be cloned. Of
//! kube-client's bodies that is the one of an answer: so a body goes through a client that answers with it.
//!
//! Such a body also asks who leads, when a connection takes it to be written: between the hands of whoever sends and those of the
//! connection, which are of two tasks, a process may be paused for longer than its lease. Without its body a request is none.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use kube_client::{Client, Result, client::Body};
use tower::BoxError;

use crate::{Leadership, NotLeading};

/// Makes such requests. Clones share a task, which ends with the last of them.
#[derive(Clone)]
pub(crate) struct NoRetry {
    echo: Client,
}

impl NoRetry {
    /// Of requests that anybody may send.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(crate) fn new() -> Self {
        Self::of_leader(Leadership::always())
    }

    /// Of requests whose bodies fail with [`NotLeading`] unless this process leads when they are taken.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(crate) fn of_leader(leadership: Leadership) -> Self {
        let echo = tower::service_fn(move |request: Request<Body>| {
            let asking = Asking { body: request.into_body(), leadership: leadership.clone() };
            async { Ok::<_, Infallible>(Response::new(asking)) }
        });
        Self { echo: Client::new(echo, "") }
    }

    /// The same request, to be sent once.
    pub(crate) async fn of(&self, request: Request<Body>) -> Result<Request<Body>> {
        let (parts, body) = request.into_parts();
        let echoed = self.echo.send(Request::new(body)).await?;
        Ok(Request::from_parts(parts, echoed.into_body()))
    }
}

/// A body that is for the leader.
struct Asking {
    body: Body,
    leadership: Leadership,
}

impl HttpBody for Asking {
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
    use crate::election::leadership::Standing;

    #[tokio::test]
    async fn it_is_the_same_request_with_a_body_that_can_not_be_cloned() {
        for text in ["", "{}"] {
            let request = Request::put("/a?b=c").header("x", "y").extension("patch");
            let request = request.body(Body::from(text.as_bytes().to_vec())).unwrap();
            assert!(request.body().try_clone().is_some(), "kube-client's own can be");
            let once = NoRetry::new().of(request).await.unwrap();
            assert_eq!((once.method().as_str(), once.uri().to_string().as_str()), ("PUT", "/a?b=c"));
            assert_eq!(
                (&once.headers()["x"], once.extensions().get()),
                (&"y".parse().unwrap(), Some(&"patch"))
            );
            let body = once.into_body();
            assert!(body.try_clone().is_none());
            assert_eq!(
                (body.size_hint().exact(), body.is_end_stream()),
                (Some(text.len() as u64), text.is_empty())
            );
            assert_eq!(body.collect_bytes().await.unwrap(), text);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_not_written_once_the_lease_has_expired() {
        let (_leads, standing) = watch::channel(Standing::Leads(Instant::now() + Duration::from_secs(10)));
        let no_retry = NoRetry::of_leader(Leadership::new(standing));
        let bodies = async || {
            let request = Request::put("/a").body(Body::from(b"{}".to_vec())).unwrap();
            no_retry.of(request).await.unwrap().into_body()
        };
        let (early, late) = (bodies().await, bodies().await);
        assert_eq!(early.collect_bytes().await.unwrap(), "{}");
        advance(Duration::from_secs(10)).await;
        let error = late.collect_bytes().await.unwrap_err();
        let kube_client::Error::Service(error) = error else { panic!("{error}") };
        assert!(error.is::<NotLeading>(), "{error}");
    }
}

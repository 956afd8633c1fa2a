//! `OneTry`: requests that no retry layer sends twice.
//!
//! kube-client's own layer (`Config::default_retry`, on unless it is switched off) sends what was answered with 429, 503 or
//! 504 again, up to 15 times, after whatever a `Retry-After` says. It leaves alone a request whose body can't be cloned. Of
//! kube-client's bodies that is the one of an answer: so a body goes through a client that answers with it.

use std::convert::Infallible;

use http::{Request, Response};
use kube_client::{Client, Result, client::Body};

/// Makes such requests. Clones share a task, which ends with the last of them.
#[derive(Clone)]
pub(crate) struct OneTry {
    echo: Client,
}

impl OneTry {
    /// # Panics
    /// Outside of a runtime.
    pub(crate) fn new() -> Self {
        let echo = tower::service_fn(|request: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(request.into_body()))
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

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[tokio::test]
    async fn it_is_the_same_request_with_a_body_that_can_not_be_cloned() {
        for text in ["", "{}"] {
            let request = Request::put("/a?b=c").header("x", "y").extension("patch");
            let request = request.body(Body::from(text.as_bytes().to_vec())).unwrap();
            assert!(request.body().try_clone().is_some(), "kube-client's own can be");
            let once = OneTry::new().of(request).await.unwrap();
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
}

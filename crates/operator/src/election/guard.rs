//! `Leadership::guard`: a client that writes only while this process is the leader.

use http::{Method, Request};
use kube_client::{Client, client::Body};
use tower::BoxError;

use super::{
    leadership::{Leadership, LeaseExpired, NotLeading},
    no_retry::NoRetry,
};

impl Leadership {
    /// Returns a client that sends writes only while this process is the leader.
    ///
    /// Every request except GET, HEAD and OPTIONS counts as a write. `exec`, `attach` and
    /// `port-forward` are GETs and pass.
    /// - If this process is not the leader, a write fails with [`NotLeading`].
    /// - If the lease expires while a write is in flight, the write is cancelled and fails with
    ///   [`LeaseExpired`]. A request that still waits for a connection or for credentials at that time
    ///   is never sent.
    /// - The connection checks leadership again when it takes the body. A process that was paused
    ///   before that point therefore does not send the write. The check does not cover writes without a
    ///   body; kube-client does not send such writes.
    ///
    /// Each write is sent at most once, also if `client` retries, as a client from `Config` does by
    /// default. A retry would be sent without a new check, at a time that the server chooses. If the
    /// server responds with 429, 503 or 504, the write therefore fails with that status. To try again,
    /// send a new request; a reconciler does so by returning the failure. Reads keep the retries of
    /// `client`.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn guard(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let (leadership, no_retry) = (self.clone(), NoRetry::for_leader(self.clone()));
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, leadership, no_retry) = (client.clone(), leadership.clone(), no_retry.clone());
            async move {
                if !is_write(request.method()) {
                    return Ok::<_, BoxError>(client.send(request).await?);
                }
                let request = no_retry.wrap(request).await?;
                // The guard does not await between this check and the send.
                if !leadership.is_leader() {
                    return Err(NotLeading.into());
                }
                tokio::select! {
                    biased;
                    () = leadership.lost() => Err(LeaseExpired.into()),
                    answer = client.send(request) => Ok(answer?),
                }
            }
        });
        Client::new(send, namespace)
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

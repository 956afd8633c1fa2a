//! `Leadership::guard`: a client that writes only while this process is the leader.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube_client::{Client, client::Body};
use kube_informer::ResourceVersion;
use serde::Deserialize;
use tokio::time::timeout;
use tower::BoxError;

use super::{
    leadership::Leadership,
    no_retry::{Authority, NoRetry},
};
use crate::shards::{owned::WriteRecord, scope::current_permit};

/// Limits the wait for a response. A server ends a request after 60 s, so a longer wait means that the
/// connection is broken.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Reports that the server did not respond to a request of a guarded client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestTimeout {
    /// The request only reads.
    #[error("read failed: no response from the server within {:?}", REQUEST_TIMEOUT)]
    Read,
    /// The request writes. The server may have applied it.
    #[error(
        "write failed: no response from the server within {:?}; the server may have applied it",
        REQUEST_TIMEOUT
    )]
    Write,
}

impl Leadership {
    /// Returns a client that sends writes only while this process is the leader.
    ///
    /// All requests except GET, HEAD and OPTIONS are writes. The client does not check `exec`,
    /// `attach` and `port-forward`, because they use GET.
    /// - If this process is not the leader, a write fails with [`NotLeading`](crate::NotLeading).
    /// - In a reconcile of a sharded controller, a write does not require leadership. If this process no
    ///   longer owns the slot of the reconciled object, the write fails with [`SlotLost`](crate::SlotLost).
    /// - If the lease expires while a write is in flight, the write is cancelled and fails with
    ///   [`LeaseExpired`](crate::LeaseExpired). If the write still waits for a connection or for
    ///   credentials, it is never sent.
    /// - The connection checks leadership again when it reads the body of a write. If the process
    ///   was paused until its lease expired, the write is therefore not sent. A write without a
    ///   body is not checked again, but kube-client does not send such writes.
    ///
    /// Each request fails with [`RequestTimeout`] if the server does not respond within 90 s. The timeout
    /// ends when the response begins, so watches and logs are not limited. For a write in a reconcile of a
    /// sharded controller, the timeout ends when the response is complete.
    ///
    /// The client sends each write at most once, even if `client` retries requests. By default, a
    /// client from `Config` retries after the status 429, 503 or 504. Such a retry would be sent
    /// later, without a new check of leadership. The write therefore fails with this status. To
    /// retry it, send a new request. A reconciler can return the failure instead, and the
    /// controller repeats the reconcile. `client` still retries reads.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn guard(&self, client: Client) -> Client {
        self.guarded(client, true)
    }

    /// Returns a guarded client of another cluster than that of the manager. The next owner of a slot does
    /// not need the versions of its writes, because the versions of clusters have no common order.
    pub(crate) fn guard_other_cluster(&self, client: Client) -> Client {
        self.guarded(client, false)
    }

    fn guarded(&self, client: Client, records_writes: bool) -> Client {
        let namespace = client.default_namespace().to_owned();
        let leadership = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, leadership) = (client.clone(), leadership.clone());
            async move {
                if !is_write(request.method()) {
                    return Ok::<_, BoxError>(
                        timeout(REQUEST_TIMEOUT, client.send(request))
                            .await
                            .map_err(|_| RequestTimeout::Read)??,
                    );
                }
                let permit = current_permit();
                let (path, is_delete) = (request.uri().path().to_owned(), request.method() == Method::DELETE);
                let authority = permit.clone().map_or(Authority::Leader(leadership), Authority::Owner);
                let request = NoRetry::with(authority.clone()).wrap(request).await?;
                // The guard does not await between this check and the send.
                authority.check()?;
                let send = async {
                    let recorded = permit.filter(|_| records_writes);
                    let record = recorded.map(|permit| permit.start_write(&path));
                    let response = client.send(request).await?;
                    match record {
                        Some(record) => record_result(record, response, is_delete).await,
                        None => Ok(response),
                    }
                };
                tokio::select! {
                    biased;
                    error = authority.lost() => Err(error),
                    answer = timeout(REQUEST_TIMEOUT, send) => answer.map_err(|_| RequestTimeout::Write)?,
                }
            }
        });
        Client::new(send, namespace)
    }
}

/// The only field of the response to a write that the guard reads.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    resource_version: String,
}

/// Records the version in the response to a write.
///
/// The response to a DELETE does not contain the version of the deletion: the server returns a Status, or the
/// last state of the object.
async fn record_result(
    record: WriteRecord,
    response: Response<Body>,
    is_delete: bool,
) -> Result<Response<Body>, BoxError> {
    let status = response.status();
    // A DELETE of a collection can fail after it has deleted some objects, and a proxy can return 408 after
    // it has sent the request.
    let is_rejected = status == StatusCode::NOT_FOUND
        || (status.is_client_error() && !is_delete && status != StatusCode::REQUEST_TIMEOUT);
    if is_rejected {
        record.rejected();
        return Ok(response);
    }
    if is_delete || !status.is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await?;
    if let Ok(written) = serde_json::from_slice::<Written>(&body) {
        record.applied(ResourceVersion::new(&written.metadata.resource_version));
    }
    Ok(Response::from_parts(head, body.to_vec().into()))
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

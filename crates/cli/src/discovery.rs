//! Reads small documents of the server, for example the list of API groups, bounded in time and in bytes.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube_client::{
    Client,
    client::Body,
    core::{Status, response::StatusSummary},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{CliError, with_sources};

/// The maximum time for a document, and for all resources of a server.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The delays before a request is repeated that the server has rejected because of its load (429, 503 and
/// 504).
const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];
/// The maximum size of a document.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The maximum number of characters of the message of a response that is not a `Status`.
const MAX_MESSAGE_CHARS: usize = 300;

/// Describes why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// The request failed, or the server rejected it.
    #[error(transparent)]
    Request(#[from] kube_client::Error),
    /// The connection broke during the response.
    #[error("the response broke: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
    /// The server sent no complete response in time.
    #[error("no response within {} s; check that the server is available", limit.as_secs_f64().round())]
    TimedOut { limit: Duration },
    /// The response is too long.
    #[error("the response has more than {} MiB; check the address of the server", max_bytes >> 20)]
    TooLarge { max_bytes: usize },
    /// The response is not the document.
    #[error("the response is malformed; check the address of the server")]
    Malformed(#[source] serde_json::Error),
}

impl DiscoveryError {
    /// Returns an error of a command. `operation` completes the sentence "failed to …".
    pub(crate) fn of(self, operation: &str) -> CliError {
        match self {
            Self::Request(error) => CliError::request(operation, error),
            source => CliError::Command(Box::new(Undiscovered { operation: operation.to_owned(), source })),
        }
    }

    /// Returns the reason with its sources.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Request(error) => with_sources(error),
            other => with_sources(other),
        }
    }
}

/// Describes the operation that needed a document.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation}")]
struct Undiscovered {
    operation: String,
    source: DiscoveryError,
}

/// Reads a JSON document. If the server is overloaded, repeats the request a few times. The client must not
/// repeat requests itself, because the error would then not contain the status code.
///
/// # Errors
///
/// Fails if the server rejects the request, if the response is not complete within 30 s, if it has more than
/// 16 MiB, or if it is not such a document.
///
/// # Cancel safety
///
/// If the future is dropped, the request is cancelled.
pub(crate) async fn document<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, DiscoveryError> {
    document_before(client, path, Instant::now() + TIMEOUT, MAX_BYTES).await
}

/// Reads a JSON document of at most `max_bytes` like [`document`], until a deadline.
///
/// # Errors
///
/// Fails like [`document`].
///
/// # Cancel safety
///
/// If the future is dropped, the request is cancelled.
pub(crate) async fn document_before<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Instant,
    max_bytes: usize,
) -> Result<T, DiscoveryError> {
    let limit = deadline.saturating_duration_since(Instant::now());
    let timed_out = |_| DiscoveryError::TimedOut { limit };
    let mut delays = RETRY_DELAYS.into_iter();
    loop {
        let (status, body) =
            timeout_at(deadline, response(client, path, max_bytes)).await.map_err(timed_out)??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(DiscoveryError::Malformed);
        }
        let is_overloaded = matches!(status.as_u16(), 429 | 503 | 504);
        match delays.next().filter(|delay| is_overloaded && Instant::now() + *delay < deadline) {
            Some(delay) => sleep(delay).await,
            None => {
                let error = kube_client::Error::Api(Box::new(rejection(status, &body)));
                return Err(DiscoveryError::Request(error));
            }
        }
    }
}

async fn response(
    client: &Client,
    path: &str,
    max_bytes: usize,
) -> Result<(StatusCode, bytes::Bytes), DiscoveryError> {
    let request = Request::get(path).body(Body::empty()).map_err(kube_client::Error::HttpError)?;
    let (head, body) = client.send(request).await?.into_parts();
    Ok((head.status, bounded(body, max_bytes).await?))
}

/// Reads a body with at most `max` bytes.
async fn bounded<B>(body: B, max: usize) -> Result<bytes::Bytes, DiscoveryError>
where
    B: http_body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(DiscoveryError::TooLarge { max_bytes: max }),
        Err(error) => Err(DiscoveryError::Broken(error)),
    }
}

/// Returns the `Status` of the server, or a status with the start of another text.
fn rejection(code: StatusCode, body: &[u8]) -> Status {
    let status: Option<Status> = serde_json::from_slice(body).ok();
    let mut status = status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * MAX_MESSAGE_CHARS)]);
        Status::failure(
            &crate::output::shortened(text.trim(), MAX_MESSAGE_CHARS),
            "Failed to parse error data",
        )
    });
    status.status = Some(StatusSummary::Failure);
    status.code = code.as_u16();
    status
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use http::Response;
    use http_body_util::Full;

    use super::*;

    /// Returns a client of a server that sends this response.
    fn client(status: u16, body: Vec<u8>) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| {
            let response = Response::builder().status(status).body(Full::from(body.clone()));
            async move { response }
        });
        Client::new(service, "default")
    }

    async fn read(status: u16, body: &[u8]) -> Result<serde_json::Value, DiscoveryError> {
        document(&client(status, body.to_vec()), "/apis").await
    }

    #[tokio::test]
    async fn long_response_is_an_error() {
        let long = vec![b' '; MAX_BYTES + 1];
        assert!(matches!(read(200, &long).await, Err(DiscoveryError::TooLarge { max_bytes: MAX_BYTES })));
        assert!(matches!(read(200, b"<html>").await, Err(DiscoveryError::Malformed(_))));
        assert!(read(200, b"{}").await.is_ok());
    }

    #[tokio::test]
    async fn rejection_has_code_and_message() {
        for body in [&br#"{"kind": "Status", "message": "denied", "code": 200}"#[..], b"denied"] {
            let error = read(403, body).await.unwrap_err().of("list the API groups").one_line();
            assert_eq!(error, "failed to list the API groups: the server responded with 403: denied");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn missing_response_is_an_error() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Full<bytes::Bytes>>, std::convert::Infallible>>()
        });
        let client = Client::new(service, "default");
        let error = document::<serde_json::Value>(&client, "/apis").await.unwrap_err();
        assert_eq!(error.reason(), "no response within 30 s; check that the server is available");
    }

    #[tokio::test(start_paused = true)]
    async fn request_to_overloaded_server_is_repeated_and_then_reported() {
        for (status, requests) in [(503, 4), (429, 4), (504, 4), (500, 1), (403, 1)] {
            let count = Arc::new(AtomicU64::new(0));
            let counter = count.clone();
            let service = tower::service_fn(move |_: Request<Body>| {
                counter.fetch_add(1, Ordering::Relaxed);
                let response = Response::builder().status(status).body(Full::from("try later"));
                async move { response }
            });
            let client = Client::new(service, "default");
            let error = document::<serde_json::Value>(&client, "/apis").await.unwrap_err();
            let error = error.of("list the API groups").one_line();
            let expected =
                format!("failed to list the API groups: the server responded with {status}: try later");
            assert_eq!((error, count.load(Ordering::Relaxed)), (expected, requests));
        }
    }
}

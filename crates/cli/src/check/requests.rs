//! Requests of the probes: bounded in time and in bytes.

use std::time::Duration;

use http::{
    HeaderMap, Request, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName},
};
use http_body_util::BodyExt as _;
use kube_client::{Client, client::Body};
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::error::with_sources;

/// The maximum time until the headers of a response.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum time for the body of a response.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a response that is read entirely.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Describes why a probe has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// The server rejected the request.
    #[error("{code}: {message}")]
    Rejected { code: StatusCode, message: String },
    /// The server sent no complete response.
    #[error("{0}")]
    Failed(String),
}

impl ProbeError {
    /// Returns whether the server rejected the request with this status code.
    pub(super) fn has_code(&self, expected: StatusCode) -> bool {
        matches!(self, Self::Rejected { code, .. } if *code == expected)
    }
}

/// The form in which a probe requests objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accept {
    /// Only metadata, so the contents of objects are not transferred.
    Metadata,
    /// Only metadata, as the objects of a watch.
    MetadataEvents,
    /// Complete objects, compressed if the server supports gzip.
    Gzip,
}

impl Accept {
    fn headers(self) -> &'static [(HeaderName, &'static str)] {
        match self {
            Self::Metadata => &[(
                ACCEPT,
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            )],
            Self::MetadataEvents => {
                &[(ACCEPT, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")]
            }
            Self::Gzip => &[(ACCEPT, "application/json"), (ACCEPT_ENCODING, "gzip")],
        }
    }
}

/// A response with the status code 200 and an unread body.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) headers: HeaderMap,
    body: Body,
}

impl Opened {
    /// Returns the next part of the body. `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks.
    ///
    /// # Cancel safety
    ///
    /// This function is cancel safe: a part is returned, or remains in the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, ProbeError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ProbeError::Failed(with_sources(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Reads the body. The second value is `false` if the body is longer than `max_bytes`.
    async fn read(mut self, max_bytes: usize) -> Result<(Vec<u8>, bool), ProbeError> {
        let deadline = Instant::now() + BODY_TIMEOUT;
        let mut body = Vec::new();
        loop {
            let chunk = tokio::time::timeout_at(deadline, self.chunk()).await;
            let chunk = chunk.map_err(|_| {
                ProbeError::Failed(format!("the response took longer than {}s", BODY_TIMEOUT.as_secs()))
            })??;
            let Some(chunk) = chunk else { return Ok((body, true)) };
            body.extend_from_slice(&chunk);
            if body.len() > max_bytes {
                return Ok((body, false));
            }
        }
    }

    /// Returns the number of bytes of the body. Stops to read after `max_bytes`.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks, or if the response takes too long.
    pub(super) async fn count_bytes(self, max_bytes: usize) -> Result<usize, ProbeError> {
        self.read(max_bytes).await.map(|(body, _)| body.len())
    }
}

/// Sends a GET request.
///
/// # Errors
///
/// Fails if the connection fails, if the headers take too long, or if the status code is not 200.
pub(super) async fn open(client: &Client, uri: &str, accept: Accept) -> Result<Opened, ProbeError> {
    let request = accept
        .headers()
        .iter()
        .fold(Request::get(uri), |request, (name, value)| request.header(name, *value))
        .body(Body::empty())
        .map_err(|error| ProbeError::Failed(error.to_string()))?;
    let response = timeout(HEADERS_TIMEOUT, client.send(request)).await;
    let response = response
        .map_err(|_| ProbeError::Failed(format!("no response within {}s", HEADERS_TIMEOUT.as_secs())))?
        .map_err(|error| ProbeError::Failed(with_sources(&error)))?;
    let (parts, body) = response.into_parts();
    let opened = Opened { headers: parts.headers, body };
    if parts.status == StatusCode::OK {
        return Ok(opened);
    }
    let (body, _) = opened.read(MAX_BODY_BYTES).await.unwrap_or_default();
    Err(ProbeError::Rejected { code: parts.status, message: rejection(&body) })
}

/// The part of a list that the probes use.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    /// kube-apiserver sends `null` for some empty lists.
    items: Option<Vec<serde::de::IgnoredAny>>,
}

impl Page {
    /// Returns the number of objects.
    pub(super) fn objects(&self) -> usize {
        self.items.as_ref().map_or(0, Vec::len)
    }
}

/// The metadata of a [`Page`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) continue_token: String,
    pub(super) remaining_item_count: Option<u64>,
}

/// Reads a page of a list.
///
/// # Errors
///
/// Fails like [`open`]. It also fails if the response is not a list, or has more than 16 MiB.
pub(super) async fn page(client: &Client, uri: &str) -> Result<Page, ProbeError> {
    let opened = open(client, uri, Accept::Metadata).await?;
    let (body, is_complete) = opened.read(MAX_BODY_BYTES).await?;
    if !is_complete {
        return Err(ProbeError::Failed(format!("the page has more than {} MiB", MAX_BODY_BYTES >> 20)));
    }
    serde_json::from_slice(&body)
        .map_err(|error| ProbeError::Failed(format!("the response is not a list: {error}")))
}

/// Returns the message of a `Status`, or the start of another text.
fn rejection(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let message = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body[..body.len().min(1024)]).trim().to_owned(),
    };
    crate::output::shortened(&message, 300)
}

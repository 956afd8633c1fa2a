//! Sends one write, and interprets the response. Only the status and `Retry-After` are used, so the
//! contents of objects cannot reach a log.

use std::{error::Error, fmt, time::Duration};

use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::events::v1::Event;
use kube_client::{
    Client, Resource,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    core::Request as ApiRequest,
};
use kube_listwatch::retry_after_header;
use serde_json::json;
use tokio::time::timeout;

use super::{
    event::Reporter,
    series::{EventWrite, WriteOutcome},
};
use crate::{NotLeading, election::no_retry::NoRetry};

/// The timeout of one try. The default timeout of an admission webhook is 10 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The response to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteResponse {
    Status(StatusCode),
    /// The connection failed.
    None,
    TimedOut,
    /// The client writes only while this process is leader.
    NotLeading,
    /// The request cannot be built.
    Unsendable,
}

impl fmt::Display for WriteResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the server responded with {status}"),
            Self::None => f.write_str("the server did not respond"),
            Self::TimedOut => write!(f, "the server did not respond within {REQUEST_TIMEOUT:?}"),
            Self::NotLeading => write!(f, "{NotLeading}"),
            Self::Unsendable => f.write_str("the request is invalid"),
        }
    }
}

/// Sends the write, and returns its response and outcome.
pub(crate) async fn send(
    client: &Client,
    no_retry: &NoRetry,
    reporter: &Reporter,
    write: &EventWrite,
) -> (WriteResponse, WriteOutcome) {
    let Some(request) = request(reporter, write) else {
        return (WriteResponse::Unsendable, WriteOutcome::Refused);
    };
    let sent = async { client.send(no_retry.wrap(request.map(Body::from)).await?).await };
    match timeout(REQUEST_TIMEOUT, sent).await {
        Ok(Ok(response)) => {
            let (parts, body) = response.into_parts();
            let _in_time = timeout(REQUEST_TIMEOUT, drain(body)).await;
            (WriteResponse::Status(parts.status), outcome(write.creates, parts.status, &parts.headers))
        }
        Ok(Err(error)) if is_not_leading(&error) => (WriteResponse::NotLeading, WriteOutcome::Refused),
        Ok(Err(_)) => (WriteResponse::None, WriteOutcome::Unknown(None)),
        Err(_) => (WriteResponse::TimedOut, WriteOutcome::Unknown(None)),
    }
}

fn request(reporter: &Reporter, write: &EventWrite) -> Option<Request<Vec<u8>>> {
    let events = ApiRequest::new(Event::url_path(&(), Some(write.record.key.regarding.namespace())));
    let series = write.series();
    if write.creates {
        let event = serde_json::to_vec(&write.record.event(reporter, series)).ok()?;
        return events.create(&PostParams::default(), event).ok();
    }
    let patch = Patch::Merge(json!({ "series": series }));
    events.patch(&write.record.name, &PatchParams::default(), &patch).ok()
}

/// Reads the rest of the body, so that the connection can be reused.
async fn drain(mut body: Body) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn outcome(creates: bool, status: StatusCode, headers: &HeaderMap) -> WriteOutcome {
    match status.as_u16() {
        200..300 => WriteOutcome::Written,
        404 if !creates => WriteOutcome::Gone,
        409 if creates => WriteOutcome::Exists,
        // An expired token, a concurrent write of the same event, or too many requests.
        401 | 409 | 429 => WriteOutcome::Failed(retry_after_header(headers)),
        // Errors of servers and proxies. The event may be in etcd.
        408 | 500.. => WriteOutcome::Unknown(retry_after_header(headers)),
        _ => WriteOutcome::Refused,
    }
}

fn is_not_leading(error: &kube_client::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<NotLeading>() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;

    #[test]
    fn only_transient_statuses_are_retried() {
        let after = |creates, code| outcome(creates, StatusCode::from_u16(code).unwrap(), &HeaderMap::new());
        for creates in [true, false] {
            for code in [200, 201] {
                assert_eq!(after(creates, code), WriteOutcome::Written);
            }
            for code in [401, 429] {
                assert_eq!(after(creates, code), WriteOutcome::Failed(None), "{code}");
            }
            for code in [408, 500, 502, 503, 504] {
                assert_eq!(after(creates, code), WriteOutcome::Unknown(None), "{code}");
            }
            for code in [301, 400, 403, 405, 410, 413, 415, 422] {
                assert_eq!(after(creates, code), WriteOutcome::Refused, "{code}");
            }
        }
        assert_eq!((after(true, 409), after(false, 409)), (WriteOutcome::Exists, WriteOutcome::Failed(None)));
        assert_eq!((after(true, 404), after(false, 404)), (WriteOutcome::Refused, WriteOutcome::Gone));
    }

    #[test]
    fn retry_after_header_is_used() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
        let seven = Some(Duration::from_secs(7));
        assert_eq!(outcome(true, StatusCode::TOO_MANY_REQUESTS, &headers), WriteOutcome::Failed(seven));
        headers.insert(header::RETRY_AFTER, "Wed, 21 Oct 2026 07:28:00 GMT".parse().unwrap());
        assert_eq!(outcome(true, StatusCode::TOO_MANY_REQUESTS, &headers), WriteOutcome::Failed(None));
    }
}

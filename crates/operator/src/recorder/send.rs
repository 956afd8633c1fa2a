//! One write: the request, and what its answer means. Of an answer only the status and `Retry-After` are looked at, so that
//! nothing of an object can get from there into a log.

use std::{error::Error, fmt, time::Duration};

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::events::v1::Event;
use kube_client::{
    Client, Resource,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    core::Request as ApiRequest,
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    event::Source,
    series::{Outcome, Write},
};
use crate::{NotLeading, election::no_retry::NoRetry};

/// For one try. An admission webhook has 10 s, unless somebody says otherwise.
const TIME_OUT: Duration = Duration::from_secs(15);

/// What the server has made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(StatusCode),
    /// No connection, or it broke.
    None,
    TimedOut,
    /// The client writes only for a leader.
    NotLeading,
    /// There is no such request.
    Unsendable,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::None => f.write_str("no answer from the server"),
            Self::TimedOut => write!(f, "no answer within {TIME_OUT:?}"),
            Self::NotLeading => write!(f, "{NotLeading}"),
            Self::Unsendable => f.write_str("the request can't be made"),
        }
    }
}

/// Writes it, and says what has come of it.
pub(crate) async fn send(
    client: &Client,
    no_retry: &NoRetry,
    source: &Source,
    write: &Write,
) -> (Answer, Outcome) {
    let Some(request) = request(source, write) else { return (Answer::Unsendable, Outcome::Refused) };
    let sent = async { client.send(no_retry.wrap(request.map(Body::from)).await?).await };
    match timeout(TIME_OUT, sent).await {
        Ok(Ok(response)) => {
            let (parts, body) = response.into_parts();
            let _in_time = timeout(TIME_OUT, read_off(body)).await;
            (Answer::Status(parts.status), outcome(write.creates, parts.status, &parts.headers))
        }
        Ok(Err(error)) if is_not_leading(&error) => (Answer::NotLeading, Outcome::Refused),
        Ok(Err(_)) => (Answer::None, Outcome::Unknown(None)),
        Err(_) => (Answer::TimedOut, Outcome::Unknown(None)),
    }
}

fn request(source: &Source, write: &Write) -> Option<Request<Vec<u8>>> {
    let events = ApiRequest::new(Event::url_path(&(), Some(write.record.key.regarding.namespace())));
    let series = write.series();
    if write.creates {
        let event = serde_json::to_vec(&write.record.event(source, series)).ok()?;
        return events.create(&PostParams::default(), event).ok();
    }
    let patch = Patch::Merge(json!({ "series": series }));
    events.patch(&write.record.name, &PatchParams::default(), &patch).ok()
}

/// Only then can the connection be used again.
async fn read_off(mut body: Body) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn outcome(creates: bool, status: StatusCode, headers: &HeaderMap) -> Outcome {
    match status.as_u16() {
        200..300 => Outcome::Written,
        404 if !creates => Outcome::Gone,
        409 if creates => Outcome::Exists,
        // An expired token; another write of the same event; too many requests.
        401 | 409 | 429 => Outcome::Failed(retry_after(headers)),
        // What servers and proxies say of themselves. etcd may have it.
        408 | 500.. => Outcome::Unknown(retry_after(headers)),
        _ => Outcome::Refused,
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
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
    use super::*;

    #[test]
    fn only_transient_statuses_are_retried() {
        let after = |creates, code| outcome(creates, StatusCode::from_u16(code).unwrap(), &HeaderMap::new());
        for creates in [true, false] {
            for code in [200, 201] {
                assert_eq!(after(creates, code), Outcome::Written);
            }
            for code in [401, 429] {
                assert_eq!(after(creates, code), Outcome::Failed(None), "{code}");
            }
            for code in [408, 500, 502, 503, 504] {
                assert_eq!(after(creates, code), Outcome::Unknown(None), "{code}");
            }
            for code in [301, 400, 403, 405, 410, 413, 415, 422] {
                assert_eq!(after(creates, code), Outcome::Refused, "{code}");
            }
        }
        assert_eq!((after(true, 409), after(false, 409)), (Outcome::Exists, Outcome::Failed(None)));
        assert_eq!((after(true, 404), after(false, 404)), (Outcome::Refused, Outcome::Gone));
    }

    #[test]
    fn retry_after_header_is_used() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
        let seven = Some(Duration::from_secs(7));
        assert_eq!(outcome(true, StatusCode::TOO_MANY_REQUESTS, &headers), Outcome::Failed(seven));
        headers.insert(header::RETRY_AFTER, "Wed, 21 Oct 2026 07:28:00 GMT".parse().unwrap());
        assert_eq!(outcome(true, StatusCode::TOO_MANY_REQUESTS, &headers), Outcome::Failed(None));
    }
}

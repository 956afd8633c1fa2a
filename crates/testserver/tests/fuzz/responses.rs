//! Sends requests with limits on the time and size of a response, and checks the invariants of every
//! response.

use bytes::Bytes;
use http_body_util::BodyExt;
use kube_testserver::Server;
use serde_json::Value;
use tokio::time::{Duration, timeout};

use crate::requests::FuzzRequest;

/// The maximum duration of a response, in paused time. Only a watch with `timeoutSeconds` may be longer.
const MAX_DURATION: Duration = Duration::from_secs(7_200);
/// The maximum number of frames of a response.
const MAX_FRAMES: usize = 100_000;

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("invalid JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request. Returns an empty success for a request that no client can send.
pub(crate) async fn send(server: &Server, sent: &FuzzRequest) -> Response {
    let Some(request) = sent.build() else {
        return Response { code: 200, content_type: String::new(), body: Vec::new() };
    };
    let responding = timeout(MAX_DURATION, server.service().respond(request)).await;
    let response =
        responding.unwrap_or_else(|_| panic!("{sent:?} timed out")).expect("a server without faults");
    let (parts, mut body) = response.into_parts();
    let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut response =
        Response { code: parts.status.as_u16(), content_type: content_type.into(), body: Vec::new() };
    let reading = async {
        for _ in 0..MAX_FRAMES {
            let Some(frame) = body.frame().await else { return };
            let data = frame.expect("a server without faults").into_data().unwrap_or_default();
            response.body.extend_from_slice(&data);
        }
        panic!("the response to {sent:?} has too many frames");
    };
    let complete = timeout(MAX_DURATION, reading).await.is_ok();
    assert!(complete || sent.has_watch_timeout(), "the response to {sent:?} is incomplete");
    response
}

/// Sends a GET request.
pub(crate) async fn get(server: &Server, target: &str) -> Response {
    send(server, &FuzzRequest::new("GET", target, "application/json", Bytes::new())).await
}

/// Asserts that an error response is a Status with the HTTP code, or one of the expected texts.
pub(crate) fn check(response: &Response, sent: &FuzzRequest) {
    if response.code < 400 || sent.method == "HEAD" {
        return;
    }
    if response.content_type.starts_with("text/plain") {
        let texts: [(u16, &[u8]); 2] = [(404, b"404 page not found\n"), (400, b"400 Bad Request")];
        let expected = texts.contains(&(response.code, response.body.as_slice()));
        assert!(expected, "{sent:?}: {} {}", response.code, response.text());
        return;
    }
    let status = if response.content_type == "application/yaml" {
        serde_saphyr::from_slice(&response.body).ok()
    } else {
        serde_json::from_slice::<Value>(&response.body).ok()
    };
    let status = status.unwrap_or_else(|| panic!("{sent:?}: {} {}", response.code, response.text()));
    assert_eq!(status["kind"], "Status", "{sent:?}: {status}");
    assert_eq!(status["status"], "Failure", "{sent:?}: {status}");
    assert_eq!(status["code"], response.code, "{sent:?}: {status}");
    assert!(status["message"].as_str().is_some_and(|message| !message.is_empty()), "{sent:?}: {status}");
    // The real server returns 500 only for invalid versions and invalid namespaces.
    let messages = ["resourceVersion", "invalid key: ", "invalid resource name "];
    let expected =
        status["message"].as_str().is_some_and(|message| messages.iter().any(|text| message.contains(text)));
    assert!(response.code != 500 || expected, "{sent:?}: {status}");
}

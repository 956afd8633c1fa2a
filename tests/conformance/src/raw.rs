//! A small HTTP driver: requests through `Client::send`, responses as status, headers and text, and a
//! watch as lines. It contains no logic, so a check sees the response of the server.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, BytesMut};
use http::{HeaderMap, Method, Request, header, request::Builder};
use http_body_util::BodyExt as _;
use kube_client::{Client, client::Body};
use serde_json::Value;

pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(super) const JSON: &str = "application/json";

/// Requests as one user.
#[derive(Clone)]
pub(super) struct Api(Client);

impl Api {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Reply> {
        self.get_as(path, JSON).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Reply> {
        self.request(Request::get(path).header(header::ACCEPT, accept), None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::POST, path, JSON, body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PUT, path, JSON, body).await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PATCH, path, MERGE_PATCH, body).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Reply> {
        self.request(Request::delete(path), None).await
    }

    pub(super) async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Reply> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        self.request(request, Some(body)).await
    }

    /// Opens a watch, which must be accepted.
    pub(super) async fn watch(&self, path: &str) -> Result<Watch> {
        self.watch_as(path, JSON).await
    }

    pub(super) async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch> {
        // This driver does not decompress the members of a compressed watch.
        let request =
            Request::get(path).header(header::ACCEPT, accept).header(header::ACCEPT_ENCODING, "identity");
        let request = request.body(Body::empty())?;
        let what = format!("WATCH {path}");
        let response = self.0.send(request).await.with_context(|| what.clone())?;
        if response.status() != 200 {
            let reply = Reply::read(what, response).await?;
            bail!("expected an open watch, got {reply}");
        }
        Ok(Watch { what, body: response.into_body(), unread: BytesMut::new(), ended: false })
    }

    /// Any request.
    pub(super) async fn request(&self, request: Builder, body: Option<&Value>) -> Result<Reply> {
        self.request_bytes(request, body.map(serde_json::to_vec).transpose()?.unwrap_or_default()).await
    }

    pub(super) async fn request_bytes(&self, request: Builder, body: Vec<u8>) -> Result<Reply> {
        let request = request.body(Body::from(body))?;
        let what = format!("{} {}", request.method(), request.uri());
        let response = self.0.send(request).await.with_context(|| what.clone())?;
        Reply::read(what, response).await
    }
}

/// A complete response with its request.
#[derive(Debug)]
pub(super) struct Reply {
    what: String,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Reply {
    async fn read(what: String, response: http::Response<Body>) -> Result<Self> {
        let (parts, body) = response.into_parts();
        let bytes = body.collect_bytes().await.with_context(|| what.clone())?;
        // Documents in protobuf are not text.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { what, status: parts.status.as_u16(), headers: parts.headers, text })
    }

    /// Returns the body of a response with this status.
    pub(super) fn expect(&self, status: u16) -> Result<Value> {
        ensure!(self.status == status, "expected {status}, got {self}");
        serde_json::from_str(&self.text).with_context(|| format!("not JSON: {self}"))
    }

    /// The body of a 200.
    pub(super) fn ok(&self) -> Result<Value> {
        self.expect(200)
    }

    /// Returns the `Status` of an error. An empty reason means that the Status has no reason.
    pub(super) fn refused(&self, code: u16, reason: &str) -> Result<Value> {
        let status = self.expect(code)?;
        is_failure(&status, code, reason).with_context(|| self.to_string())?;
        Ok(status)
    }

    pub(super) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}: {}", self.status, self.what, self.text.trim_end())
    }
}

/// Returns whether the message of `status` starts with this text. The servers describe the details of rare
/// errors in different words.
pub(super) fn starts_with(status: &Value, start: &str) -> bool {
    status["message"].as_str().is_some_and(|message| message.starts_with(start))
}

/// Whether `status` is a `Status` of failure with this code and reason.
pub(super) fn is_failure(status: &Value, code: u16, reason: &str) -> Result<()> {
    ensure!(status["kind"] == "Status" && status["apiVersion"] == "v1", "not a Status");
    ensure!(status["status"] == "Failure", "not a failure");
    ensure!(status["code"] == code, "code is not {code}");
    ensure!(status["reason"].as_str().unwrap_or("") == reason, "reason is not {reason:?}");
    Ok(())
}

/// An open watch. Dropping it closes the stream.
pub(super) struct Watch {
    what: String,
    body: Body,
    unread: BytesMut,
    ended: bool,
}

impl Watch {
    /// Returns the next line, or `None` if the server closed the stream between two lines.
    pub(super) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line = self.unread.split_to(end);
                self.unread.advance(1);
                return Event::parse(&line).with_context(|| self.what.clone()).map(Some);
            }
            if self.ended {
                ensure!(self.unread.is_empty(), "{} closed within a line: {:?}", self.what, self.unread);
                return Ok(None);
            }
            match self.body.frame().await {
                Some(frame) => {
                    let frame = frame.with_context(|| self.what.clone())?;
                    frame.data_ref().into_iter().for_each(|data| self.unread.extend_from_slice(data));
                }
                None => self.ended = true,
            }
        }
    }

    /// Returns the next line. Fails if there is none.
    pub(super) async fn event(&mut self) -> Result<Event> {
        self.next().await?.with_context(|| format!("{} ended", self.what))
    }

    /// Returns the next line that is not a bookmark. Fails if the event has a different type or object.
    /// A watch with bookmarks can get one between any two changes. Only the bookmark after the initial
    /// state has a fixed position.
    pub(super) async fn expect(&mut self, kind: &str, name: &str) -> Result<Value> {
        let mut event = self.event().await?;
        while event.kind == "BOOKMARK" && !event.is_initial_end() {
            event = self.event().await?;
        }
        let is_it = event.kind == kind && event.object["metadata"]["name"] == name;
        ensure!(is_it, "expected {kind} of {name}, got {event} from {}", self.what);
        Ok(event.object)
    }

    /// Returns the next line. Fails if it is not the bookmark after an initial state.
    pub(super) async fn expect_initial_end(&mut self) -> Result<Value> {
        let event = self.event().await?;
        ensure!(
            event.is_initial_end(),
            "expected the end of the initial events, got {event} from {}",
            self.what
        );
        Ok(event.object)
    }

    /// Fails if the stream contains further lines.
    pub(super) async fn expect_end(&mut self) -> Result<()> {
        match self.next().await? {
            None => Ok(()),
            Some(event) => bail!("expected {} to end, got {event}", self.what),
        }
    }

    /// All lines until the server ends the stream.
    pub(super) async fn rest(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }
}

/// A line of a watch.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) object: Value,
}

impl Event {
    fn parse(line: &[u8]) -> Result<Self> {
        let shown = || format!("a line of a watch: {}", String::from_utf8_lossy(line));
        let mut line: Value = serde_json::from_slice(line).with_context(shown)?;
        let kind = line["type"].as_str().with_context(|| format!("no type in {line}"))?.to_owned();
        Ok(Self { kind, object: line["object"].take() })
    }

    pub(super) fn is_initial_end(&self) -> bool {
        self.kind == "BOOKMARK"
            && self.object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    }

    /// Type and name, the way expectations are written.
    pub(super) fn brief(&self) -> (&str, &str) {
        (&self.kind, self.object["metadata"]["name"].as_str().unwrap_or(""))
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

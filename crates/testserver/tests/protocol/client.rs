//! A client that sends raw requests and reads raw responses.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{Body, Clock, Server};
use serde_json::{Value, json};

/// A complete response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("a JSON body")
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let json = self.json();
        let items = json["items"].as_array().expect("a list");
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the events of a watch as type, name and version.
    pub(crate) fn events(&self) -> Vec<(String, String, String)> {
        self.text.lines().map(parse_event).collect()
    }
}

pub(crate) fn parse_event(line: &str) -> (String, String, String) {
    let frame: Value = serde_json::from_str(line).expect("a frame");
    let text = |pointer: &str| frame.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    (text("/type"), text("/object/metadata/name"), text("/object/metadata/resourceVersion"))
}

/// Creates a server with a fixed clock.
pub(crate) fn server() -> Server {
    let now = "2026-11-21T02:25:40Z".parse().expect("a timestamp");
    Server::builder().clock(Clock::Fixed(now)).require_token(false).build()
}

/// Creates ConfigMaps in namespace `r`, and the namespace if needed. Returns the last version.
pub(crate) fn configmaps(server: &Server, names: &[&str]) -> u64 {
    let _ = server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "r"}}));
    for name in names {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "r"}});
        server.create(&object).expect("a new ConfigMap");
    }
    server.resource_version()
}

pub(crate) const CONFIGMAPS: &str = "/api/v1/namespaces/r/configmaps";

pub(crate) async fn open(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> http::Response<Body> {
    let mut request = Request::builder().method(method).uri(path.replace(' ', "%20"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request");
    server.service().respond(request).await.expect("a response")
}

pub(crate) async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let response = open(server, method, path, headers, body).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a complete body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    Response { code: parts.status.as_u16(), headers: parts.headers, text }
}

pub(crate) async fn get(server: &Server, path: &str) -> Response {
    send(server, "GET", path, &[], "").await
}

pub(crate) async fn post(server: &Server, path: &str, body: Value) -> Response {
    send(server, "POST", path, &[("content-type", "application/json")], &body.to_string()).await
}

pub(crate) async fn put(server: &Server, path: &str, body: Value) -> Response {
    send(server, "PUT", path, &[("content-type", "application/json")], &body.to_string()).await
}

pub(crate) async fn merge(server: &Server, path: &str, body: Value) -> Response {
    send(server, "PATCH", path, &[("content-type", "application/merge-patch+json")], &body.to_string()).await
}

pub(crate) async fn delete(server: &Server, path: &str, body: &str) -> Response {
    send(server, "DELETE", path, &[("content-type", "application/json")], body).await
}

/// Reads the lines of an open watch one by one.
pub(crate) struct Lines {
    body: Body,
    left: String,
}

impl From<Body> for Lines {
    fn from(body: Body) -> Self {
        Self { body, left: String::new() }
    }
}

impl Lines {
    pub(crate) async fn open(server: &Server, path: &str) -> Self {
        Self::open_as(server, path, &[]).await
    }

    pub(crate) async fn open_as(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let response = open(server, "GET", path, headers, "").await;
        assert_eq!(response.status(), 200);
        Self::from(response.into_body())
    }

    /// Returns the next line. Returns `None` after a clean end, and an error if the connection broke.
    pub(crate) async fn line(&mut self) -> Option<Result<String, kube_testserver::BodyError>> {
        loop {
            if let Some((line, rest)) = self.left.split_once('\n') {
                let line = line.to_owned();
                self.left = rest.to_owned();
                return Some(Ok(line));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    let data = frame.into_data().expect("data");
                    self.left.push_str(std::str::from_utf8(&data).expect("UTF-8"));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Returns the next event as type, name and version. Panics if the watch is closed.
    pub(crate) async fn event(&mut self) -> (String, String, String) {
        parse_event(&self.line().await.expect("an open watch").expect("an open connection"))
    }
}

/// Creates an expected event.
pub(crate) fn event(kind: &str, name: &str, version: u64) -> (String, String, String) {
    (kind.into(), name.into(), version.to_string())
}

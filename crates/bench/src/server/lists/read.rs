//! Reads lists without decoding them, and writes ConfigMaps.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use memchr::memmem;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Case, Transport};

/// The annotation of the bookmark at the end of a streaming list.
const END: &[u8] = b"k8s.io/initial-events-end";
/// The continue token of a page is in its first bytes.
const HEAD_BYTES: usize = 4096;
/// The timeout for the next bytes of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of concurrent writes.
const WRITE_CONCURRENCY: usize = 16;

/// A list that is read once.
pub(super) struct Reading<'a> {
    pub(super) client: &'a Client,
    pub(super) path: &'a str,
    pub(super) case: Case,
}

impl Reading<'_> {
    /// Reads the list. Returns the number of bytes in the body.
    pub(super) async fn run(self) -> Result<usize> {
        match self.case.transport {
            Transport::Any => Ok(self.page("resourceVersion=0").await?.0),
            Transport::Latest => Ok(self.page("").await?.0),
            Transport::Pages => self.pages().await,
            Transport::Streaming => self.streaming().await,
        }
    }

    async fn pages(&self) -> Result<usize> {
        let (mut bytes, mut query) = (0, "limit=500".to_owned());
        loop {
            let (length, next) = self.page(&query).await?;
            bytes += length;
            let Some(token) = next else { return Ok(bytes) };
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            query = format!("limit=500&continue={token}");
        }
    }

    /// Reads one response. Returns its length and the continue token.
    async fn page(&self, query: &str) -> Result<(usize, Option<String>)> {
        let mut body = self.get(query).await?;
        let (mut head, mut length) = (Vec::new(), 0);
        while let Some(chunk) = chunk(&mut body).await? {
            length += chunk.len();
            head.extend_from_slice(&chunk[..chunk.len().min(HEAD_BYTES.saturating_sub(head.len()))]);
        }
        let head = if self.case.gzip { gunzipped(&head) } else { head };
        Ok((length, token(&head)))
    }

    async fn streaming(&self) -> Result<usize> {
        let query =
            "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut body = self.get(query).await?;
        let (mut length, mut tail) = (0, Vec::new());
        loop {
            let chunk = chunk(&mut body).await?.context("the streaming list has no end")?;
            length += chunk.len();
            tail.extend_from_slice(&chunk);
            if memmem::find(&tail, END).is_some() {
                return Ok(length);
            }
            tail.drain(..tail.len().saturating_sub(END.len()));
        }
    }

    async fn get(&self, query: &str) -> Result<Body> {
        let accept = self.case.wire.accept(self.case.transport == Transport::Streaming);
        let encoding = if self.case.gzip { "gzip" } else { "identity" };
        let request = Request::get(format!("{}?{query}", self.path))
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, encoding);
        let response = self.client.send(request.body(Body::empty())?).await?;
        ensure!(response.status().is_success(), "{}: {}", self.path, response.status());
        Ok(response.into_body())
    }
}

async fn chunk(body: &mut Body) -> Result<Option<Bytes>> {
    let frame = timeout(READ_TIMEOUT, body.frame()).await.context("the response stopped")?;
    Ok(frame.transpose()?.map(|frame| frame.into_data().unwrap_or_default()))
}

/// Returns the continue token in the first bytes of a page, in JSON or protobuf.
fn token(head: &[u8]) -> Option<String> {
    const FIELD: &[u8] = b"\"continue\":\"";
    // Tokens are in base64, and this is the beginning of the JSON in the token.
    const ENCODED: &[u8] = b"eyJ2Ijoi";
    let begin =
        memmem::find(head, FIELD).map(|at| at + FIELD.len()).or_else(|| memmem::find(head, ENCODED))?;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=".contains(byte);
    let token: Vec<u8> = head[begin..].iter().copied().take_while(is_base64).collect();
    String::from_utf8(token).ok().filter(|token| !token.is_empty())
}

/// Decompresses the available bytes.
fn gunzipped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder = flate2::Decompress::new_gzip(15);
    text.reserve(64 << 10);
    // Small pages are not compressed, so the data may be no gzip.
    match decoder.decompress_vec(bytes, &mut text, flate2::FlushDecompress::None) {
        Ok(_) => text,
        Err(_) => bytes.to_vec(),
    }
}

/// Returns the number of bytes that the server has allocated since its start.
pub(super) async fn allocated(client: &Client) -> Result<f64> {
    let metrics = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("go_memstats_alloc_bytes_total "));
    Ok(line.context("the server has no metric go_memstats_alloc_bytes_total")?.trim().parse()?)
}

/// Creates ConfigMaps with about this number of bytes.
pub(super) async fn create_config_maps(
    client: &Client,
    namespace: &str,
    count: usize,
    bytes: usize,
) -> Result<()> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let create = |number: usize| {
        let mut rng = fastrand::Rng::with_seed(number as u64);
        let text: String = (0..bytes).map(|_| rng.digit(36)).collect();
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": format!("map-{number:06}")},
            "data": {"text": text},
        });
        let path = &path;
        async move { post(client, path, &body).await }
    };
    stream::iter((0..count).map(create)).buffer_unordered(WRITE_CONCURRENCY).try_collect().await
}

/// Creates an object.
pub(super) async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(serde_json::to_vec(body)?))?;
    let response: Response<Body> = client.send(request).await?;
    let status = response.status();
    response.into_body().collect().await?;
    ensure!(status.is_success(), "{path}: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_in_json_and_protobuf() {
        assert_eq!(token(br#"{"metadata":{"continue":"eyJ2Ijoi-_="},"#).as_deref(), Some("eyJ2Ijoi-_="));
        assert_eq!(token(b"k8s\0\x12\x07eyJ2IjoiQQ\x12").as_deref(), Some("eyJ2IjoiQQ"));
        assert_eq!(token(br#"{"metadata":{"resourceVersion":"5"}}"#), None);
    }
}

//! Reads the responses of lists and watches into a [`ChangeLog`], while the informers read them.

mod log;

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube_client::{Client, client::Body};
use serde_json::Value;
use tower::BoxError;

pub(crate) use log::{ChangeLog, ObjectChanges};

/// The maximum size of a watch event, or of a list, in bytes. Larger ones are not read.
const MAX_BYTES: usize = 16 << 20;

impl ChangeLog {
    /// Returns a client for informers. If changes are logged, also returns their log.
    pub(crate) fn attach(client: &Client, is_enabled: bool) -> (Client, Option<Self>) {
        if !is_enabled {
            return (client.clone(), None);
        }
        let log = Self::default();
        (log.follow(client.clone()), Some(log))
    }

    /// Returns a client whose lists and watches are logged.
    fn follow(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let log = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (client, log) = (client.clone(), log.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let is_watch = query.split('&').any(|part| part.starts_with("watch="));
                let is_read = *request.method() == http::Method::GET;
                let response: Response<Body> = client.send(request).await.map_err(BoxError::from)?;
                let log = log.clone();
                let reader = (is_read && response.status().is_success()).then(|| Reader::new(log, is_watch));
                Ok::<_, BoxError>(response.map(|body| Followed { body, reader }))
            }
        });
        Client::new(send, namespace)
    }
}

/// Reads the response to a list or a watch.
struct Reader {
    log: ChangeLog,
    is_watch: bool,
    /// The incomplete line of a watch, or the list.
    bytes: Vec<u8>,
    /// The current line, or the list, is too large.
    is_too_large: bool,
}

impl Reader {
    fn new(log: ChangeLog, is_watch: bool) -> Self {
        Self { log, is_watch, bytes: Vec::new(), is_too_large: false }
    }

    fn read(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n').filter(|_| self.is_watch) {
            self.push(&chunk[..end]);
            self.finish();
            chunk = &chunk[end + 1..];
        }
        self.push(chunk);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.is_too_large |= self.bytes.len() + bytes.len() > MAX_BYTES;
        if self.is_too_large {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Logs the objects of a complete line or list.
    fn finish(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if std::mem::take(&mut self.is_too_large) || bytes.is_empty() {
            return;
        }
        // The informer reports data that is not JSON.
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return };
        if self.is_watch {
            let object = &value["object"];
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            match value["type"].as_str() {
                Some("ADDED" | "MODIFIED") => self.log.add(api_version, kind, object),
                Some("DELETED") => self.log.remove(api_version, kind, object),
                _ => {}
            }
        } else if let (Some(kind), Some(items)) = (value["kind"].as_str(), value["items"].as_array()) {
            let kind = kind.strip_suffix("List").unwrap_or(kind);
            let api_version = value["apiVersion"].as_str().unwrap_or_default();
            for item in items {
                self.log.add(api_version, kind, item);
            }
        }
    }
}

/// A body that is logged while it is read.
struct Followed {
    body: Body,
    reader: Option<Reader>,
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = kube_client::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match (&polled, &mut self.reader) {
            (Poll::Ready(Some(Ok(frame))), Some(reader)) => {
                frame.data_ref().into_iter().for_each(|data| reader.read(data));
            }
            (Poll::Ready(None), Some(reader)) => reader.finish(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        // The end of a list must be polled, so that it is logged.
        self.reader.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! Reads lists and watches as bytes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::BytesMut;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use tokio::time::timeout;

use crate::wire::Wire;

const PATH: &str = "/api/v1/pods";
/// The timeout for an event of a watch.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a complete list, at `version` or of the current state.
pub(super) async fn list(client: &Client, wire: Wire, version: Option<u64>) -> Result<Vec<u8>> {
    let path = version.map_or_else(|| PATH.to_owned(), |version| format!("{PATH}?{}", at(version)));
    whole(get(client, &path, wire.accept(false)).await?).await
}

/// Reads the first page of a list at `version`, in JSON.
pub(super) async fn page(client: &Client, limit: usize, version: u64) -> Result<Vec<u8>> {
    let path = format!("{PATH}?limit={limit}&{}", at(version));
    whole(get(client, &path, Wire::Json.accept(false)).await?).await
}

fn at(version: u64) -> String {
    format!("resourceVersion={version}&resourceVersionMatch=Exact")
}

/// Reads a complete body.
pub(super) async fn whole(response: Response<Body>) -> Result<Vec<u8>> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

async fn get(client: &Client, path: &str, accept: &str) -> Result<Response<Body>> {
    let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty())?;
    let response = client.send(request).await.with_context(|| format!("cannot read {path}"))?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    Ok(response)
}

/// An open watch.
pub(super) struct Watch {
    wire: Wire,
    body: Body,
    /// The bytes of an incomplete event.
    rest: BytesMut,
}

impl Watch {
    /// Opens a watch of all Pods with these parameters.
    pub(super) async fn open(client: &Client, wire: Wire, parameters: &str) -> Result<Self> {
        let path = format!("{PATH}?watch=true&{parameters}");
        let body = get(client, &path, wire.accept(true)).await?.into_body();
        Ok(Self { wire, body, rest: BytesMut::new() })
    }

    /// Reads this number of events of any type.
    pub(super) async fn frames(&mut self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        let mut frames = Vec::with_capacity(wanted);
        while frames.len() < wanted {
            match self.wire.frame_length(&self.rest) {
                Some(length) => frames.push(self.rest.split_to(length).to_vec()),
                None => {
                    let more =
                        timeout(EVENT_TIMEOUT, self.body.frame()).await.context("the watch sent no event")?;
                    let more =
                        more.with_context(|| format!("the watch closed after {} events", frames.len()))?;
                    self.rest.extend_from_slice(&more?.into_data().unwrap_or_default());
                }
            }
        }
        Ok(frames)
    }
}

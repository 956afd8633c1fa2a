//! Lists and watches, as bytes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::BytesMut;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use tokio::time::timeout;

use crate::wire::Wire;

/// What is asked for.
const PATH: &str = "/api/v1/pods";
/// A watch that says nothing for so long has lost something.
const SILENCE: Duration = Duration::from_secs(60);

/// All Pods in one answer, at this version or as they are now.
pub(super) async fn list(client: &Client, wire: Wire, version: Option<u64>) -> Result<Vec<u8>> {
    let path = version.map_or_else(|| PATH.to_owned(), |version| format!("{PATH}?{}", at(version)));
    whole(get(client, &path, wire.accept(false)).await?).await
}

/// The first page of so many Pods at this version, in JSON.
pub(super) async fn page(client: &Client, limit: usize, version: u64) -> Result<Vec<u8>> {
    let path = format!("{PATH}?limit={limit}&{}", at(version));
    whole(get(client, &path, Wire::Json.accept(false)).await?).await
}

fn at(version: u64) -> String {
    format!("resourceVersion={version}&resourceVersionMatch=Exact")
}

/// All of a body.
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
    let response = client.send(request).await.with_context(|| format!("reading {path}"))?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    Ok(response)
}

/// An open watch.
pub(super) struct Watch {
    wire: Wire,
    body: Body,
    /// What was read of events that have not come in full.
    rest: BytesMut,
}

impl Watch {
    /// A watch of all Pods, with these parameters.
    pub(super) async fn open(client: &Client, wire: Wire, parameters: &str) -> Result<Self> {
        let path = format!("{PATH}?watch=true&{parameters}");
        let body = get(client, &path, wire.accept(true)).await?.into_body();
        Ok(Self { wire, body, rest: BytesMut::new() })
    }

    /// So many events, whatever they are.
    pub(super) async fn frames(&mut self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        let mut frames = Vec::with_capacity(wanted);
        while frames.len() < wanted {
            match self.wire.frame_length(&self.rest) {
                Some(length) => frames.push(self.rest.split_to(length).to_vec()),
                None => {
                    let more = timeout(SILENCE, self.body.frame()).await.context("a watch says nothing")?;
                    let more =
                        more.with_context(|| format!("a watch has ended after {} events", frames.len()))?;
                    self.rest.extend_from_slice(&more?.into_data().unwrap_or_default());
                }
            }
        }
        Ok(frames)
    }
}

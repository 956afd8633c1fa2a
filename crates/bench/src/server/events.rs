//! The cost of the events of a watch for the server.
//!
//! A write costs the server much more than sending its event. The events are therefore measured after the
//! writes: watches start at a resourceVersion before all changes, and the server sends the changes from its
//! watch cache.

use anyhow::{Context as _, Result, ensure};
use bytes::BytesMut;
use futures_util::future::try_join_all;
use http::{Request, header};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_client::api::ListParams;
use kube_client::client::Body;

use super::cluster::{Cluster, ServerCpu};
use super::numbers::Rows;
use crate::wire::Wire;

/// The number of watches at the same time. The CPU time of one watch is too short.
const WATCHES: usize = 5;
/// The time after which the server closes a watch.
const WATCH_SECONDS: u32 = 10;

/// The kinds of watches: the name of the row, the encoding, and further parameters.
const CASES: [(&str, Wire, &str); 4] = [
    ("JSON", Wire::Json, ""),
    ("JSON, Pods of one node", Wire::Json, "&fieldSelector=spec.nodeName%3Dnode-001"),
    ("metadata", Wire::Metadata, ""),
    ("protobuf", Wire::Protobuf, ""),
];

pub(super) const COLUMNS: &[(&str, usize)] = &[
    ("server CPU, ms per 1,000 changes", 1),
    ("received, MB per 1,000 changes", 2),
    ("events per 1,000 changes", 0),
];

/// Changes that a watch can read.
pub(super) struct History {
    /// The resourceVersion before the changes.
    version: String,
    events: usize,
}

impl History {
    /// Changes Pods.
    pub(super) async fn record(cluster: &Cluster, events: usize) -> Result<Self> {
        let pods: Api<Pod> = Api::all(cluster.client().clone());
        let version = pods.list_metadata(&ListParams::default().limit(1)).await?.metadata.resource_version;
        let version = version.context("the list has no resourceVersion")?;
        cluster.change(events).await?;
        Ok(Self { version, events })
    }

    /// Measures each kind of watch.
    pub(super) async fn measure(&self, cluster: &Cluster, idle: ServerCpu, rows: &mut Rows) -> Result<()> {
        for (name, wire, parameters) in CASES {
            let meter = cluster.begin().await?;
            let watches = (0..WATCHES).map(|_| self.watch(cluster, wire, parameters));
            let read = try_join_all(watches).await.with_context(|| name.to_owned())?;
            let cpu = cluster.end(meter)?.without(idle);
            let (events, bytes) = read.iter().fold((0, 0), |(a, b), (events, bytes)| (a + events, b + bytes));
            ensure!(!parameters.is_empty() || events == WATCHES * self.events, "{name}: {events} events");
            let thousands = (WATCHES * self.events) as f64 / 1e3;
            rows.add(
                name,
                &[cpu.apiserver * 1e3 / thousands, bytes as f64 / 1e6 / thousands, events as f64 / thousands],
            );
        }
        Ok(())
    }

    /// Reads a watch until the server closes it. Returns the numbers of events and bytes.
    async fn watch(&self, cluster: &Cluster, wire: Wire, parameters: &str) -> Result<(usize, usize)> {
        let path = format!(
            "/api/v1/pods?watch=true&resourceVersion={}&timeoutSeconds={WATCH_SECONDS}{parameters}",
            self.version
        );
        let request = Request::get(path).header(header::ACCEPT, wire.accept(true)).body(Body::empty())?;
        let response = cluster.client().send(request).await?;
        ensure!(response.status().is_success(), "the watch failed: {}", response.status());
        let mut body = response.into_body();
        let (mut events, mut bytes, mut rest) = (0, 0, BytesMut::new());
        while let Some(frame) = body.frame().await {
            let data = frame?.into_data().unwrap_or_default();
            bytes += data.len();
            rest.extend_from_slice(&data);
            while let Some(length) = wire.frame_length(&rest) {
                let _ = rest.split_to(length);
                events += 1;
            }
        }
        Ok((events, bytes))
    }
}

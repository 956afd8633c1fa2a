//! Records the responses of a server with many Pods: writes the Pods like the components of
//! Kubernetes, lists them, and changes each of them during a watch.
//!
//! A recording contains only the objects of a response. A replay generates the bytes around them.
//! The recorder compares each response with its replay, so a replay differs from the response only
//! in resourceVersions.

mod check;
mod read;
mod server;
mod write;

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use kube_client::Client;

use crate::pods::Pod;
use crate::recording::{Manifest, Written, save};
use crate::wire::{Change, Kind, Object, Wire, raise};

pub use server::RealServer;
pub(crate) use write::create;

/// A list and the later events of a watch.
struct Recorded {
    wire: Wire,
    version: u64,
    written: Written,
}

/// Creates `count` Pods on a server without Pods, and records them into `folder`. Records JSON and, if
/// `protobuf` is true, protobuf. `server` is the description of the server in the manifest.
///
/// # Errors
///
/// Fails if a request fails, or if a replay would differ from a response.
///
/// # Cancel safety
///
/// If the future is dropped, no complete recording exists.
pub async fn record(
    client: &Client,
    count: usize,
    protobuf: bool,
    server: &str,
    folder: &Path,
) -> Result<()> {
    let pods: Vec<Pod> = (0..count).map(Pod::new).collect();
    write::create(client, &pods).await.context("cannot create Pods")?;
    let mut recorded = vec![listed(client, Wire::Json, None).await?];
    let version = recorded[0].version;
    if protobuf {
        recorded.push(listed(client, Wire::Protobuf, Some(version)).await?);
    }
    ensure!(
        recorded[0].written.listed.len() == count,
        "the list contains other Pods; the server must be empty"
    );
    check_composed_responses(client, &recorded).await?;
    change(client, &pods, &mut recorded).await.context("cannot change Pods")?;
    let manifest = Manifest {
        version: raise(version),
        objects: count,
        server: server.to_owned(),
        protobuf,
        kind: Kind::Pod,
    };
    let written: Vec<_> = recorded.into_iter().map(|recorded| (recorded.wire, recorded.written)).collect();
    save(folder, &manifest, &written)
}

async fn listed(client: &Client, wire: Wire, version: Option<u64>) -> Result<Recorded> {
    let body = Bytes::from(read::list(client, wire, version).await?);
    let list = wire.cut_list(&body)?;
    let objects = list.items.iter().map(|item| Object::new(wire, body.slice_ref(item)));
    let listed: Vec<Object> = objects.collect::<Result<_>>()?;
    check::whole_list(wire, &body, list.version, &listed)?;
    Ok(Recorded { wire, version: list.version, written: Written { listed, changed: Vec::new() } })
}

/// Checks the responses that a replay composes from recorded objects.
async fn check_composed_responses(client: &Client, recorded: &[Recorded]) -> Result<()> {
    for Recorded { wire, version, written } in recorded {
        check::streaming_list(client, *wire, *version, &written.listed).await?;
        if *wire == Wire::Json {
            let metadata = written.metadata_only()?.listed;
            check::metadata_list(client, *version, &metadata).await?;
            check::streaming_list(client, Wire::Metadata, *version, &metadata).await?;
            check::first_page(client, *version, &written.listed).await?;
        }
    }
    Ok(())
}

/// Changes each Pod once, and records the events of the watches.
async fn change(client: &Client, pods: &[Pod], recorded: &mut [Recorded]) -> Result<()> {
    let mut watches = Vec::new();
    for Recorded { wire, version, .. } in &*recorded {
        watches.push(read::Watch::open(client, *wire, &format!("resourceVersion={version}")).await?);
    }
    let reading = watches.iter_mut().map(|watch| watch.frames(pods.len()));
    let reading = futures_util::future::try_join_all(reading);
    let (_, frames) = tokio::try_join!(write::change(client, pods), reading)?;
    for (recorded, frames) in recorded.iter_mut().zip(frames) {
        recorded.written.changed = in_order_of_list(recorded, frames)?;
    }
    Ok(())
}

/// Returns the objects of these events in the order of the list.
fn in_order_of_list(recorded: &Recorded, frames: Vec<Vec<u8>>) -> Result<Vec<Object>> {
    let wire = recorded.wire;
    let mut changed = HashMap::new();
    for frame in frames {
        let object = Object::new(wire, wire.cut_event(Kind::Pod, &frame, Change::Modified)?.into())?;
        check::event(wire, &frame, &object, Change::Modified)?;
        changed.insert(object.name(wire)?, object);
    }
    let mut take = |object: &Object| changed.remove(&object.name(wire)?).context("a Pod has no event");
    recorded.written.listed.iter().map(&mut take).collect()
}

//! The states of the table of the group, from a watch. The audit log does not contain the result of a write
//! whose client closed the connection.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube_client::api::{ListParams, WatchParams};
use kube_client::core::WatchEvent;
use kube_client::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::task::JoinHandle;

use super::GROUP;
use super::history::Table;

const TABLE: &str = "kube-informer.dev/shard-table";

/// Receives each state of the table.
pub(super) struct TableWatch {
    received: Arc<Mutex<Vec<Table>>>,
    running: JoinHandle<Result<()>>,
}

#[derive(Deserialize)]
struct TableText {
    slots: Vec<EntryText>,
}

#[derive(Deserialize)]
struct EntryText {
    owner: Option<String>,
}

impl TableWatch {
    /// Starts the watch. The table must not exist yet.
    pub(super) fn start(client: Client) -> Self {
        let received = Arc::default();
        let running = tokio::spawn(watch(Api::namespaced(client, GROUP.0), Arc::clone(&received)));
        Self { received, running }
    }

    /// Returns the states since the last call. Fails if the watch has failed.
    pub(super) async fn take(&mut self) -> Result<Vec<Table>> {
        if self.running.is_finished() {
            (&mut self.running).await??;
        }
        Ok(std::mem::take(&mut *self.received.lock()))
    }
}

impl Drop for TableWatch {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn watch(leases: Api<Lease>, received: Arc<Mutex<Vec<Table>>>) -> Result<()> {
    let field = format!("metadata.name={}", GROUP.1);
    let list = leases.list(&ListParams::default().fields(&field)).await?;
    let mut version = list.metadata.resource_version.context("a list without a version")?;
    let params = WatchParams::default().fields(&field);
    loop {
        let events = leases.watch(&params, &version).await?;
        tokio::pin!(events);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    version = lease.resource_version().context("a Lease without a version")?;
                    received.lock().push(parse(&lease, version.parse()?)?);
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Deleted(_) => bail!("the table was deleted"),
                WatchEvent::Error(status) => bail!("the watch of the table failed: {}", status.message),
            }
        }
    }
}

fn parse(lease: &Lease, version: u64) -> Result<Table> {
    let text = lease.annotations().get(TABLE).context("a table without an annotation")?;
    let TableText { slots } = serde_json::from_str(text)?;
    let owners = slots.into_iter().map(|slot| slot.owner).collect();
    Ok(Table { version, at: Timestamp::now(), owners })
}

//! The cluster as a program: a command a line on one side, an answer a line on the other, both in JSON.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kube_client::Client;
use kube_testserver::Server;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::check::State;
use super::cluster::Cluster;
use super::server::{Counter, Requests, kubeconfig, serve};
use crate::client::Latency;
use crate::record::RealServer;

/// What the cluster is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Command {
    /// Wait until each Website is reported to be ready.
    Ready,
    /// Change so many Websites, so many a second, and wait until each change is reported to be ready.
    Change {
        /// How many.
        websites: usize,
        /// How fast.
        per_second: u64,
    },
    /// Say what was asked.
    Count,
    /// Look at everything.
    Check,
}

/// What it answers once it is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    /// What was asked so far, if that is counted.
    pub(super) requests: Option<Requests>,
    /// How long changes took.
    pub(super) latency: Option<Latency>,
    /// What there is.
    pub(super) state: Option<State>,
}

/// What it says once it has its Websites.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Filled {
    /// How to get to it.
    pub(super) kubeconfig: PathBuf,
}

/// Serves so many Websites, from memory or from a real kube-apiserver, and carries out commands until there are no more.
///
/// # Errors
/// A server that can't be started; a line that is no command; what the server refuses; and what reading and writing fails
/// with.
///
/// # Cancel safety
/// Dropping it ends the cluster.
pub(crate) async fn run_cluster(
    objects: usize,
    is_real: bool,
    commands: impl AsyncBufRead + Unpin,
    replies: impl AsyncWrite + Unpin,
) -> Result<()> {
    if is_real {
        let server = RealServer::start().await?;
        let cluster = Cluster::new(server.client().await?, objects, None).await?;
        drive(&cluster, server.kubeconfig(), commands, replies).await?;
        return server.stop().await;
    }
    let (server, counter) = (Server::new(), Counter::default());
    // Not through the socket, so that nobody's requests are counted wrong.
    let client = Client::new(server.service(), "default");
    let cluster = Cluster::new(client, objects, Some(counter.clone())).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("kubeconfig");
    fs::write(&file, kubeconfig(&format!("http://{}", listener.local_addr()?)).to_string())?;
    tokio::select! {
        served = serve(listener, server.service(), counter) => Ok(served?),
        driven = drive(&cluster, &file, commands, replies) => driven,
    }
}

async fn drive(
    cluster: &Cluster,
    kubeconfig: &Path,
    commands: impl AsyncBufRead + Unpin,
    mut replies: impl AsyncWrite + Unpin,
) -> Result<()> {
    say(&mut replies, &Filled { kubeconfig: kubeconfig.to_owned() }).await?;
    tokio::select! {
        () = cluster.observe() => bail!("nobody looks at the Websites any more"),
        driven = control(cluster, commands, replies) => driven,
    }
}

async fn control(
    cluster: &Cluster,
    commands: impl AsyncBufRead + Unpin,
    mut replies: impl AsyncWrite + Unpin,
) -> Result<()> {
    let mut commands = commands.lines();
    while let Some(command) = commands.next_line().await? {
        let reply = cluster.obey(serde_json::from_str(&command)?).await?;
        say(&mut replies, &reply).await?;
    }
    Ok(())
}

async fn say(replies: &mut (impl AsyncWrite + Unpin), reply: &impl Serialize) -> Result<()> {
    replies.write_all(format!("{}\n", serde_json::to_string(reply)?).as_bytes()).await?;
    Ok(replies.flush().await?)
}

//! The cluster as a process: reads a command per line and writes a reply per line, both in JSON.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use kube_client::Client;
use kube_testserver::Server;
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::cluster::Cluster;
use super::protocol::ClusterReady;
use super::server::{Counter, kubeconfig, serve};
use crate::record::RealServer;

/// Serves `objects` Websites from kube-testserver or from a real kube-apiserver, and executes
/// commands until the input closes.
///
/// # Errors
///
/// Fails if the server cannot start, if a line is not a command, or if a request or I/O fails.
///
/// # Cancel safety
///
/// Dropping the future stops the cluster.
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
    // The counter counts only requests through the socket, so this client does not use the socket.
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
    write_line(&mut replies, &ClusterReady { kubeconfig: kubeconfig.to_owned() }).await?;
    tokio::select! {
        () = cluster.observe() => bail!("the observation of the Websites stopped"),
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
        let reply = cluster.handle_command(serde_json::from_str(&command)?).await?;
        write_line(&mut replies, &reply).await?;
    }
    Ok(())
}

async fn write_line(replies: &mut (impl AsyncWrite + Unpin), reply: &impl Serialize) -> Result<()> {
    replies.write_all(format!("{}\n", serde_json::to_string(reply)?).as_bytes()).await?;
    Ok(replies.flush().await?)
}

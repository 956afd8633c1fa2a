//! The server of the measurement: kube-testserver with Pods, over TCP.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use clap::Args;
use kube_testserver::Server;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::net::TcpListener;

use crate::cli::positive;
use crate::http_server::{RequestCounter, serve};
use crate::pods::Pod;

/// The number of namespaces. There are several in each of 64 slots.
const NAMESPACES: usize = 400;

/// Contains the options of the server.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// The number of Pods.
    #[arg(long, value_parser = positive)]
    objects: usize,
    /// The number of Pods that change at once.
    #[arg(long, value_parser = positive)]
    burst: usize,
}

/// The first line of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    /// The URL of the server.
    pub(super) url: String,
}

/// The answer of the server after each Pod has changed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Changed {}

/// Serves Pods until standard input closes. After each line of standard input, all Pods change once.
///
/// # Errors
///
/// Fails if the server cannot listen, or rejects an object.
///
/// # Cancel safety
///
/// Dropping the future stops the server.
pub(crate) async fn run_server(args: &ServerArgs) -> Result<()> {
    let server = Server::builder().sharded_lists(true).build();
    for number in 0..NAMESPACES {
        let metadata = json!({"name": namespace(number)});
        server
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .context("cannot create a namespace")?;
    }
    for number in 0..args.objects {
        let mut pod = Pod::new(number).created();
        pod["metadata"]["namespace"] = json!(namespace(number));
        server.create(&pod).context("cannot create a Pod")?;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    print(&Ready { url }).await?;
    tokio::select! {
        served = serve(listener, server.service(), RequestCounter::default()) => Ok(served?),
        result = answer(&server, args) => result,
    }
}

async fn answer(server: &Server, args: &ServerArgs) -> Result<()> {
    let mut input = BufReader::new(stdin()).lines();
    let mut round = 0;
    while input.next_line().await.context("cannot read standard input")?.is_some() {
        round += 1;
        for number in 0..args.objects {
            let patch = json!({"metadata": {"annotations": {"example.com/round": round.to_string()}}});
            server
                .patch_untyped("v1", "Pod", Some(&namespace(number)), &Pod::new(number).name(), &patch)
                .context("cannot change a Pod")?;
            // The connections are served by the same thread.
            if (number + 1).is_multiple_of(args.burst) {
                tokio::task::yield_now().await;
            }
        }
        print(&Changed {}).await?;
    }
    Ok(())
}

/// Prints a line of JSON.
pub(crate) async fn print(message: &impl Serialize) -> Result<()> {
    let mut output = stdout();
    output.write_all(format!("{}\n", serde_json::to_string(message)?).as_bytes()).await?;
    Ok(output.flush().await?)
}

fn namespace(number: usize) -> String {
    format!("team-{:03}", number % NAMESPACES)
}

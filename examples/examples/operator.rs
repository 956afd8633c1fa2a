//! A complete operator: a `Website` owns a ConfigMap with its page, a Deployment and a Service, and is listed in a directory.
//!
//! Without flags it works on an API server in memory and tells a story: a site is made, published, changed, tampered with and
//! deleted, and each line says what has come of it. With `--cluster --write --for ever` it installs its CRD on the cluster of
//! the current kubeconfig context and looks after the Websites there, until SIGTERM or Ctrl-C: without `--for` for six seconds.
//! `--story` plays the story there instead, with a site of its own. Several processes elect a leader. What goes wrong is logged,
//! and what else `RUST_LOG` asks for. Its metrics, health and debug pages are at `--address`.

#[path = "operator/story.rs"]
mod story;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Parser;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_informer_examples::{
    cluster::{self, ClusterArgs},
    website::{OperatorOptions, Website, operator},
};
use kube_operator::shutdown_signal;
use kube_testserver::Server;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Looks after Websites.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Allow the operator to write to the cluster: its CRD, and what Websites ask for.
    #[arg(long)]
    write: bool,
    /// Play the story on the cluster, too.
    #[arg(long)]
    story: bool,
    /// The name of this process in the election; another one in each.
    #[arg(long)]
    identity: Option<String>,
    /// Where metrics, health and debug pages are served.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    cluster::run(run(Flags::parse())).await
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    let is_embedded = !flags.cluster.cluster && flags.cluster.context.is_none();
    if !is_embedded && !flags.write {
        bail!("an operator writes to its cluster: allow it with --write");
    }
    let client = match is_embedded {
        true => Client::new(Server::builder().garbage_collector(true).build().service(), "default"),
        false => flags.cluster.connect().await?.client,
    };
    install(&client).await?;
    let namespace = flags.cluster.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let (identity, address) = (flags.identity, Some(flags.address));
    let options = OperatorOptions { namespace: namespace.clone(), identity, address };
    let manager = operator(client.clone(), options)?;
    let address = manager.local_address().context("pages are served")?;
    println!("serving http://{address}/metrics, /readyz and /debug");

    let stop = CancellationToken::new();
    let operating = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let kubelet = is_embedded.then(|| tokio::spawn(story::kubelet(client.clone(), stop.clone())));
    let told = async {
        match is_embedded || flags.story {
            true => story::tell(&client, &namespace, address).await,
            false => {
                terminated_or(flags.cluster.life.over()).await;
                Ok(())
            }
        }
    };
    tokio::pin!(operating);
    let (told, operated) = tokio::select! {
        told = told => {
            stop.cancel();
            (told, operating.await)
        }
        // Before it was told to.
        operated = &mut operating => (Ok(()), operated),
    };
    stop.cancel();
    if let Some(kubelet) = kubelet {
        kubelet.await??;
    }
    told?;
    operated??;
    println!("ended, and gave the lease back");
    Ok(())
}

async fn terminated_or(over: impl Future<Output = ()>) {
    tokio::select! {
        () = shutdown_signal() => {}
        () = over => {}
    }
}

/// The CRD, and waits until the server serves it.
async fn install(client: &Client) -> anyhow::Result<()> {
    let crd = Website::crd();
    let name = crd.metadata.name.clone().context("a CRD has a name")?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.patch(&name, &PatchParams::apply("website-operator").force(), &Patch::Apply(&crd)).await?;
    for _ in 0..300 {
        let conditions =
            api.get(&name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the server does not serve the CRD {name} within 30 s")
}

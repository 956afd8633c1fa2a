//! Runs a complete operator for the custom resource `Website`.
//!
//! A `Website` owns a ConfigMap with its page, a Deployment and a Service, and has an entry in a
//! directory. Without options, the example runs a scripted demo on an API server in memory. The
//! demo creates, publishes, changes and deletes a site, and prints the result of each step. With
//! `--cluster --write --duration forever`, it installs its CRD on the cluster of the current
//! kubeconfig context and reconciles the Websites there, until SIGTERM or Ctrl-C. The default
//! duration is six seconds. `--demo` runs the demo on the cluster. Several processes elect a
//! leader. The operator logs warnings and errors; `RUST_LOG` selects other messages. It serves
//! metrics, health and debug pages at `--address`. The command `rbac` prints the roles that the operator
//! needs.

#[path = "operator/demo.rs"]
mod demo;

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use kube::CustomResourceExt;
use kube_client::Client;
use kube_informer_examples::{
    cli,
    cluster::ClusterArgs,
    website::{OperatorOptions, Website, operator},
};
use kube_operator::{Manager, ensure_crd, offline_client, shutdown_signal};
use kube_testserver::Server;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The time limit for the installation of the CRD.
const CRD_LIMIT: Duration = Duration::from_secs(30);

/// Runs an operator for Websites: a scripted demo in memory, or on a cluster.
#[derive(Parser)]
struct Flags {
    /// Print something, instead of running.
    command: Option<Command>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Permit the operator to write to the cluster. The operator installs its CRD, and creates the
    /// objects that a Website owns.
    #[arg(long)]
    write: bool,
    /// Run the scripted demo on the cluster of the kubeconfig.
    #[arg(long)]
    demo: bool,
    /// The identity of this process in the leader election. Each process needs a different identity.
    #[arg(long, value_parser = cli::identity)]
    identity: Option<String>,
    /// Serve metrics, health and debug pages at this address.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    /// The roles that the operator needs.
    Rbac,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    cli::run(run).await
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    if let Some(Command::Rbac) = flags.command {
        let namespace = flags.cluster.namespace.as_deref().unwrap_or("default");
        let manager = manager(&flags, &offline_client(namespace), namespace)?;
        print!("{}", manager.rbac_roles("website-operator"));
        return Ok(());
    }
    let is_embedded = flags.cluster.is_embedded();
    if !is_embedded && !flags.write {
        bail!("this example writes to the cluster; permit it with --write");
    }
    let client = if is_embedded {
        let client = Client::new(Server::builder().garbage_collector(true).build().service(), "default");
        flags.cluster.check_namespace(&client).await?;
        client
    } else {
        flags.cluster.connect().await?.client
    };
    let crd = ensure_crd(&client, &Website::crd(), "website-operator", CRD_LIMIT).await;
    crd.context("cannot install the CRD")?;
    let namespace = flags.cluster.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let manager = manager(&flags, &client, &namespace)?;
    let address = manager.local_address().context("the manager serves no pages")?;
    println!("serving http://{address}/metrics, /readyz and /debug/informers");

    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let kubelet = is_embedded.then(|| tokio::spawn(demo::run_kubelet(client.clone(), stop.clone())));
    let foreground = async {
        if is_embedded || flags.demo {
            demo::run(&client, &namespace, address).await
        } else {
            shutdown_signal_or(flags.cluster.duration.wait()).await;
            Ok(())
        }
    };
    tokio::pin!(running);
    let (demo_result, manager_result) = tokio::select! {
        demo_result = foreground => {
            stop.cancel();
            (demo_result, running.await)
        }
        // The manager stops early only after a failure.
        manager_result = &mut running => (Ok(()), manager_result),
    };
    stop.cancel();
    if let Some(kubelet) = kubelet {
        kubelet.await??;
    }
    demo_result?;
    manager_result??;
    println!("stopped");
    Ok(())
}

fn manager(flags: &Flags, client: &Client, namespace: &str) -> anyhow::Result<Manager> {
    let (identity, address) = (flags.identity.clone(), Some(flags.address));
    let options = OperatorOptions { namespace: namespace.to_owned(), identity, address };
    let mut manager = operator(client.clone(), options)?;
    manager.require_crd(Website::crd_name());
    Ok(manager)
}

async fn shutdown_signal_or(time_over: impl Future<Output = ()>) {
    tokio::select! {
        () = shutdown_signal() => {}
        () = time_over => {}
    }
}

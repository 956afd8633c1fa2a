//! An operator that creates a ConfigMap for each `Page`.

mod config;
mod operator;
#[cfg(feature = "otel")]
mod otel;
mod page;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};
use kube::{Client, CustomResourceExt};
use kube_operator::{ElectionOptions, ManagerOptions, offline_client, shutdown_signal};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{config::Config, operator::operator, page::Page};

/// The name of the operator, its Lease, its roles and its service account.
const NAME: &str = env!("CARGO_PKG_NAME");

/// Creates a ConfigMap for each Page.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// Read the configuration from this YAML file.
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    /// The namespace of the operator. The default is the namespace of the Pod or of the kubeconfig. The
    /// command `rbac` uses the name of the operator.
    #[arg(long, global = true)]
    namespace: Option<String>,
    /// Serve metrics and debug pages at this address.
    #[arg(long, global = true, default_value = "127.0.0.1:8080")]
    bind_address: SocketAddr,
    /// Serve /healthz and /readyz at this address.
    #[arg(long, global = true, default_value = "0.0.0.0:8081")]
    probe_address: SocketAddr,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, PartialEq, Subcommand)]
enum Command {
    /// Run the operator. This is the default.
    Run,
    /// Print the CRD.
    Crd,
    /// Print the roles that the operator needs, and their bindings.
    Rbac,
    /// Compare the permissions of the current account with the ones that the operator needs.
    Check,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let subscriber = tracing_subscriber::registry().with(filter).with(log);
    #[cfg(feature = "otel")]
    let subscriber = subscriber.with(otel::layer_of_environment()?);
    subscriber.init();
    let command = flags.command.unwrap_or(Command::Run);
    if command == Command::Crd {
        print!("{}", serde_saphyr::to_string(&Page::crd())?);
        return Ok(());
    }
    let config = flags.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let client = if command == Command::Rbac { offline_client(NAME) } else { Client::try_default().await? };
    let namespace = flags.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let runs = command == Command::Run;
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(&namespace, NAME)),
        bind_address: runs.then_some(flags.bind_address),
        probe_address: runs.then_some(flags.probe_address),
        ..ManagerOptions::default()
    };
    let manager = operator(client, options, &config)?;
    match command {
        Command::Rbac => print!("{}", manager.rbac_roles(NAME).bind_to_service_account(&namespace, NAME)),
        Command::Check => {
            let diff = manager.check_permissions().await?;
            print!("{diff}");
            anyhow::ensure!(diff.missing.is_empty(), "permissions are missing");
        }
        Command::Run | Command::Crd => manager.run_and_exit(shutdown_signal()).await,
    }
    Ok(())
}

//! Runs replicas of a sharded operator on a real kube-apiserver: see docs/reliability.md.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};
use kube_informer_cli as cli;
use kube_informer_e2e::real::{HOW_TO_GET_A_SERVER, Source};
use kube_informer_e2e::sharded::{OperatorOptions, Settings, run, run_operator};
use tracing_subscriber::EnvFilter;

/// Runs replicas of a sharded operator on a real kube-apiserver, and judges their writes.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Kill, pause, stop and partition replicas while objects change. The audit log of the server decides
    /// whether the replicas kept their guarantees. Needs .ci/real-apiserver.
    Faults(FaultArguments),
    /// Run one replica on the cluster of the kubeconfig, until SIGTERM or until stdin is closed. It writes
    /// each ConfigMap that has the key `wanted`.
    Operator(OperatorOptions),
}

#[derive(Debug, Args)]
struct FaultArguments {
    /// The number of objects.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    objects: u32,
    /// The number of namespaces of the objects.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    namespaces: u32,
    /// Enable the feature gate ShardedListAndWatch of the server.
    #[arg(long)]
    gate: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match cli::parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let result = match arguments.command {
        Command::Faults(arguments) => faults(arguments).await,
        Command::Operator(options) => {
            tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::from_default_env())
                .with_writer(std::io::stderr)
                .init();
            run_operator(options).await
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn faults(FaultArguments { objects, namespaces, gate, operator }: FaultArguments) -> Result<()> {
    ensure!(objects >= namespaces, "--objects {objects} must not be less than --namespaces {namespaces}");
    let settings = Settings {
        program: std::env::current_exe().context("cannot find the path of this program")?,
        objects: usize::try_from(objects)?,
        namespaces: usize::try_from(namespaces)?,
        operator,
        gate,
    };
    let source = Source::find()?.with_context(|| format!("no server; {HOW_TO_GET_A_SERVER}"))?;
    run(&settings, source, &|line| println!("{line}")).await
}

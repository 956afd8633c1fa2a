//! Runs a demo operator. You can open its pages in a browser.

use std::{net::SocketAddr, process::ExitCode};

use anyhow::{Result, ensure};
use clap::Parser;
use kube_informer_browser::Demo;
use kube_operator::shutdown_signal;

/// Runs a demo operator on an API server in memory, until SIGTERM or Ctrl-C.
#[derive(Parser)]
struct Flags {
    /// The address of the pages. It must be a loopback address.
    #[arg(long, default_value = "127.0.0.1:8080")]
    address: SocketAddr,
}

fn main() -> ExitCode {
    kube_informer_cli::run(run)
}

fn run(Flags { address }: Flags) -> Result<ExitCode> {
    ensure!(address.ip().is_loopback(), "{} is not a loopback address", address);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let demo = Demo::start(address)?;
        println!("open {} in a browser", demo.url("/"));
        shutdown_signal().await;
        demo.stop().await
    })?;
    Ok(ExitCode::SUCCESS)
}

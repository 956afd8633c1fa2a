//! The server as a program: `cargo run -p kube-testserver -- --port 0 --kubeconfig FILE`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kube_testserver::{Listening, Rights, Server, Workload};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Duration;

/// The users that `--users` makes; their tokens are their names.
const ADMIN: &str = "admin";
const NOBODY: &str = "nobody";

/// A Kubernetes API server in memory.
#[derive(Debug, Parser)]
struct Flags {
    /// The port on 127.0.0.1; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Write a kubeconfig here once the server is ready.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Serve on TLS, with a certificate that the kubeconfig knows.
    #[arg(long)]
    tls: bool,
    /// Ask for tokens. The kubeconfig's own context may do everything, its context `nobody` nothing. Clients in Go send
    /// their tokens over TLS only.
    #[arg(long, requires = "tls")]
    users: bool,
    /// Forget history after so many seconds; without it only the number of events is bounded.
    #[arg(long, value_name = "SECONDS")]
    expire_after: Option<f64>,
    /// Send bookmarks this often, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    bookmark_period: f64,
    /// What random choices are drawn from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Delete what has lost its owners, as the garbage collector of a cluster does.
    #[arg(long)]
    garbage_collector: bool,
    /// Let something happen: a simulated workload that writes this often, in milliseconds.
    #[arg(long, value_name = "MILLISECONDS")]
    workload: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell if standard error is closed.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = Server::builder()
        .seed(flags.seed)
        .garbage_collector(flags.garbage_collector)
        .bookmark_period(Duration::try_from_secs_f64(flags.bookmark_period)?.max(Duration::from_millis(1)));
    if let Some(seconds) = flags.expire_after {
        builder = builder.expire_after(Duration::try_from_secs_f64(seconds)?);
    }
    if flags.users {
        builder = builder.user(ADMIN, ADMIN, Rights::All).user(NOBODY, NOBODY, Rights::None);
    }
    let server = builder.build();
    // Before anybody is told that the server is ready, so that no signal is missed.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let addr = ([127, 0, 0, 1], flags.port).into();
    let listening = if flags.tls { server.listen_tls(addr).await? } else { server.listen(addr).await? };
    let workload = flags
        .workload
        .map(|millis| Workload::new(flags.seed, Duration::from_millis(millis.max(1))).start(&server));
    announce(&listening, &flags)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    if let Some(workload) = workload {
        workload.stop().await;
    }
    listening.shutdown().await;
    Ok(())
}

fn announce(listening: &Listening, flags: &Flags) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    match &flags.kubeconfig {
        Some(file) => {
            let mut kubeconfig = listening.kubeconfig();
            if flags.users {
                kubeconfig = with_nobody(&kubeconfig)?;
            }
            std::fs::write(file, kubeconfig)?;
            writeln!(out, "ready {}", file.display())?;
        }
        None => writeln!(out, "ready {}", listening.url())?,
    }
    out.flush()
}

/// The kubeconfig with a second context.
fn with_nobody(kubeconfig: &str) -> std::io::Result<String> {
    let mut config: serde_json::Value = serde_json::from_str(kubeconfig)?;
    let mut context = config["contexts"][0].clone();
    context["name"] = NOBODY.into();
    context["context"]["user"] = NOBODY.into();
    for (list, item) in [("contexts", context), ("users", json!({"name": NOBODY, "user": {"token": NOBODY}}))]
    {
        config[list].as_array_mut().into_iter().for_each(|items| items.push(item.clone()));
    }
    Ok(format!("{config:#}\n"))
}

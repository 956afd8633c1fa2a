//! Runs the server as a program: `cargo run -p kube-testserver --features bin -- --port 0 --kubeconfig FILE`.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use kube_testserver::{Listening, LoadError, Rights, Server, write_kubeconfig};
use serde_json::{Value, json};
use tokio::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The users that `--users` creates. Each token equals the user's name.
const ADMIN: &str = "admin";
const NOBODY: &str = "nobody";

/// The time that the containers of a deleted Pod need to stop.
const TERMINATE_AFTER: Duration = Duration::from_secs(1);

/// The controllers that `--controllers` starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Controller {
    /// Deletes objects whose owners no longer exist.
    GarbageCollector,
    /// Schedules Pods, and reports them as running.
    Kubelet,
}

/// Run a Kubernetes API server in memory.
#[derive(Debug, Parser)]
struct Flags {
    /// Listen on this address. Clients need the token in the kubeconfig.
    #[arg(long, default_value_t = IpAddr::from([127, 0, 0, 1]))]
    address: IpAddr,
    /// Listen on this port. 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Write a kubeconfig to this file when the server is ready. On Unix, only its owner can read the file.
    /// The program replaces only an earlier kubeconfig of a test server. This option is required, except
    /// with --http.
    #[arg(long, required_unless_present = "http")]
    kubeconfig: Option<PathBuf>,
    /// Serve HTTPS. This is the default. The kubeconfig contains the certificate of the authority.
    #[arg(long, conflicts_with = "http")]
    tls: bool,
    /// Serve HTTP, without tokens. Each client that reaches the address has all rights.
    #[arg(long)]
    http: bool,
    /// Add a user without rights. The default context of the kubeconfig has all rights. The context
    /// `nobody` has only the rights of every user, for example to read the version.
    #[arg(long, conflicts_with = "http")]
    users: bool,
    /// Expire events that are older than this number of seconds. Without this option, the server limits
    /// only the number of events.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    expire_after: Option<Duration>,
    /// Send bookmarks on idle watches at this interval, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, allow_negative_numbers = true)]
    bookmark_period: Duration,
    /// Use this seed for uids and generated names.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Create the objects of this YAML or JSON file, or of the files in this folder. This option can be
    /// repeated.
    #[arg(long, value_name = "PATH")]
    load: Vec<PathBuf>,
    /// Start these controllers, separated by commas. Without a value, start both. There are no others.
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',', num_args = 0..=1)]
    #[arg(default_missing_values = ["garbage-collector", "kubelet"])]
    controllers: Vec<Controller>,
    /// Accept the use of features that the server does not implement, and log it. Without this option, the
    /// server rejects it.
    #[arg(long)]
    lenient: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(number).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "the duration must be greater than 0 and less than 2^64 seconds".to_owned())
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("failed to load objects: {error}{}; choose another file or folder with --load", cause(error))]
    Load { error: LoadError },
    #[error("failed to install the signal handlers: {0}")]
    Signals(io::Error),
    #[error(
        "failed to listen on {0}: {1}; choose another --address, another --port, or a free port with --port 0"
    )]
    Listen(SocketAddr, io::Error),
    #[error("failed to write the kubeconfig {}: {}; choose another file with --kubeconfig", .0.display(), .1)]
    Kubeconfig(PathBuf, io::Error),
    #[error("failed to write the ready message to standard output: {0}")]
    Announce(io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) if !error.use_stderr() => error.exit(), // --help
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}; see --help", usage_problem(&error));
            return ExitCode::from(2);
        }
    };
    // Standard output contains only the ready message.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).init();
    match run(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the error cannot be reported.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn cause(error: &LoadError) -> String {
    std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"))
}

/// Returns objects that exist in each cluster: the Service of the API server, and the priority classes of the
/// system.
fn initial_objects() -> [Value; 3] {
    let priority_class = |name: &str, value: u32| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value
        })
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}
        },
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 6443}]}
    });
    [
        service,
        priority_class("system-cluster-critical", 2_000_000_000),
        priority_class("system-node-critical", 2_000_001_000),
    ]
}

/// Returns the first paragraph of clap's error as one line. The other paragraphs describe the usage.
fn usage_problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    problem.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn run(flags: Flags) -> Result<(), Failure> {
    let mut builder = Server::builder()
        .seed(flags.seed)
        .garbage_collector(flags.controllers.contains(&Controller::GarbageCollector))
        // Go clients do not send the tokens of a kubeconfig over HTTP.
        .require_token(!flags.http)
        .strict(!flags.lenient)
        .bookmark_period(flags.bookmark_period);
    if let Some(age) = flags.expire_after {
        builder = builder.expire_after(age);
    }
    let nobody = token();
    if flags.users {
        builder = builder.user(&token(), ADMIN, Rights::All).user(&nobody, NOBODY, Rights::None);
    }
    let server = builder.build();
    for object in initial_objects() {
        if let Err(status) = server.create(&object) {
            tracing::warn!(%status, "cannot create an initial object");
        }
    }
    for path in &flags.load {
        server.load_yaml(path).map_err(|error| Failure::Load { error })?;
    }
    // Installs the handlers before the ready message, because a signal can arrive immediately after it.
    let stop = stop_signal().map_err(Failure::Signals)?;
    let addr = (flags.address, flags.port).into();
    let listening = if flags.http { server.listen(addr).await } else { server.listen_tls(addr).await };
    let listening = listening.map_err(|error| Failure::Listen(addr, error))?;
    let kubelet = flags.controllers.contains(&Controller::Kubelet);
    let kubelet = kubelet.then(|| server.kubelet().terminate_after(TERMINATE_AFTER).start());
    announce(&listening, &flags, &nobody)?;
    stop.await;
    if let Some(kubelet) = kubelet {
        kubelet.stop().await;
    }
    listening.shutdown().await;
    Ok(())
}

/// Installs the handlers of the signals that stop the program. The future is ready after the first signal.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let (mut first, mut second) = {
        use tokio::signal::unix::{SignalKind, signal};
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    #[cfg(windows)]
    let (mut first, mut second) = (tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_break()?);
    Ok(async move {
        tokio::select! {
            _ = first.recv() => {}
            _ = second.recv() => {}
        }
    })
}

/// Creates a random token.
fn token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u128::from_ne_bytes(bytes).to_string()
}

fn announce(listening: &Listening, flags: &Flags, nobody: &str) -> Result<(), Failure> {
    let ready = match &flags.kubeconfig {
        Some(file) => {
            kubeconfig(listening, flags.users.then_some(nobody))
                .and_then(|text| write_kubeconfig(file, &text))
                .map_err(|error| Failure::Kubeconfig(file.clone(), error))?;
            file.display().to_string()
        }
        None => listening.url(),
    };
    let mut out = io::stdout();
    writeln!(out, "ready {ready}").and_then(|()| out.flush()).map_err(Failure::Announce)
}

fn kubeconfig(listening: &Listening, nobody: Option<&str>) -> io::Result<String> {
    let kubeconfig = listening.kubeconfig();
    match nobody {
        Some(token) => with_nobody(&kubeconfig, token),
        None => Ok(kubeconfig),
    }
}

fn with_nobody(kubeconfig: &str, token: &str) -> io::Result<String> {
    let mut config: Value = serde_json::from_str(kubeconfig)?;
    let mut context = config["contexts"][0].clone();
    context["name"] = NOBODY.into();
    context["context"]["user"] = NOBODY.into();
    let user = json!({"name": NOBODY, "user": {"token": token}});
    for (list, item) in [("contexts", context), ("users", user)] {
        config[list].as_array_mut().into_iter().for_each(|items| items.push(item.clone()));
    }
    Ok(format!("{config:#}\n"))
}

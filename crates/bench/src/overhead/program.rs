//! The programs that are part of `kube-bench`. Each measures one part, prints its figures as one line
//! of JSON, and then keeps its caches until standard input closes. For each line that it reads, it prints the
//! number of its tasks.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use futures_util::FutureExt as _;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout, stdin, stdout};
use tokio::runtime::Handle;

use super::namespaces::Caches;
use super::reconcile::Figures;
use super::{OverheadLoad, OverheadPart};
use super::{kinds, memory, namespaces, reconcile_kube_runtime, reconcile_ours};

/// Contains the options of a program.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// The name of the program.
    name: String,
    /// The part to measure.
    #[arg(value_enum)]
    part: OverheadPart,
    #[command(flatten)]
    load: OverheadLoad,
    /// The kubeconfig of the server.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

/// Runs a program.
///
/// # Errors
///
/// Fails if there is no such program, or if its measurement fails.
///
/// # Cancel safety
///
/// Dropping the future stops the program.
pub(crate) async fn run(args: &ProgramArgs) -> Result<()> {
    let (figures, caches) = measure(args).await?;
    let mut output = stdout();
    write_line(&mut output, &serde_json::to_string(&figures)?).await?;
    let mut input = BufReader::new(stdin()).lines();
    let answer = async {
        while input.next_line().await?.is_some() {
            let tasks = Handle::current().metrics().num_alive_tasks();
            write_line(&mut output, &tasks.to_string()).await?;
        }
        Ok(())
    };
    tokio::select! {
        () = caches => Ok(()),
        answered = answer => answered,
    }
}

async fn write_line(output: &mut Stdout, line: &str) -> Result<()> {
    output.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(output.flush().await?)
}

async fn measure(args: &ProgramArgs) -> Result<(Figures, Caches)> {
    let OverheadLoad { objects, per_kind, namespaces } = args.load;
    let figures = match (&*args.name, args.part) {
        ("ours", OverheadPart::Reconcile) => reconcile_ours::measure(objects).await?,
        ("kube-runtime", OverheadPart::Reconcile) => reconcile_kube_runtime::measure(objects).await?,
        ("ours", OverheadPart::Memory) => memory::measure(objects).await?,
        (name, _) => return with_server(name, args, per_kind, namespaces).await,
    };
    Ok((figures, std::future::pending().boxed()))
}

/// Measures a part with a server. The parent process measures the figures.
async fn with_server(
    name: &str,
    args: &ProgramArgs,
    per_kind: usize,
    namespaces: usize,
) -> Result<(Figures, Caches)> {
    let client = client(args.kubeconfig.as_deref()).await?;
    let caches = match (name, args.part) {
        ("ours", OverheadPart::Sync) => kinds::sync_ours(client, per_kind).await?,
        ("ours", OverheadPart::Start) => kinds::start_ours(client).await?,
        ("kube-runtime", OverheadPart::Sync) => kinds::sync_kube_runtime(client, per_kind).await?,
        ("kube-runtime", OverheadPart::Start) => kinds::start_kube_runtime(client).await?,
        ("ours", OverheadPart::Namespaces) => namespaces::ours(client, namespaces).await?,
        ("ours-split", OverheadPart::Namespaces) => namespaces::ours_split(client, namespaces).await?,
        ("kube-runtime", OverheadPart::Namespaces) => namespaces::kube_runtime(client, namespaces).await?,
        (name, part) => bail!("no program {name:?} measures the part {}", part.name()),
    };
    Ok((Figures::new(), caches))
}

async fn client(kubeconfig: Option<&Path>) -> Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig.context("this part needs --kubeconfig")?)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?)
}

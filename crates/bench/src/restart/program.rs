//! A program with an informer of all Pods and a snapshot.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, Resource};
use kube_informer::{ClusterId, Compressed, Informer, Lazy, Persist, SnapshotFile};
use tokio::io::{AsyncReadExt as _, stdin};

use super::{Representation, Synced};
use crate::client::{config_of_kubeconfig, config_of_url};
use crate::scale_out::print_json;

/// The time limit of the first list.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Contains the options of a program of the command `restart`.
#[derive(Debug, Args)]
pub struct RestartProgramArgs {
    /// The URL of the server.
    #[arg(long, required_unless_present = "kubeconfig")]
    server: Option<String>,
    /// The kubeconfig of the server.
    #[arg(long, conflicts_with = "server")]
    kubeconfig: Option<PathBuf>,
    /// The folder of the snapshot.
    #[arg(long)]
    folder: PathBuf,
    /// How an object is stored.
    #[arg(long, value_enum)]
    representation: Representation,
    /// Verify the snapshot with a list.
    #[arg(long)]
    list: bool,
}

/// Caches all Pods until standard input closes, and then writes the snapshot.
///
/// # Errors
///
/// Fails if the Pods are not cached in time.
///
/// # Cancel safety
///
/// Dropping the future stops the informer without a snapshot.
pub(crate) async fn run_program(args: &RestartProgramArgs) -> Result<()> {
    match args.representation {
        Representation::Typed => cache::<Pod>(args).await,
        Representation::Lazy => cache::<Lazy<Pod>>(args).await,
        Representation::Compressed => cache::<Compressed<Pod>>(args).await,
    }
}

async fn cache<T: Persist>(args: &RestartProgramArgs) -> Result<()>
where
    T::Resource: Resource<DynamicType = ()>,
{
    let config = match &args.kubeconfig {
        Some(file) => config_of_kubeconfig(file).await?,
        None => config_of_url(args.server.as_deref().context("the program needs a server")?)?,
    };
    let client = Client::try_from(config)?;
    let mut file = SnapshotFile::in_folder(&args.folder, ClusterId::from_url("the server of the benchmark"));
    if args.list {
        file = file.resume_within(Duration::ZERO);
    }
    let pods = Informer::<T>::builder(Api::all(client)).build();
    let restored = pods.restore_snapshot(&file).await?.is_some();
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let handler = pods.on_event(move |_| {
        count.fetch_add(1, Relaxed);
    });
    pods.start();
    pods.wait_for_sync(TIMEOUT).await?;
    ensure!(handler.wait_for_sync(TIMEOUT).await, "the handler did not receive all Pods in time");
    print_json(&Synced { objects: received.load(Relaxed), restored }).await?;
    let mut rest = Vec::new();
    stdin().read_to_end(&mut rest).await.context("cannot read standard input")?;
    pods.stop().await;
    Ok(())
}

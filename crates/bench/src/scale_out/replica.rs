//! A replica: a process with an informer of the Pods in some slots.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Client;
use kube_client::Resource;
use kube_informer::{Cached, Compressed, InformerFactory, ShardKey, SlotCount, SlotSet};
use tokio::io::{AsyncReadExt as _, stdin};
use tokio::time::timeout;

use super::{Division, Representation, Synced, server::print};
use crate::client::config_of_url;

/// The time limit of the first list.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Contains the options of a replica.
#[derive(Debug, Args)]
pub struct ReplicaArgs {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// The slots of this replica, for example `0-15`.
    #[arg(long)]
    slots: SlotSet,
    /// How the objects are divided.
    #[arg(long, value_enum)]
    division: Division,
    /// How an object is stored.
    #[arg(long, value_enum)]
    representation: Representation,
}

/// Caches the Pods of the slots until standard input closes.
///
/// # Errors
///
/// Fails if the list of the Pods is not cached in time.
///
/// # Cancel safety
///
/// Dropping the future stops the informer.
pub(crate) async fn run_replica(args: &ReplicaArgs) -> Result<()> {
    match args.representation {
        Representation::Typed => cache::<Pod>(args).await,
        Representation::Compressed => cache::<Compressed<Pod>>(args).await,
    }
}

async fn cache<T: Cached>(args: &ReplicaArgs) -> Result<()>
where
    <T::Resource as Resource>::DynamicType: Default,
    <T::Resource as Resource>::Scope: 'static,
{
    let factory = InformerFactory::new(Client::try_from(config_of_url(&args.server)?)?);
    let factory = match args.division {
        Division::None => factory,
        Division::Uid => factory.sharded(ShardKey::Uid, SlotCount::default()),
        Division::Namespace => factory.sharded(ShardKey::Namespace, SlotCount::default()),
    };
    let pods = factory.informer::<T>()?;
    pods.on_event(|_| {}).detach();
    if args.division != Division::None {
        pods.set_slots(args.slots)?;
    }
    factory.start();
    factory.wait_for_sync(TIMEOUT).await?;
    if args.division != Division::None {
        let mut filled = pods.filled_slots()?;
        let filled = timeout(TIMEOUT, filled.wait_for(|filled| *filled == args.slots)).await;
        drop(filled.context("the slots are not cached in time")??);
    }
    print(&Synced { objects: pods.lister().len() }).await?;
    let mut rest = Vec::new();
    stdin().read_to_end(&mut rest).await.context("cannot read standard input")?;
    factory.shutdown().await;
    Ok(())
}

//! Prints Pod events and queries the cache.
//!
//! Without options, the example starts an API server with a simulated workload in this process.
//! With `--cluster` it reads the Pods of the current kubeconfig context. Prints one line for each
//! event: `ADDED : shop/web-0`, `MODIFIED : ..`, `DELETED : ..`. Finally prints the results of
//! cache queries.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Event, InformerFactory, LabelSelector};
use kube_informer_examples::{cli, cluster::ClusterArgs};

/// Prints Pod events and queries the cache.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Select Pods by labels, for example app=web.
    #[arg(long, short = 'l', default_value = "", value_parser = cli::label_selector)]
    selector: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(pods).await
}

async fn pods(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    cluster.check_list_access::<Pod>(flags.cluster.namespace.as_deref()).await?;

    let mut factory = InformerFactory::new(cluster.client.clone()).labels(&flags.selector);
    if let Some(namespace) = &flags.cluster.namespace {
        factory = factory.namespace(namespace);
    }
    let pods = factory.informer::<Pod>()?;
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    pods.on_event(|event| match event {
        Event::Added { object, .. } => println!("ADDED : {}", object.key()),
        Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
        Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
    })
    .detach();

    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;
    flags.cluster.duration.wait().await;

    // The lookups below read the cache without sending requests.
    let lister = pods.lister();
    let version = lister.resource_version().context("the cache has no resourceVersion")?;
    println!("\n{} Pods at resourceVersion {version}", lister.len());
    let mut nodes = by_node.values();
    nodes.sort();
    for node in nodes {
        println!("  {node} runs {} Pods", by_node.len(&node));
    }
    let mut keys = lister.keys();
    keys.sort();
    if let Some(pod) = keys.first().and_then(|key| lister.get_by_key(key)) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        println!("  {} has phase {}", keys[0], phase.unwrap_or("(none)"));
    }
    let web: LabelSelector = "app=web".parse()?;
    println!("  {} Pods have the label app=web", lister.list(&web).len());

    factory.shutdown().await;
    cluster.close().await;
    Ok(())
}

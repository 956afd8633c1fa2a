//! Pods as they come and go, and look-ups in their cache.
//!
//! Without flags an API server is started in this process, with a small simulated workload; with
//! `--cluster` the Pods are those of the current kubeconfig context, which is only read. Prints one
//! line for each event, `ADDED : shop/web-0`, `MODIFIED : ..`, `DELETED : ..`; then asks the cache.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Event, InformerFactory, LabelSelector};
use kube_informer_examples::cluster::{self, ClusterArgs};

/// Watches Pods and prints what happens to them.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only Pods with these labels, for example app=web.
    #[arg(long, short = 'l', default_value = "")]
    selector: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(pods(Flags::parse())).await
}

async fn pods(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    cluster.can_list::<Pod>(flags.cluster.namespace.as_deref()).await?;

    let mut factory = InformerFactory::new(cluster.client.clone()).labels(&flags.selector);
    if let Some(namespace) = &flags.cluster.namespace {
        factory = factory.namespace(namespace);
    }
    let pods = factory.informer::<Pod>()?;
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    pods.on(|event| match event {
        Event::Added { object, .. } => println!("ADDED : {}", object.key()),
        Event::Updated { new, .. } => println!("MODIFIED : {}", new.key()),
        Event::Deleted { last, .. } => println!("DELETED : {}", last.key()),
    });

    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;
    flags.cluster.life.over().await;

    // From here on nothing is asked of the server: the cache answers.
    let lister = pods.lister();
    println!("\n{} Pods at resourceVersion {}", lister.len(), lister.watermark().context("no version")?);
    let mut nodes = by_node.values();
    nodes.sort();
    for node in nodes {
        println!("  {node} runs {}", by_node.len(&node));
    }
    let mut keys = lister.keys();
    keys.sort();
    if let Some(pod) = keys.first().and_then(|key| lister.get_by_key(key)) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        println!("  {} is {}", keys[0], phase.unwrap_or("without a phase"));
    }
    let web: LabelSelector = "app=web".parse()?;
    println!("  {} have the label app=web", lister.list(&web).len());

    factory.shutdown().await;
    cluster.close().await;
    Ok(())
}

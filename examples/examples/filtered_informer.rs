//! An informer of some Pods only: a namespace, an options modifier, indexers and a resync period.
//!
//! What client-go's NewFilteredPodInformer is called with. The server sends nothing but the Pods
//! selected; each is shown again at every resync. Prints each event, then the two indexes.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_informer::{Entry, EventHandler, Informer, ListWatch};
use kube_informer_examples::cluster::{self, ClusterArgs};

/// Watches the running Pods of one app in one namespace.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only Pods with these labels.
    #[arg(long, short = 'l', default_value = "app=web")]
    selector: String,
    /// Show each cached Pod again after this many seconds.
    #[arg(long, default_value_t = 2)]
    resync: u64,
}

/// Tells a resync from a change: both sides of a resync are one version.
struct Printer;

impl EventHandler<Pod> for Printer {
    fn on_add(&mut self, pod: &Entry<Pod>, is_in_initial_list: bool) {
        println!("ADDED : {}{}", pod.key(), if is_in_initial_list { " (first list)" } else { "" });
    }

    fn on_update(&mut self, old: &Entry<Pod>, new: &Entry<Pod>) {
        match old.id.version == new.id.version {
            true => println!("RESYNC : {}", new.key()),
            false => println!("MODIFIED : {}", new.key()),
        }
    }

    fn on_delete(&mut self, last_known: &Entry<Pod>, _: bool) {
        println!("DELETED : {}", last_known.key());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(filtered(Flags::parse())).await
}

async fn filtered(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    let namespace = flags.cluster.namespace.as_deref().unwrap_or("shop");
    cluster.can_list::<Pod>(Some(namespace)).await?;

    let selector = flags.selector.clone();
    let source =
        ListWatch::<Pod>::new(Api::namespaced(cluster.client.clone(), namespace)).options(move |options| {
            options.label_selector = Some(selector.clone());
            options.field_selector = Some("status.phase=Running".into());
        });
    let pods = Informer::from_source(source)
        .name(format!("{} in {namespace}", flags.selector))
        .default_resync(Duration::from_secs(flags.resync.max(1)))
        .build();
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    let by_label = pods.add_index("label", |pod: &Pod| {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    })?;
    pods.add_handler(Printer);

    pods.start();
    pods.wait_for_sync(Duration::from_secs(30)).await?;
    flags.cluster.life.over().await;

    for (title, index) in [("by node", &by_node), ("by label", &by_label)] {
        println!("{title}:");
        let mut values = index.values();
        values.sort();
        for value in values {
            println!("  {value}: {}", index.len(&value));
        }
    }
    pods.stop().await;
    cluster.close().await;
    Ok(())
}

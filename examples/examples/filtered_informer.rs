//! Creates an informer for selected Pods, with list options, indexes and a resync period.
//!
//! Equivalent to client-go's NewFilteredPodInformer. The server sends only the selected Pods. A
//! resync delivers each cached Pod again. Prints each event, then the values of the two indexes.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_client::Api;
use kube_informer::{Entry, EventHandler, Informer, ListWatch, Removal};
use kube_informer_examples::{cli, cluster::ClusterArgs};

/// Prints the events of the running Pods of one app in one namespace.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Select Pods by labels.
    #[arg(long, short = 'l', default_value = "app=web", value_parser = cli::label_selector)]
    selector: String,
    /// Deliver each cached Pod again at this interval, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    resync: u64,
}

/// Prints each event. In a resync, the old and the new object have the same resourceVersion.
struct Printer;

impl EventHandler<Pod> for Printer {
    fn on_add(&mut self, pod: &Entry<Pod>, is_in_initial_list: bool) {
        println!("ADDED : {}{}", pod.key(), if is_in_initial_list { " (initial list)" } else { "" });
    }

    fn on_update(&mut self, old: &Entry<Pod>, new: &Entry<Pod>) {
        if old.id.version == new.id.version {
            println!("RESYNC : {}", new.key());
        } else {
            println!("MODIFIED : {}", new.key());
        }
    }

    fn on_delete(&mut self, last_known: &Entry<Pod>, _: Removal) {
        println!("DELETED : {}", last_known.key());
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(filtered).await
}

async fn filtered(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    let namespace = flags.cluster.namespace.as_deref().unwrap_or("shop");
    cluster.check_list_access::<Pod>(Some(namespace)).await?;

    let selector = flags.selector.clone();
    let source =
        ListWatch::<Pod>::new(Api::namespaced(cluster.client.clone(), namespace)).options(move |options| {
            options.label_selector = Some(selector.clone());
            options.field_selector = Some("status.phase=Running".into());
        });
    let pods = Informer::from_source(source)
        .name(format!("{} in {namespace}", flags.selector))
        .default_resync(Duration::from_secs(flags.resync))
        .build();
    let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    let by_label = pods.add_index("label", |pod: &Pod| {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    })?;
    pods.add_handler(Printer).detach();

    pods.start();
    pods.wait_for_sync(Duration::from_secs(30)).await?;
    flags.cluster.duration.wait().await;

    for (title, index) in [("Pods by node", &by_node), ("Pods by label", &by_label)] {
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

//! The same program over two forms of the same objects: some fields of each Pod, and its JSON.
//!
//! A projection has what the program is made for and nothing else: other fields don't compile. A lazy object takes as much
//! memory as its JSON and still has everything: what is asked for is decoded then. Indexes, selectors and listers are the
//! same. Prints which images run on which node, first from one, then from the other.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cached, InformerFactory, LabelSelector, Lazy, Projection};
use kube_informer_examples::cluster::{self, Cluster, ClusterArgs};
use serde::Deserialize;

/// Shows which images run on which node.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only Pods with these labels.
    #[arg(long, short = 'l', default_value = "")]
    selector: String,
}

/// Of a Pod what this program needs.
#[derive(Deserialize)]
struct Placed {
    spec: Placement,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: Option<String>,
}

impl Placed {
    fn images(&self) -> Vec<String> {
        self.spec.containers.iter().filter_map(|container| container.image.clone()).collect()
    }
}

/// What the program asks of a Pod, whatever form it has.
trait Runs: Cached<Resource = Pod> {
    fn node(&self) -> Option<String>;
    fn images(&self) -> Vec<String>;
}

impl Runs for Projection<Pod, Placed> {
    fn node(&self) -> Option<String> {
        self.spec.node_name.clone()
    }

    fn images(&self) -> Vec<String> {
        self.fields.images()
    }
}

impl Runs for Lazy<Pod> {
    /// A part is decoded faster than the whole.
    fn node(&self) -> Option<String> {
        self.fields::<Placed>().ok()?.spec.node_name
    }

    /// The whole Pod, shared with whoever else looks at it now. A Pod that is not as it should be runs nothing.
    fn images(&self) -> Vec<String> {
        let Ok(pod) = self.get() else { return Vec::new() };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|container| container.image.clone()).collect()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(representations(Flags::parse())).await
}

async fn representations(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    cluster.can_list::<Pod>(flags.cluster.namespace.as_deref()).await?;
    println!("some fields of each Pod:");
    report::<Projection<Pod, Placed>>(&cluster, &flags).await?;
    println!("each Pod's JSON:");
    report::<Lazy<Pod>>(&cluster, &flags).await?;
    cluster.close().await;
    Ok(())
}

/// The program.
async fn report<T: Runs>(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let factory = InformerFactory::new(cluster.client.clone())
        .namespace(flags.cluster.namespace.as_deref().unwrap_or_default());
    let pods = factory.informer::<T>()?;
    let by_node = pods.add_index("node", |pod: &T| pod.node())?;
    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;

    let selector: LabelSelector = flags.selector.parse()?;
    println!("  {} Pods have the labels", pods.lister().list(&selector).len());
    let mut images: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for node in by_node.values() {
        for image in by_node.get(&node).iter().flat_map(|pod| pod.images()) {
            *images.entry(node.clone()).or_default().entry(image).or_default() += 1;
        }
    }
    for (node, images) in images {
        for (image, count) in images {
            println!("  {node} runs {image} {count} times");
        }
    }
    factory.shutdown().await;
    Ok(())
}

//! Runs the same program with two representations of the same objects.
//!
//! A projection keeps only chosen fields; access to other fields does not compile. A lazy object
//! keeps the JSON and decodes fields on access. Indexes, selectors and listers work with both.
//! Prints the images that run on each node, once for each representation.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{Cached, InformerFactory, LabelSelector, Lazy, Projection};
use kube_informer_examples::{
    cli,
    cluster::{Cluster, ClusterArgs},
};
use serde::Deserialize;

/// Prints the images that run on each node, from two representations of the Pods.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Count the Pods with these labels, for example app=web.
    #[arg(long, short = 'l', default_value = "", value_parser = cli::label_selector)]
    selector: String,
}

/// The fields of a Pod that this program uses.
#[derive(Deserialize)]
struct PodFields {
    spec: SpecFields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecFields {
    node_name: Option<String>,
    containers: Vec<ContainerFields>,
}

#[derive(Deserialize)]
struct ContainerFields {
    image: Option<String>,
}

impl PodFields {
    fn images(&self) -> Vec<String> {
        self.spec.containers.iter().filter_map(|container| container.image.clone()).collect()
    }
}

/// The queries of this program, implemented for each representation.
trait PodImages: Cached<Resource = Pod> {
    fn node(&self) -> Option<String>;
    fn images(&self) -> Vec<String>;
}

impl PodImages for Projection<Pod, PodFields> {
    fn node(&self) -> Option<String> {
        self.spec.node_name.clone()
    }

    fn images(&self) -> Vec<String> {
        self.fields.images()
    }
}

impl PodImages for Lazy<Pod> {
    /// Decodes only some fields, which is faster than decoding the Pod.
    fn node(&self) -> Option<String> {
        self.fields::<PodFields>().ok()?.spec.node_name
    }

    /// Decodes the complete Pod, which concurrent readers share. A Pod that cannot be decoded has
    /// no images.
    fn images(&self) -> Vec<String> {
        let Ok(pod) = self.get() else { return Vec::new() };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|container| container.image.clone()).collect()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(representations).await
}

async fn representations(flags: Flags) -> anyhow::Result<()> {
    let cluster = flags.cluster.connect().await?;
    cluster.check_list_access::<Pod>(flags.cluster.namespace.as_deref()).await?;
    println!("projection with some fields:");
    report::<Projection<Pod, PodFields>>(&cluster, &flags).await?;
    println!("lazy objects with JSON:");
    report::<Lazy<Pod>>(&cluster, &flags).await?;
    cluster.close().await;
    Ok(())
}

/// Runs the program with the representation `T`.
async fn report<T: PodImages>(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let factory = InformerFactory::new(cluster.client.clone())
        .namespace(flags.cluster.namespace.as_deref().unwrap_or_default());
    let pods = factory.informer::<T>()?;
    let by_node = pods.add_index("node", |pod: &T| pod.node())?;
    factory.start();
    factory.wait_for_sync(Duration::from_secs(30)).await?;

    let selector: LabelSelector = flags.selector.parse()?;
    println!("  {} Pods match the selector", pods.lister().list(&selector).len());
    let mut images: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for node in by_node.values() {
        for image in by_node.get(&node).iter().flat_map(|pod| pod.images()) {
            *images.entry(node.clone()).or_default().entry(image).or_default() += 1;
        }
    }
    for (node, images) in images {
        for (image, count) in images {
            println!("  {node} runs {count} containers of {image}");
        }
    }
    factory.shutdown().await;
    Ok(())
}

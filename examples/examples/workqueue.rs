//! Builds a simple controller from an informer, a work queue and workers with retries.
//!
//! Corresponds to client-go's workqueue example. The event handler adds keys to the queue. Two
//! workers take the keys and read the Pods from the cache. A Pod without a node counts as a
//! failure, and its key is retried at most five times with a growing delay. Prints the result for
//! each key.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{InformerFactory, Lister, ObjectKey};
use kube_informer_examples::{cli, cluster::ClusterArgs};
use kube_workqueue::WorkQueue;

const WORKERS: usize = 2;
const MAX_RETRIES: u32 = 5;

/// Processes the keys of Pods with a work queue and two workers.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cli::run(controller).await
}

async fn controller(Flags { cluster: flags }: Flags) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    cluster.check_list_access::<Pod>(flags.namespace.as_deref()).await?;

    let mut factory = InformerFactory::new(cluster.client.clone());
    if let Some(namespace) = &flags.namespace {
        factory = factory.namespace(namespace);
    }
    let pods = factory.informer::<Pod>()?;
    let queue = WorkQueue::<ObjectKey>::new();
    let producer = queue.clone();
    // Also queues deleted Pods. The worker does not find deleted Pods in the cache.
    pods.on_event(move |event| producer.add(event.key().clone())).detach();
    factory.start();
    // After the initial list is complete, a Pod that is not in the cache is deleted.
    factory.wait_for_sync(Duration::from_secs(30)).await?;

    let workers: Vec<_> =
        (0..WORKERS).map(|worker| tokio::spawn(work(worker, queue.clone(), pods.lister()))).collect();
    flags.duration.wait().await;

    factory.shutdown().await;
    queue.shutdown_with_drain().await;
    for worker in workers {
        worker.await?;
    }
    println!("keys left in the queue: {}", queue.len());
    cluster.close().await;
    Ok(())
}

/// Takes keys until the queue is shut down and empty.
async fn work(worker: usize, queue: WorkQueue<ObjectKey>, pods: Lister<Pod>) {
    while let Some(key) = queue.get().await {
        match reconcile(&pods, &key) {
            Ok(result) => {
                println!("worker {worker}: {} {result}", *key);
                key.forget(); // resets the backoff of this key
            }
            Err(problem) if key.num_requeues() < MAX_RETRIES => {
                println!("worker {worker}: {} {problem}; retrying", *key);
                key.retry();
            }
            Err(problem) => {
                println!("worker {worker}: {} {problem}; giving up after {MAX_RETRIES} retries", *key);
                key.forget();
            }
        }
    }
}

/// Does the work of a controller for one key. Here it only describes the Pod.
fn reconcile(pods: &Lister<Pod>, key: &ObjectKey) -> Result<String, &'static str> {
    let Some(pod) = pods.get_by_key(key) else {
        return Ok("is deleted".to_owned());
    };
    match pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
        Some(node) => Ok(format!("runs on {node}")),
        None => Err("has no node yet"),
    }
}

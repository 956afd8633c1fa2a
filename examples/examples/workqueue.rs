//! A controller's skeleton: an indexer informer, a rate-limited queue, workers with retries.
//!
//! client-go's workqueue example. The handler only queues keys; two workers take them, look the
//! Pod up in the cache and "act". A Pod that is not assigned to a node yet counts as a failure and
//! is tried again, later each time, at most five times. Prints what becomes of each key.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::{InformerFactory, Lister, ObjectKey};
use kube_informer_examples::cluster::{self, ClusterArgs};
use kube_workqueue::WorkQueue;

const WORKERS: usize = 2;
const MAX_RETRIES: u32 = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    cluster::run(controller(ClusterArgs::parse())).await
}

async fn controller(flags: ClusterArgs) -> anyhow::Result<()> {
    let cluster = flags.connect().await?;
    cluster.can_list::<Pod>(flags.namespace.as_deref()).await?;

    let mut factory = InformerFactory::new(cluster.client.clone());
    if let Some(namespace) = &flags.namespace {
        factory = factory.namespace(namespace);
    }
    let pods = factory.informer::<Pod>()?;
    let queue = WorkQueue::<ObjectKey>::new();
    let adding = queue.clone();
    // A deleted Pod is queued too: the worker finds out from the cache that it is gone.
    pods.on(move |event| adding.add(event.key().clone()));
    factory.start();
    // Workers begin once the cache is full: "not found" then means "deleted".
    factory.wait_for_sync(Duration::from_secs(30)).await?;

    let workers: Vec<_> =
        (0..WORKERS).map(|number| tokio::spawn(work(number, queue.clone(), pods.lister()))).collect();
    flags.life.over().await;

    factory.shutdown().await;
    queue.shutdown_with_drain().await;
    for worker in workers {
        worker.await?;
    }
    println!("the queue is empty: {}", queue.is_empty());
    cluster.close().await;
    Ok(())
}

/// Takes keys until the queue is shut down and empty.
async fn work(number: usize, queue: WorkQueue<ObjectKey>, pods: Lister<Pod>) {
    while let Some(key) = queue.get().await {
        match act(&pods, &key) {
            Ok(done) => {
                println!("worker {number}: {} {done}", *key);
                key.forget(); // the next failure of this key starts over with a short delay
            }
            Err(problem) if key.num_requeues() < MAX_RETRIES => {
                println!("worker {number}: {} {problem}, again later", *key);
                key.retry();
            }
            Err(problem) => {
                println!("worker {number}: {} {problem}, given up after {MAX_RETRIES} retries", *key);
                key.forget();
            }
        }
    }
}

/// What a controller would do: here it only says what it sees.
fn act(pods: &Lister<Pod>, key: &ObjectKey) -> Result<String, &'static str> {
    let Some(pod) = pods.get_by_key(key) else {
        return Ok("is gone".to_owned());
    };
    match pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
        Some(node) => Ok(format!("runs on {node}")),
        None => Err("has no node yet"),
    }
}

//! Tests of reconciles that run while their slot moves to another process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_operator::{Action, Controller, Failure, Manager, ManagerOptions, Request, ShardOptions};
use kube_testserver::Server;
use tokio::time::sleep;

use super::shards::{NAMESPACES, Process, SECOND, client, create, run, server, wait_until};

/// The started and the completed reconciles of a process.
#[derive(Default)]
struct Counts {
    started: AtomicUsize,
    completed: AtomicUsize,
}

impl Counts {
    fn running(&self) -> usize {
        self.started.load(Relaxed) - self.completed.load(Relaxed)
    }
}

/// Starts a process with reconciles that need 10 s. This is longer than the slots wait before they move.
fn start(server: &Server) -> (Process, Arc<Counts>) {
    let shards = ShardOptions::new("default", "operator");
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    let mut manager = Manager::new(client(server), options).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let counts = Arc::new(Counts::default());
    let counted = Arc::clone(&counts);
    let reconcile = move |_: Request<ConfigMap>| {
        let counts = Arc::clone(&counted);
        async move {
            counts.started.fetch_add(1, Relaxed);
            sleep(10 * SECOND).await;
            counts.completed.fetch_add(1, Relaxed);
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(200), reconcile);
    (run(manager), counts)
}

/// A process does not release a slot while a reconcile of the slot runs. The reconcile is not dropped.
#[tokio::test(start_paused = true)]
async fn running_reconciles_complete_before_their_slots_move() {
    let server = server();
    let (first, first_counts) = start(&server);
    wait_until(|| first_counts.completed.load(Relaxed) == NAMESPACES).await;
    let (second, second_counts) = start(&server);
    // When the slots are about to move, reconciles start.
    wait_until(|| !second.slots.wanted().is_empty()).await;
    sleep(4 * SECOND).await;
    (0..NAMESPACES).for_each(|namespace| create(&server, namespace, "second"));
    wait_until(|| first_counts.running() == NAMESPACES).await;
    assert_eq!(first.slots.get().len(), 64, "no slot has moved");
    wait_until(|| second.slots.get().len() == 32).await;
    wait_until(|| second_counts.completed.load(Relaxed) > 0).await;
    assert_eq!(first_counts.completed.load(Relaxed), 2 * NAMESPACES, "no reconcile was dropped");
    first.task.abort();
    second.task.abort();
}

//! Tests that the status can be read while the initial list is applied.

use std::{sync::mpsc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{Informer, ListWatch};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The list is applied under the locks that `status` needs. The index function waits for some time, so
/// that `status` runs while the locks are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_during_first_list_does_not_deadlock() {
    let server = Server::new();
    let metadata = json!({"name": "a", "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    let api = Api::<ConfigMap>::all(Client::new(server.service(), "default"));
    let informer = Informer::from_source(ListWatch::<ConfigMap>::new(api)).build();
    let (entered, is_entered) = mpsc::channel();
    let (_never_sent, message) = mpsc::channel::<()>();
    let message = Mutex::new(message);
    let index = move |_: &ConfigMap| {
        let _ = entered.send(());
        let _ = message.lock().recv_timeout(Duration::from_millis(300));
        Some(1u8)
    };
    informer.add_index("slow", index).unwrap();
    informer.start();
    let reader = informer.clone();
    let (read, is_read) = mpsc::channel();
    std::thread::spawn(move || {
        is_entered.recv_timeout(TIMEOUT).expect("the list is applied");
        let _ = read.send(reader.status().to_string());
    });
    let status = tokio::task::spawn_blocking(move || is_read.recv_timeout(TIMEOUT)).await.unwrap();
    assert!(status.is_ok(), "status() did not return");
    informer.wait_for_sync(TIMEOUT).await.unwrap();
    assert!(informer.status().synced);
    informer.stop().await;
}

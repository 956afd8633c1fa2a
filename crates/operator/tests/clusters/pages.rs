//! Readiness, debug pages and metrics with many clusters.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::*;

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Repeats a request until the response contains all texts.
pub(super) async fn get_until(address: SocketAddr, path: &str, expected: &[&str]) {
    let last = Mutex::new(String::new());
    let found = async {
        loop {
            *last.lock() = get(address, path).await;
            if expected.iter().all(|text| last.lock().contains(text)) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let found = timeout(30 * SECOND, found).await;
    assert!(found.is_ok(), "{path} never contained {expected:?}:\n{}", last.lock());
}

#[tokio::test]
async fn pages_contain_clusters_and_bad_cluster_does_not_fail_readiness() {
    let address = Some(([127, 0, 0, 1], 0).into());
    let mut world =
        World::with_options(ManagerOptions { bind_address: address, ..ManagerOptions::default() });
    let address = world.manager.local_address().unwrap();
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>());
    world.manager.add_cluster_controller(controller, |request: ClusterRequest<ConfigMap>| async move {
        request.cluster.event_recorder("example.com/test")?;
        Ok::<_, Failure>(Action::Done)
    });
    let running = world.run().await;
    get_until(address, "/readyz", &["503", "[-] clusters: waiting for the clusters of the provider\n"]).await;
    let (bad, slow, good) = (server("bad"), server("slow"), server("good"));
    let forbidden = Fault::Forbidden { user: "operator".to_owned() };
    let _fails = bad.faults().always(RequestMatch::any(), forbidden);
    let hangs = slow.faults().always(RequestMatch::any(), Fault::unavailable());
    for (name, server) in [("bad", &bad), ("good", &good), ("slow", &slow)] {
        running.engage(name, server);
    }
    running.set.reject(&name("broken"), "the kubeconfig is not valid");
    running.set.initialized();
    let starting = "[-] clusters: waiting for the caches of 1 clusters, for example slow\n";
    get_until(address, "/readyz", &["503", starting]).await;
    drop(hangs);
    let lines = [
        "200 OK",
        "[+] clusters: ok\n",
        "[+] cluster bad: failing: informer ConfigMap /api/v1/configmaps: ",
        "[+] cluster broken: failing: the kubeconfig is not valid\n",
        "[+] cluster good: synced; informers: 1; objects: 1\n",
    ];
    get_until(address, "/readyz", &lines).await;
    let lines = [
        "clusters{state=\"synced\"} 2.0\n",
        "clusters{state=\"failing\"} 2.0\n",
        "cluster_failing{cluster=\"bad\"} 1.0\n",
        "cluster_failing{cluster=\"good\"} 0.0\n",
        "informer_objects{cluster=\"good\",informer=\"ConfigMap /api/v1/configmaps\"} 1.0\n",
        "informer_synced{cluster=\"bad\",informer=\"ConfigMap /api/v1/configmaps\"} 0.0\n",
    ];
    get_until(address, "/metrics", &lines).await;
    get_until(address, "/debug/clusters", &["\"name\": \"bad\"", "\"state\": \"synced\"", "403"]).await;
    get_until(address, "/debug/informers", &["\"cluster\": \"good\""]).await;
    get_until(address, "/debug/why/configmap/good/default/web", &["\"key\": \"good/default/web\""]).await;
    get_until(address, "/ui/clusters", &["good", "Synced", "broken", "the kubeconfig is not valid"]).await;
    get_until(address, "/ui/caches", &["good: ConfigMap", "bad: ConfigMap", "403"]).await;
    get_until(address, "/ui/key/configmap/good/default/web", &["Succeeded"]).await;
    let lines = [
        "cluster_reconciles_total{controller=\"configmap\",cluster=\"good\",result=\"success\"} 1\n",
        "cluster_reconciles_total{controller=\"configmap\",cluster=\"good\",result=\"error\"} 0\n",
        "cluster_reconcile_seconds_total{controller=\"configmap\",cluster=\"good\"} ",
        "event_recorder_waiting{cluster=\"good\",controller=\"example.com/test\"} 0.0\n",
        "event_recorder_events_total{cluster=\"good\",controller=\"example.com/test\",result=\"sent\"} 0\n",
    ];
    get_until(address, "/metrics", &lines).await;
    let events = get(address, "/debug/events").await;
    assert!(events.contains("\"cluster\": \"good\"") && events.contains("\"cluster\": \"slow\""), "{events}");
    running.set.disengage(&name("good"));
    get_until(address, "/metrics", &["clusters{state=\"synced\"} 1.0\n"]).await;
    let metrics = get(address, "/metrics").await;
    assert!(metrics.contains("cluster=\"slow\"") && !metrics.contains("cluster=\"good\""), "{metrics}");
    assert!(!get(address, "/debug/events").await.contains("\"good\""));
    running.stop().await;
}

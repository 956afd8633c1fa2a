//! Tests of `rate_limited` with a test server, under a paused clock.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube_client::{Api, Client};
use kube_operator::{informer::InformerFactory, rate_limited};
use kube_testserver::{Server, Verb};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

const MILLIS: Duration = Duration::from_millis(1);

/// A server and a client with 10 requests per second.
fn limited(burst: u32) -> (Server, Client) {
    let server = Server::new();
    let client = rate_limited(Client::new(server.service(), "default"), 10.0, burst);
    (server, client)
}

async fn get(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn burst_is_sent_at_once_and_later_requests_in_order() {
    let (_server, client) = limited(3);
    let (start, sent) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let requests = (0..6).map(|number| {
        let (client, sent) = (client.clone(), Arc::clone(&sent));
        async move {
            get(&client).await;
            sent.lock().push((number, start.elapsed().as_millis() / 100));
        }
    });
    join_all(requests).await;
    assert_eq!(*sent.lock(), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 3)]);

    sleep(Duration::from_secs(60)).await;
    let start = Instant::now();
    join_all((0..4).map(|_| get(&client))).await;
    assert_eq!(start.elapsed().as_millis() / 100, 1, "an idle client gains at most a burst");
}

#[tokio::test(start_paused = true)]
async fn dropped_request_is_not_sent_and_does_not_count() {
    let (server, client) = limited(1);
    get(&client).await;
    let mark = server.journal().mark();
    let start = Instant::now();
    let first = tokio::spawn({
        let client = client.clone();
        async move { timeout(50 * MILLIS, get(&client)).await }
    });
    let second = tokio::spawn({
        let client = client.clone();
        async move { timeout(20 * MILLIS, get(&client)).await }
    });
    tokio::task::yield_now().await;
    get(&client).await;
    assert_eq!(start.elapsed().as_millis() / 100, 1, "the third request is sent at the first free time");
    assert!(first.await.unwrap().is_err() && second.await.unwrap().is_err());
    assert_eq!(server.journal().count_since(mark, |_| true), 1);
}

#[tokio::test(start_paused = true)]
async fn clones_share_the_limit_and_leases_are_not_limited() {
    let (_server, client) = limited(1);
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let start = Instant::now();
    get(&client).await;
    for _ in 0..10 {
        assert!(leases.get_opt("a").await.unwrap().is_none());
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    get(&client.clone()).await;
    assert_eq!(start.elapsed().as_millis() / 100, 1);
}

#[tokio::test(start_paused = true)]
async fn watch_counts_when_it_starts() {
    let (_server, client) = limited(2);
    let factory = InformerFactory::new(client.clone());
    let pods = factory.informer::<Pod>().unwrap();
    factory.start();
    pods.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    let start = Instant::now();
    get(&client).await;
    get(&client).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "the open watch takes no token");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rate_that_is_not_positive_is_no_limit() {
    for qps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let server = Server::new();
        let mark = server.journal().mark();
        let client = rate_limited(Client::new(server.service(), "default"), qps, 1);
        let start = Instant::now();
        for _ in 0..100 {
            get(&client).await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "{qps}");
        assert_eq!(server.journal().count_since(mark, |request| request.info.verb == Verb::Get), 100);
    }
    let server = Server::new();
    let client = rate_limited(Client::new(server.service(), "default"), 1e-300, 0);
    get(&client).await;
    assert!(timeout(Duration::from_secs(1_000_000), get(&client)).await.is_err());
}

//! Measures the cost of an idle informer, as the number of wake-ups of its runtime.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_informer::InformerFactory;
use kube_testserver::Server;
use serde_json::json;
use tokio::runtime::Handle;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the wake-ups of an informer with `objects` objects, and of its server, in an idle hour.
async fn wakeups(objects: usize) -> u64 {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for number in 0..objects {
        let map = serde_json::from_value(json!({"metadata": {"name": format!("m-{number}")}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let factory = InformerFactory::new(client);
    let informer = factory.informer::<ConfigMap>().unwrap();
    let _registration = informer.on_event(|_| ());
    factory.start();
    factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    assert_eq!(informer.lister().len(), objects);
    let before = Handle::current().metrics().worker_park_count(0);
    tokio::time::sleep(HOUR).await;
    let after = Handle::current().metrics().worker_park_count(0);
    factory.shutdown().await;
    after - before
}

/// An idle hour has a bookmark per minute, and a new watch every five to ten minutes. A bookmark or
/// a watch causes a few wake-ups, including the wake-ups of the server. A timer of one second would
/// cause 3600 wake-ups.
#[tokio::test(start_paused = true)]
async fn idle_informer_wakes_only_for_bookmarks_and_timeouts() {
    for objects in [1, 1000] {
        let wakeups = wakeups(objects).await;
        assert!((60..600).contains(&wakeups), "{wakeups} with {objects} objects");
    }
}

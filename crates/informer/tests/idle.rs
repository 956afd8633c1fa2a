//! An informer whose objects don't change costs nothing: how often its runtime wakes up, with everything that is in it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_informer::InformerFactory;
use kube_testserver::Server;
use serde_json::json;
use tokio::runtime::Handle;

const HOUR: Duration = Duration::from_secs(3600);

/// How often an informer of so many objects, and its server, wake up in an hour in which nothing happens.
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
    let _detached = informer.on_event(|_| ());
    factory.start();
    factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    assert_eq!(informer.lister().len(), objects);
    let before = Handle::current().metrics().worker_park_count(0);
    tokio::time::sleep(HOUR).await;
    let after = Handle::current().metrics().worker_park_count(0);
    factory.shutdown().await;
    after - before
}

/// A bookmark a minute, and a watch that ends and is opened again every five to ten minutes, are what an idle hour has.
/// Each of them takes a few turns of the runtime, the server's included; something that ticks each second would take 3600.
#[tokio::test(start_paused = true)]
async fn idle_informer_wakes_only_for_bookmarks_and_timeouts() {
    for objects in [1, 1000] {
        let wakeups = wakeups(objects).await;
        assert!((60..600).contains(&wakeups), "{wakeups} with {objects} objects");
    }
}

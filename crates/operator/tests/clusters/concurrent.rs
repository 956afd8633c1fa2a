//! Clusters, handlers, indexes and objects that change on several threads.

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::spin_loop,
};

use kube_informer::Event;
use kube_operator::ClusterInformer;
use tokio::{task::yield_now, time::timeout};

use super::*;

const CLUSTERS: usize = 8;
const ROUNDS: usize = 400;

/// The time limit of the test, which is reached only in a deadlock.
const TIME_LIMIT: Duration = Duration::from_secs(120);

type Seen = Arc<Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>>;

/// Adds a handler that records the objects of each cluster.
fn record_objects(maps: &ClusterInformer<ConfigMap>) -> (Seen, impl Drop + use<>) {
    let seen = Seen::default();
    let recorded = Arc::clone(&seen);
    let registration = maps.add_handler(move |cluster, event: &Event<ConfigMap>| {
        let mut seen = recorded.lock();
        let of_cluster = seen.entry(cluster.name().to_string()).or_default();
        match event {
            Event::Deleted { .. } => _ = of_cluster.remove(event.key()),
            _ => _ = of_cluster.insert(event.key().clone()),
        }
        seen.retain(|_, keys| !keys.is_empty());
    });
    (seen, registration)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_on_several_threads_do_not_deadlock_or_lose_events() {
    let mut world = World::new();
    let maps = world.clusters.informer::<ConfigMap>();
    let (seen, _registration) = record_objects(&maps);
    let _record = add_recorder(&mut world);
    let running = world.run().await;
    let servers: Vec<_> = (0..CLUSTERS).map(|number| (format!("c{number}"), server("1"))).collect();

    let of_index = maps.clone();
    let changes = async {
        let mut random = fastrand::Rng::with_seed(1);
        let toggles = async {
            for round in 0..ROUNDS {
                let (name, server) = &servers[random.usize(0..CLUSTERS)];
                match round % 3 {
                    0 => running.set.disengage(&super::name(name)),
                    _ => running.engage(name, server),
                }
                yield_now().await;
            }
        };
        let objects = async {
            for round in 0..ROUNDS {
                let (_, server) = &servers[round % CLUSTERS];
                server.create(&map(&format!("map-{round}"), "2")).unwrap();
                yield_now().await;
            }
        };
        tokio::join!(toggles, objects);
    };
    let handlers = tokio::spawn(async move {
        // An index function runs under a lock of its informer, and may read the clusters.
        let read = of_index.clone();
        let index = of_index.add_index("count", move |_: &ConfigMap| [read.informers().len()]).unwrap();
        for _ in 0..ROUNDS {
            let registration = of_index.add_handler(|_, _: &Event<ConfigMap>| spin_loop());
            let _found = (index.keys(&1), of_index.keys());
            registration.remove().await;
        }
    });
    timeout(TIME_LIMIT, changes).await.expect("the changes complete");
    timeout(TIME_LIMIT, handlers).await.expect("the handlers are removed").unwrap();

    // Every second cluster leaves, and the others are engaged.
    for (number, (name, server)) in servers.iter().enumerate() {
        running.set.disengage(&super::name(name));
        if number % 2 == 0 {
            running.engage(name, server);
        }
    }
    let expected = || {
        let kept = servers.iter().step_by(2);
        let keys = |server: &Server| {
            let list = server.list_untyped("v1", "ConfigMap", Some("default")).unwrap();
            let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
            list.iter().map(|object| ObjectKey::new(Some("default"), &name(object))).collect()
        };
        kept.map(|(name, server)| (name.clone(), keys(server))).collect::<BTreeMap<String, BTreeSet<_>>>()
    };
    let converged = async {
        while *seen.lock() != expected() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(TIME_LIMIT, converged).await.is_ok(), "{:?}", seen.lock());
    running.stop().await;
}

//! Tests of metrics that depend on time, without pages.

use kube_operator::prometheus_client::{encoding::text, registry::Registry};

use super::*;

fn encoded(registry: &Registry) -> String {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry).unwrap();
    encoded
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_of_the_leader_are_counted() {
    let world = World::without_pages(Some(election("a")));
    let mut registry = Registry::default();
    world.manager.register_metrics(&mut registry);
    let failed = |count| format!("leader_election_slowpath_total{{name=\"operator\"}} {count}\n");
    let leadership = world.manager.leadership();
    let (server, stop, running) = world.run();
    leadership.acquired().await;
    sleep(60 * SECOND).await;
    assert!(encoded(&registry).contains(&failed(0)), "{}", encoded(&registry));
    let unavailable = RequestMatch::verb(Verb::Update).resource("leases");
    server.faults().times(2, &unavailable, &Fault::unavailable());
    sleep(60 * SECOND).await;
    assert!(encoded(&registry).contains(&failed(2)), "{}", encoded(&registry));
    assert!(leadership.is_leader());
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn depth_distinguishes_initial_objects_from_changes() {
    let mut world = World::without_pages(None);
    for name in ["a", "b", "c"] {
        world.create(name).await;
    }
    let gate = Arc::new(Notify::new());
    let controller = world.controller();
    let waiting = Arc::clone(&gate);
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        let gate = Arc::clone(&waiting);
        async move {
            gate.notified().await;
            Ok::<_, Failure>(Action::Done)
        }
    });
    let mut registry = Registry::default();
    world.manager.register_metrics(&mut registry);
    let client = world.client.clone();
    let (_server, stop, running) = world.run();
    sleep(SECOND).await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let late = serde_json::from_value(json!({"metadata": {"name": "late"}})).unwrap();
    api.create(&PostParams::default(), &late).await.unwrap();
    sleep(SECOND).await;
    let encoded = encoded(&registry);
    for (priority, keys) in [("0", "1.0"), ("-100", "2.0")] {
        let labels = format!("name=\"configmap\",controller=\"configmap\",priority=\"{priority}\"");
        let line = format!("workqueue_depth{{{labels}}} {keys}\n");
        assert!(encoded.contains(&line), "{line} is missing in\n{encoded}");
    }
    stop.cancel();
    for _ in 0..4 {
        gate.notify_one();
        sleep(SECOND).await;
    }
    running.await.unwrap().unwrap();
}

/// The delays of the default rate limiter double from 5 ms, so the tenth failure is after 2.6 s.
#[tokio::test(start_paused = true)]
async fn key_that_fails_at_each_retry_is_counted() {
    let mut world = World::without_pages(None);
    for name in ["fails", "ends", "works"] {
        world.create(name).await;
    }
    let controller = world.controller();
    world.manager.add_controller(controller, |request: Request<ConfigMap>| async move {
        match request.key.name() {
            "fails" => Err(Failure::from("no")),
            "ends" => Err(Failure::terminal("no")),
            _ => Ok(Action::Done),
        }
    });
    let mut registry = Registry::default();
    world.manager.register_metrics(&mut registry);
    let failing = |keys| format!("reconcile_failing_keys{{controller=\"configmap\"}} {keys}\n");
    let (_server, stop, running) = world.run();
    sleep(2 * SECOND).await;
    assert!(encoded(&registry).contains(&failing("0.0")), "{}", encoded(&registry));
    sleep(2 * SECOND).await;
    assert!(encoded(&registry).contains(&failing("1.0")), "{}", encoded(&registry));
    stop.cancel();
    running.await.unwrap().unwrap();
}

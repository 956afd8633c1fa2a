//! Clusters that leave and return.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use kube_informer::{Event, Removal};

use super::*;

/// Adds a handler that records the events of all clusters.
fn record_events(world: &World) -> (Record, impl Drop + use<>) {
    let record = Record::default();
    let events = Arc::clone(&record);
    let registration =
        world.clusters.informer::<ConfigMap>().add_handler(move |cluster, event: &Event<ConfigMap>| {
            let text = match event {
                Event::Added { initial: true, .. } => "listed",
                Event::Added { .. } => "added",
                Event::Updated { .. } => "updated",
                Event::Deleted { removal: Removal::Left, .. } => "left",
                Event::Deleted { .. } => "deleted",
            };
            events.lock().push(format!("{}/{} {text}", cluster.name(), event.key()));
        });
    (record, registration)
}

#[tokio::test(start_paused = true)]
async fn cluster_that_leaves_and_returns_starts_from_scratch() {
    let mut world = World::new();
    let (events, _registration) = record_events(&world);
    let states = Record::default();
    let (engaged, disengaged) = (Arc::clone(&states), Arc::clone(&states));
    world.clusters.on_engage(move |cluster| engaged.lock().push(format!("{} engaged", cluster.name())));
    world.clusters.on_disengage(move |cluster| disengaged.lock().push(format!("{} left", cluster.name())));
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>());
    let failures = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&failures);
    world.manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        recorded.lock().push((request.cluster.name().to_string(), request.failures));
        async { Err::<Action, Failure>("always".into()) }
    });
    let clusters = world.clusters.clone();
    let running = world.run().await;
    let (east, west) = (server("east"), server("west"));
    running.engage("east", &east);
    running.engage("west", &west);
    sleep(60 * SECOND).await;
    let count = |name: &str| failures.lock().iter().filter(|(cluster, _)| cluster == name).count();
    assert!(count("east") > 10, "{failures:?}");
    assert_eq!(take(&events), ["east/default/web listed", "west/default/web listed"]);
    assert_eq!(take(&states), ["east engaged", "west engaged"]);

    running.set.disengage(&name("east"));
    sleep(SECOND).await;
    assert_eq!(
        (take(&events), take(&states)),
        (vec!["east/default/web left".to_owned()], vec!["east left".to_owned()])
    );
    assert!(clusters.get("east").is_none());
    failures.lock().clear();
    sleep(3000 * SECOND).await;
    assert_eq!(count("east"), 0, "the retries are removed");
    assert!(count("west") > 0);
    let requests = east.journal().requests().len();
    sleep(3000 * SECOND).await;
    assert_eq!(east.journal().requests().len(), requests, "the informers have stopped");

    failures.lock().clear();
    running.engage("east", &east);
    sleep(60 * SECOND).await;
    let of_east: Vec<u32> =
        failures.lock().iter().filter(|(name, _)| name == "east").map(|(_, n)| *n).collect();
    assert!(
        of_east.len() > 10 && of_east[..3] == [0, 1, 2],
        "the number of failures is forgotten: {of_east:?}"
    );
    assert_eq!(take(&events), ["east/default/web listed"]);
    running.stop().await;
}

/// A handler is attached before the informers start, and observes the initial list.
#[tokio::test(start_paused = true)]
async fn handlers_are_attached_before_the_caches_start() {
    let mut world = World::new();
    // A started informer has tasks.
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&before);
    world.clusters.on_engage(move |_| counted.store(tasks(), SeqCst));
    let _reconciled = add_recorder(&mut world);
    let (events, _registration) = record_events(&world);
    let engaged = Record::default();
    let recorded = Arc::clone(&engaged);
    world.clusters.on_engage(move |cluster| {
        let (informers, started) = (cluster.factory().status(), tasks() - before.load(SeqCst));
        let handlers = informers[0].handlers.len();
        recorded.lock().push(format!("{} informers, {handlers} handlers, {started} tasks", informers.len()));
    });
    let clusters = world.clusters.clone();
    let running = world.run().await;
    running.engage("east", &server("1"));
    sleep(SECOND).await;
    assert_eq!(take(&engaged), ["1 informers, 2 handlers, 0 tasks"]);
    let late = Arc::clone(&engaged);
    clusters.on_engage(move |cluster| late.lock().push(cluster.name().to_string()));
    assert_eq!(take(&engaged), ["east"], "the cluster is already engaged");
    assert_eq!(take(&events), ["east/default/web listed"]);
    running.stop().await;
}

/// A running reconcile may complete. If it takes too long, it is dropped, and the cluster can return.
#[tokio::test(start_paused = true)]
async fn running_reconcile_is_dropped_some_seconds_after_its_cluster_left() {
    let mut world = World::new();
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>()).concurrency(2);
    let ended = Record::default();
    let (recorded, started) = (Arc::clone(&ended), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&started);
    let left = Arc::clone(&ended);
    world.clusters.on_disengage(move |cluster| left.lock().push(format!("{} left", cluster.name())));
    world.manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        count.fetch_add(1, SeqCst);
        let ended = Arc::clone(&recorded);
        async move {
            let seconds = says(&request.object.present().unwrap()).parse()?;
            sleep(Duration::from_secs(seconds)).await;
            ended.lock().push(request.key.to_string());
            Err::<Action, Failure>("too late".into())
        }
    });
    let running = world.run().await;
    let east = Server::new();
    east.create(&map("short", "4")).unwrap();
    east.create(&map("long", "40")).unwrap();
    running.engage("east", &east);
    sleep(SECOND).await;
    running.set.disengage(&name("east"));
    running.engage("east", &east);
    sleep(4 * SECOND).await;
    assert_eq!((take(&ended), started.load(SeqCst)), (vec!["default/short".to_owned()], 2));
    sleep(3 * SECOND).await;
    let expected = (vec!["east left".to_owned()], 4);
    assert_eq!(
        (take(&ended), started.load(SeqCst)),
        expected,
        "the cluster has returned after its last reconcile"
    );
    running.stop().await;
}

/// Only the latest wish of the provider counts, and the engagements of a name do not overlap.
#[tokio::test(start_paused = true)]
async fn cluster_that_is_replaced_leaves_first() {
    let mut world = World::new();
    let record = add_recorder(&mut world);
    let (events, _registration) = record_events(&world);
    let running = world.run().await;
    running.engage("east", &server("1"));
    sleep(SECOND).await;
    for says in ["2", "3", "4"] {
        running.engage("east", &server(says));
    }
    sleep(SECOND).await;
    assert_eq!(take(&record), ["east/default/web: 1", "east/default/web: 4"]);
    assert_eq!(*events.lock(), ["listed", "left", "listed"].map(|text| format!("east/default/web {text}")));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn manager_stops_without_deletes_and_while_a_cluster_hangs() {
    let mut world = World::new();
    let record = add_recorder(&mut world);
    let (events, _registration) = record_events(&world);
    let clusters = world.clusters.clone();
    let running = world.run().await;
    let (bad, good) = (server("bad"), server("good"));
    let _hangs = bad.faults().always(RequestMatch::any(), Fault::Hang);
    running.engage("bad", &bad);
    running.engage("good", &good);
    sleep(SECOND).await;
    running.stop().await;
    assert_eq!((take(&record).len(), take(&events)), (1, vec!["good/default/web listed".to_owned()]));
    assert!(clusters.list().is_empty());
    let requests = good.journal().requests().len();
    sleep(3000 * SECOND).await;
    assert_eq!(good.journal().requests().len(), requests);
}

/// An event of the last reconcile is written, and the recorder stops with its cluster.
#[tokio::test(start_paused = true)]
async fn events_are_written_to_the_cluster_of_the_object() {
    let mut world = World::new();
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>());
    world.manager.add_cluster_controller(controller, |request: ClusterRequest<ConfigMap>| async move {
        let Some(map) = request.object.present() else { return Ok(Action::AwaitChange) };
        sleep(3 * SECOND).await;
        let recorder = request.cluster.event_recorder("example.com/test")?;
        recorder.event(
            &*map,
            kube_operator::EventType::Normal,
            "Seen",
            "Read",
            request.cluster.name().as_str(),
        );
        Ok::<_, Failure>(Action::Done)
    });
    let running = world.run().await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let servers = ["east", "west"].map(|name| (name, server(name)));
    servers.iter().for_each(|(name, server)| running.engage(name, server));
    sleep(SECOND).await;
    running.set.disengage(&name("east"));
    sleep(20 * SECOND).await;
    for (name, server) in &servers {
        let events = server.list_untyped("events.k8s.io/v1", "Event", Some("default")).unwrap();
        let notes: Vec<_> = events.iter().map(|event| event["note"].as_str().unwrap()).collect();
        assert_eq!(notes, [*name]);
    }
    running.set.disengage(&name("west"));
    sleep(20 * SECOND).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks);
    running.stop().await;
}

/// A program may keep a `Cluster`, which keeps its informers in memory.
#[tokio::test(start_paused = true)]
async fn dropped_manager_stops_the_informers_of_clusters() {
    let mut world = World::new();
    let record = add_recorder(&mut world);
    let clusters = world.clusters.clone();
    let running = world.run().await;
    let east = server("east");
    running.engage("east", &east);
    sleep(SECOND).await;
    let cluster = clusters.get("east").unwrap();
    running.manager.abort();
    sleep(SECOND).await;
    assert!(cluster.is_disengaged() && clusters.list().is_empty());
    let requests = east.journal().requests().len();
    east.create(&map("late", "1")).unwrap();
    sleep(3000 * SECOND).await;
    assert_eq!((take(&record).len(), east.journal().requests().len()), (1, requests));
}

//! A process loses leadership and becomes leader again.

use super::*;

const LEASE: &str = "operator";

/// Sets the holder of the lease.
fn hold(server: &Server, holder: Option<&str>) {
    let version = "coordination.k8s.io/v1";
    let spec = json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
    server.patch_untyped(version, "Lease", Some("default"), LEASE, &spec).unwrap();
}

/// Otherwise a reconcile of the first term could write stale state in the second term.
#[tokio::test(start_paused = true)]
async fn lost_term_drops_reconcile_and_stops_controller() {
    let world = World::new();
    world.create("a", "1").await;
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: LEASE.to_owned(),
        identity: "first".to_owned(),
        times: LeaseTimes::default(),
    };
    let election = Election::new(world.client.clone(), options).unwrap();
    let leadership = election.leadership();
    let electing = tokio::spawn(election.run(world.stop.clone()));
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let reconcile = move |_: Request<ConfigMap>| {
        let count = Arc::clone(&count);
        async move {
            sleep(90 * SECOND).await;
            count.fetch_add(1, SeqCst);
            await_change().await
        }
    };
    let controller = Controller::new(&world.maps());
    let running = tokio::spawn(controller.run(reconcile, leadership.clone(), world.stop.clone()));
    assert!(leadership.acquired().await);
    sleep(SECOND).await;
    let cut = world.server.faults().always(RequestMatch::verb(Verb::Update).resource("leases"), Fault::Hang);
    leadership.lost().await;
    hold(&world.server, Some("second"));
    drop(cut);
    sleep(10 * SECOND).await;
    hold(&world.server, None);
    assert!(leadership.acquired().await);
    sleep(120 * SECOND).await;
    assert_eq!((running.is_finished(), ended.load(SeqCst)), (true, 0));
    world.stop.cancel();
    electing.await.unwrap();
    running.await.unwrap().unwrap();
    world.factory.shutdown().await;
}

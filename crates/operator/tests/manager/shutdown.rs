//! Tests of the shutdown: graceful stop, aborts and the release of the lease.

use parking_lot::Mutex;
use tokio::task::yield_now;

use super::*;

/// A controller whose reconciles never end. It records when the first reconcile starts and when it is
/// dropped.
struct StuckController {
    started: Arc<Notify>,
    dropped: Arc<Mutex<Option<Instant>>>,
}

/// Records when it is dropped.
struct DropTime(Arc<Mutex<Option<Instant>>>);

impl Drop for DropTime {
    fn drop(&mut self) {
        self.0.lock().get_or_insert(Instant::now());
    }
}

impl StuckController {
    fn add(world: &mut World) -> Self {
        let stuck = Self { started: Arc::default(), dropped: Arc::default() };
        let (started, dropped) = (Arc::clone(&stuck.started), Arc::clone(&stuck.dropped));
        let controller = world.controller();
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            let (started, drop_time) = (Arc::clone(&started), DropTime(Arc::clone(&dropped)));
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                drop(drop_time);
                Ok::<_, Failure>(Action::Done)
            }
        });
        stuck
    }

    fn dropped(&self) -> Option<Instant> {
        *self.dropped.lock()
    }
}

/// Adds a controller whose reconcile blocks its thread until the returned sender is dropped.
/// `block_in_place` lets the other tasks of the thread continue.
fn add_blocking_controller(world: &mut World) -> (Arc<Notify>, std::sync::mpsc::Sender<()>) {
    let started = Arc::new(Notify::new());
    let tell = Arc::clone(&started);
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        let _ended = tokio::task::block_in_place(|| blocked.lock().recv());
        async { Ok::<_, Failure>(Action::Done) }
    });
    (started, unblock)
}

fn lease_writes() -> RequestMatch {
    RequestMatch::verb(Verb::Update).resource("leases")
}

#[tokio::test(start_paused = true)]
async fn lease_is_released_after_running_reconcile_completes() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count, writer) = (Arc::clone(&started), Arc::clone(&ended), world.manager.client());
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        let (tell, count, writer) = (Arc::clone(&tell), Arc::clone(&count), writer.clone());
        async move {
            tell.notify_one();
            sleep(15 * SECOND).await;
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "last"}}))?;
            Api::default_namespaced(writer).create(&PostParams::default(), &map).await?;
            count.fetch_add(1, SeqCst);
            Ok::<_, Failure>(Action::Done)
        }
    });
    let (server, stop, running) = world.run();
    started.notified().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((ended.load(SeqCst), holder(&server)), (1, None));
    let writes = server.journal().requests().into_iter().filter(|request| {
        matches!(request.info.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    });
    let last: Vec<_> = writes.map(|request| request.info.resource).collect();
    assert!(last.ends_with(&["configmaps".to_owned(), "leases".to_owned()]), "{last:?}");
    assert_eq!(server.journal().unanswered(), 0, "no watch remains");
}

#[tokio::test(start_paused = true)]
async fn reconcile_past_grace_period_is_aborted_and_lease_expires() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let stuck = StuckController::add(&mut world);
    let (server, stop, running) = world.run();
    stuck.started.notified().await;
    let stopped_at = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(stuck.dropped().map(|at| (at - stopped_at).as_secs()), Some(20), "the grace period");
    assert_eq!(holder(&server).as_deref(), Some("first"), "a write may still be in flight");
}

/// The reconcile blocks its thread while the lease is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn blocked_reconcile_is_named_with_cause_of_shutdown() {
    let times =
        LeaseTimes { lease_duration: 3 * SECOND, renew_deadline: 2 * SECOND, retry_period: SECOND / 2 };
    let election = Some(ElectionOptions { times, ..election("first") });
    let mut world = World::without_pages(election);
    world.create("web").await;
    let (started, unblock) = add_blocking_controller(&mut world);
    let (server, _stop, running) = world.run();
    started.notified().await;
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    let error = running.await.unwrap().unwrap_err();
    let expected = "shutdown timed out; still running: configmap; cause of the shutdown: lost the lease default/operator: \
                    renewals failed: cannot write the Lease: no response within 1s; this process must exit";
    assert_eq!(error.to_string(), expected);
    drop(unblock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn blocked_reconcile_is_named_and_lease_is_kept() {
    let options = ManagerOptions {
        bind_address: None,
        election: Some(election("first")),
        graceful_shutdown_timeout: Duration::ZERO,
        ..ManagerOptions::default()
    };
    let mut world = World::new(options);
    world.create("web").await;
    let (started, unblock) = add_blocking_controller(&mut world);
    let (server, stop, running) = world.run();
    started.notified().await;
    stop.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ManagerError::ShutdownTimeout { still_running, cause: None } if *still_running == ["configmap"]),
        "{error}"
    );
    assert_eq!(holder(&server).as_deref(), Some("first"));
    drop(unblock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn blocked_informer_handler_does_not_block_the_shutdown() {
    let options = ManagerOptions {
        bind_address: None,
        graceful_shutdown_timeout: Duration::ZERO,
        ..ManagerOptions::default()
    };
    let world = World::new(options);
    world.create("web").await;
    let started = Arc::new(Notify::new());
    let tell = Arc::clone(&started);
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let _registered = world.manager.factory().informer::<ConfigMap>().unwrap().on_event(move |_| {
        tell.notify_one();
        let _ended = blocked.recv();
    });
    let (_, stop, running) = world.run();
    started.notified().await;
    stop.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "shutdown timed out; still running: an informer handler");
    drop(unblock);
}

#[tokio::test(start_paused = true)]
async fn lost_lease_stops_manager_without_another_election() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let (stuck, leadership) = (StuckController::add(&mut world), world.manager.leadership());
    let (server, _stop, running) = world.run();
    stuck.started.notified().await;
    let cut_off = Instant::now();
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    leadership.lost().await;
    let expired = Instant::now();
    assert!(expired <= cut_off + 10 * SECOND, "the renew deadline");
    yield_now().await;
    let asked = server.journal().requests().len();
    let error = running.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ManagerError::LeadershipLost { lease, .. } if lease == "default/operator"),
        "{error}"
    );
    assert_eq!(stuck.dropped(), Some(expired), "the reconcile was dropped when the lease expired");
    let leases = |request: &kube_testserver::Request| request.info.resource == "leases";
    let later = server.journal().requests().into_iter().skip(asked).filter(leases).count();
    assert_eq!((later, leadership.is_leader()), (0, false), "no further request for the Lease");
}

#[tokio::test(start_paused = true)]
async fn lease_lost_during_grace_period_drops_reconciles() {
    let options = ManagerOptions {
        bind_address: None,
        election: Some(election("first")),
        graceful_shutdown_timeout: 3600 * SECOND,
        ..ManagerOptions::default()
    };
    let mut world = World::new(options);
    world.create("web").await;
    let (stuck, leadership) = (StuckController::add(&mut world), world.manager.leadership());
    let (server, stop, running) = world.run();
    stuck.started.notified().await;
    stop.cancel();
    sleep(60 * SECOND).await;
    assert!(leadership.is_leader(), "the lease is renewed during the grace period");
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    leadership.lost().await;
    let expired = Instant::now();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::LeadershipLost { .. }), "{error}");
    assert_eq!(stuck.dropped(), Some(expired));
}

#[tokio::test(start_paused = true)]
async fn tasks_stop_after_the_controllers() {
    let mut world = World::without_pages(None);
    world.create("web").await;
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count) = (Arc::clone(&started), Arc::clone(&ended));
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        let (tell, count) = (Arc::clone(&tell), Arc::clone(&count));
        async move {
            tell.notify_one();
            sleep(15 * SECOND).await;
            count.fetch_add(1, SeqCst);
            Ok::<_, Failure>(Action::Done)
        }
    });
    let count = Arc::clone(&ended);
    world.manager.add_task("events", RunsOn::EveryReplica, move |stop| async move {
        stop.cancelled().await;
        match count.compare_exchange(1, 2, SeqCst, SeqCst) {
            Ok(_) => Ok(()),
            Err(ended) => Err(Failure::from(format!("{ended} reconciles have ended"))),
        }
    });
    let (_, stop, running) = world.run();
    started.notified().await;
    stop.cancel();
    running.await.unwrap().expect("the task was stopped after the reconcile");
    assert_eq!(ended.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn task_failure_during_shutdown_is_returned() {
    let mut world = World::without_pages(None);
    world.manager.add_task("flush", RunsOn::EveryReplica, |stop| async move {
        stop.cancelled().await;
        Err(Failure::from("the disk is full"))
    });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    stop.cancel();
    assert_eq!(
        running.await.unwrap().unwrap_err().to_string(),
        "controller or task \"flush\" failed: the disk is full"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_manager_leaves_only_its_lease() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let stuck = StuckController::add(&mut world);
    let secrets = world.manager.factory().informer::<k8s_openapi::api::core::v1::Secret>().unwrap();
    let _registered = secrets.on_event(|_| {}); // the program still holds a registration
    let (server, _stop, running) = world.run();
    stuck.started.notified().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    sleep(SECOND).await;
    assert!(stuck.dropped().is_some());
    assert_eq!((server.journal().unanswered(), server.open_watches()), (0, 0));
    assert_eq!(holder(&server).as_deref(), Some("first"));
}

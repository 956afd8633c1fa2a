//! How an operator ends: what is waited for, what is dropped, and who may lead next.

use parking_lot::Mutex;
use tokio::task::yield_now;

use super::*;

/// A controller whose runs never end; it notes when the first begins, and when it is dropped.
struct Stuck {
    begun: Arc<Notify>,
    dropped: Arc<Mutex<Option<Instant>>>,
}

/// Notes when it is dropped.
struct Noted(Arc<Mutex<Option<Instant>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.lock().get_or_insert(Instant::now());
    }
}

impl Stuck {
    fn add(world: &mut World) -> Self {
        let stuck = Self { begun: Arc::default(), dropped: Arc::default() };
        let (begun, dropped) = (Arc::clone(&stuck.begun), Arc::clone(&stuck.dropped));
        let controller = world.controller();
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            let (begun, noted) = (Arc::clone(&begun), Noted(Arc::clone(&dropped)));
            async move {
                begun.notify_one();
                std::future::pending::<()>().await;
                drop(noted);
                Ok::<_, Failure>(Action::Done)
            }
        });
        stuck
    }

    fn dropped(&self) -> Option<Instant> {
        *self.dropped.lock()
    }
}

/// Blocks its thread until the answer is dropped; told when it does. `block_in_place` lets the others of the thread go on.
fn blocking(world: &mut World) -> (Arc<Notify>, std::sync::mpsc::Sender<()>) {
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let (go_on, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        let _ended = tokio::task::block_in_place(|| blocked.lock().recv());
        async { Ok::<_, Failure>(Action::Done) }
    });
    (begun, go_on)
}

fn lease_writes() -> Match {
    Match::verb(Verb::Update).resource("leases")
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_is_waited_for_and_the_lease_is_given_back_last() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count, writer) = (Arc::clone(&begun), Arc::clone(&ended), world.manager.client());
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
    begun.notified().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((ended.load(SeqCst), holder(&server)), (1, None));
    let writes = server.journal().requests().into_iter().filter(|request| {
        matches!(request.about.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    });
    let last: Vec<_> = writes.map(|request| request.about.resource).collect();
    assert!(last.ends_with(&["configmaps".to_owned(), "leases".to_owned()]), "{last:?}");
    assert_eq!(server.journal().unanswered(), 0, "no watch is left");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_dropped_and_the_lease_expires() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let stuck = Stuck::add(&mut world);
    let (server, stop, running) = world.run();
    stuck.begun.notified().await;
    let told = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(stuck.dropped().map(|at| (at - told).as_secs()), Some(20), "the grace");
    assert_eq!(holder(&server).as_deref(), Some("first"), "a write may still be on its way");
}

/// The thread is held for as long as the lease is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_run_that_can_t_be_dropped_is_named_with_what_the_manager_ends_for() {
    let times =
        LeaseTimes { lease_duration: 3 * SECOND, renew_deadline: 2 * SECOND, retry_period: SECOND / 2 };
    let election = Some(ElectionOptions { times, ..election("first") });
    let mut world = World::hidden(election);
    world.create("web").await;
    let (begun, go_on) = blocking(&mut world);
    let (server, _stop, running) = world.run();
    begun.notified().await;
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    let error = running.await.unwrap().unwrap_err();
    let words = "still at it when the grace was over: configmap; the manager ends since the lease default/operator could \
                 not be renewed in time: this process leads no more, and has to end";
    assert_eq!(error.to_string(), words);
    drop(go_on);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_run_that_can_t_be_dropped_is_named_and_the_lease_is_kept() {
    let options = ManagerOptions {
        bind_address: None,
        election: Some(election("first")),
        graceful_shutdown_timeout: Duration::ZERO,
        ..ManagerOptions::default()
    };
    let mut world = World::new(options);
    world.create("web").await;
    let (begun, go_on) = blocking(&mut world);
    let (server, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ManagerError::ShutdownTimeout { still_running, cause: None } if *still_running == ["configmap"]),
        "{error}"
    );
    assert_eq!(holder(&server).as_deref(), Some("first"));
    drop(go_on);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_holds_up_no_end() {
    let options = ManagerOptions {
        bind_address: None,
        graceful_shutdown_timeout: Duration::ZERO,
        ..ManagerOptions::default()
    };
    let world = World::new(options);
    world.create("web").await;
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let (go_on, blocked) = std::sync::mpsc::channel::<()>();
    let _registered = world.manager.factory().informer::<ConfigMap>().unwrap().on(move |_| {
        tell.notify_one();
        let _ended = blocked.recv();
    });
    let (_, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "still at it when the grace was over: a handler of an informer");
    drop(go_on);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lease_ends_at_once_and_takes_it_no_more() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let (stuck, leadership) = (Stuck::add(&mut world), world.manager.leadership());
    let (server, _stop, running) = world.run();
    stuck.begun.notified().await;
    let cut_off = Instant::now();
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    leadership.lost().await;
    let expired = Instant::now();
    assert!(expired <= cut_off + 10 * SECOND, "the renew deadline");
    yield_now().await;
    let asked = server.journal().requests().len();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::LeadershipLost(lease) if lease == "default/operator"), "{error}");
    assert_eq!(stuck.dropped(), Some(expired), "the run was dropped when the lease had expired");
    let leases = |request: &kube_testserver::Request| request.about.resource == "leases";
    let later = server.journal().requests().into_iter().skip(asked).filter(leases).count();
    assert_eq!((later, leadership.is_leader()), (0, false), "it asks for the lease no more");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_runs_are_waited_for_drops_them() {
    let options = ManagerOptions {
        bind_address: None,
        election: Some(election("first")),
        graceful_shutdown_timeout: 3600 * SECOND,
        ..ManagerOptions::default()
    };
    let mut world = World::new(options);
    world.create("web").await;
    let (stuck, leadership) = (Stuck::add(&mut world), world.manager.leadership());
    let (server, stop, running) = world.run();
    stuck.begun.notified().await;
    stop.cancel();
    sleep(60 * SECOND).await;
    assert!(leadership.is_leader(), "while something goes on the lease is renewed");
    let _cut = server.faults().always(lease_writes(), Fault::Hang);
    leadership.lost().await;
    let expired = Instant::now();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::LeadershipLost(_)), "{error}");
    assert_eq!(stuck.dropped(), Some(expired));
}

#[tokio::test(start_paused = true)]
async fn tasks_go_on_until_the_controllers_have_ended() {
    let mut world = World::hidden(None);
    world.create("web").await;
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count) = (Arc::clone(&begun), Arc::clone(&ended));
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
            Err(ended) => Err(Failure::message(format!("{ended} runs have ended"))),
        }
    });
    let (_, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    running.await.unwrap().expect("the task was told when the run had ended");
    assert_eq!(ended.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_at_the_end_is_the_end_s_error() {
    let mut world = World::hidden(None);
    world.manager.add_task("flush", RunsOn::EveryReplica, |stop| async move {
        stop.cancelled().await;
        Err(Failure::message("the disk is full"))
    });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap_err().to_string(), "flush has failed: the disk is full");
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_leaves_nothing_but_its_lease() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let stuck = Stuck::add(&mut world);
    let secrets = world.manager.factory().informer::<k8s_openapi::api::core::v1::Secret>().unwrap();
    let _registered = secrets.on(|_| {}); // whatever a program still holds
    let (server, _stop, running) = world.run();
    stuck.begun.notified().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    sleep(SECOND).await;
    assert!(stuck.dropped().is_some());
    assert_eq!((server.journal().unanswered(), server.open_watches()), (0, 0));
    assert_eq!(holder(&server).as_deref(), Some("first"));
}

//! Tests of `Manager::run_and_exit`. Each test starts its own program again as a child process.

use std::{
    process::{Command, ExitStatus},
    sync::Barrier,
    thread,
};

use super::*;

/// The environment variable that makes a test the child process.
const CHILD: &str = "RUN_AND_EXIT_CHILD";

/// A child that has not ended after this time is killed.
const CHILD_TIMEOUT: Duration = Duration::from_secs(120);

const SHORT: LeaseTimes = LeaseTimes {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(500),
};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the test `name` in a child process, in which `child` runs. Returns the exit status of the child.
fn in_child(name: &str, child: impl Future<Output = ()>) -> ExitStatus {
    if std::env::var_os(CHILD).is_some() {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(child);
        unreachable!("the child must exit");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.args([name, "--exact", "--nocapture"]).env(CHILD, "1").spawn().unwrap();
    for _ in 0..CHILD_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::park_timeout(POLL_INTERVAL);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the process did not end");
}

/// Adds a controller whose reconciles block their threads. Returns a notification of the first reconcile.
async fn add_blocking_controller(world: &mut World, objects: &[&str]) -> Arc<Notify> {
    for name in objects {
        world.create(name).await;
    }
    let blocked = Arc::new(Notify::new());
    let notify = Arc::clone(&blocked);
    let controller = world.controller().concurrency(objects.len());
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        notify.notify_one();
        async {
            Barrier::new(2).wait(); // blocks forever
            Ok::<_, Failure>(Action::Done)
        }
    });
    blocked
}

#[test]
fn exit_code_is_0_after_a_stop() {
    let status = in_child("exit::exit_code_is_0_after_a_stop", async {
        let world = World::without_pages(Some(election("first")));
        world.manager.run_and_exit(sleep(SECOND)).await;
    });
    assert_eq!(status.code(), Some(0));
}

#[test]
fn exit_code_is_1_after_a_failure() {
    let status = in_child("exit::exit_code_is_1_after_a_failure", async {
        let mut world = World::without_pages(None);
        world.manager.add_task("a task", RunsOn::EveryReplica, |_| async { Err("no".into()) });
        world.manager.run_and_exit(std::future::pending()).await;
    });
    assert_eq!(status.code(), Some(1));
}

#[test]
fn blocked_reconcile_does_not_prevent_the_exit() {
    let status = in_child("exit::blocked_reconcile_does_not_prevent_the_exit", async {
        let mut world = World::new(ManagerOptions {
            bind_address: None,
            graceful_shutdown_timeout: Duration::from_millis(100),
            ..ManagerOptions::default()
        });
        let blocked = add_blocking_controller(&mut world, &["a"]).await;
        world.manager.run_and_exit(async move { blocked.notified().await }).await;
    });
    assert_eq!(status.code(), Some(1));
}

#[test]
fn process_with_blocked_threads_ends_after_its_lease_expired() {
    let status = in_child("exit::process_with_blocked_threads_ends_after_its_lease_expired", async {
        let times =
            LeaseTimes { lease_duration: 3 * SECOND, renew_deadline: 2 * SECOND, retry_period: SECOND / 2 };
        let mut world = World::without_pages(Some(ElectionOptions { times, ..election("first") }));
        // The runtime has two threads.
        add_blocking_controller(&mut world, &["a", "b"]).await;
        world.manager.run_and_exit(std::future::pending()).await;
    });
    assert_eq!(status.code(), Some(1));
}

#[cfg(unix)]
#[test]
fn second_signal_ends_the_process() {
    let status = in_child("exit::second_signal_ends_the_process", async {
        let mut world = World::new(ManagerOptions {
            bind_address: None,
            graceful_shutdown_timeout: Duration::MAX,
            ..ManagerOptions::default()
        });
        world.create("a").await;
        let controller = world.controller().reconcile_timeout(None);
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            tokio::spawn(async {
                loop {
                    let own_id = std::process::id().to_string();
                    Command::new("kill").args(["-TERM", &own_id]).status().unwrap();
                    sleep(SECOND / 5).await;
                }
            });
            std::future::pending::<Result<Action, Failure>>()
        });
        world.manager.run_and_exit(kube_operator::shutdown_signal()).await;
    });
    assert_eq!(status.code(), Some(1));
}

/// A task fails, a reconcile is still running, and a signal arrives.
#[cfg(unix)]
#[test]
fn signal_during_the_stop_after_a_failure_ends_the_process() {
    let status = in_child("exit::signal_during_the_stop_after_a_failure_ends_the_process", async {
        let mut world = World::new(ManagerOptions {
            bind_address: None,
            graceful_shutdown_timeout: 10 * CHILD_TIMEOUT,
            ..ManagerOptions::default()
        });
        world.create("a").await;
        let reconciling = Arc::new(Notify::new());
        let started = Arc::clone(&reconciling);
        world.manager.add_task("a task", RunsOn::EveryReplica, |_| async move {
            reconciling.notified().await;
            Err("no".into())
        });
        let controller = world.controller().reconcile_timeout(None);
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            started.notify_one();
            tokio::spawn(async {
                loop {
                    sleep(SECOND / 5).await;
                    let own_id = std::process::id().to_string();
                    Command::new("kill").args(["-TERM", &own_id]).status().unwrap();
                }
            });
            std::future::pending::<Result<Action, Failure>>()
        });
        world.manager.run_and_exit(kube_operator::shutdown_signal()).await;
    });
    assert_eq!(status.code(), Some(1));
}

/// The blocked threads hold the lock of the log, so the process cannot log and is aborted.
#[test]
fn blocked_log_does_not_prevent_the_exit() {
    let status = in_child("exit::blocked_log_does_not_prevent_the_exit", async {
        tracing::subscriber::set_global_default(LogToStderr).unwrap();
        let mut world = World::without_pages(Some(ElectionOptions { times: SHORT, ..election("first") }));
        world.create("a").await;
        world.create("b").await;
        let controller = world.controller().concurrency(2);
        world.manager.add_controller(controller, |_: Request<ConfigMap>| async {
            let _lock = std::io::stderr().lock();
            Barrier::new(2).wait(); // blocks forever
            Ok::<_, Failure>(Action::Done)
        });
        world.manager.run_and_exit(std::future::pending()).await;
    });
    assert!(!status.success());
}

/// Another process takes the lease, and the manager notices it. Then destructors block all threads.
#[test]
fn threads_that_block_during_the_stop_do_not_prevent_the_exit() {
    let status = in_child("exit::threads_that_block_during_the_stop_do_not_prevent_the_exit", async {
        let mut world = World::without_pages(Some(ElectionOptions { times: SHORT, ..election("first") }));
        world.create("a").await;
        world.create("b").await;
        let server = world.server.clone();
        let controller = world.controller().concurrency(2);
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            let server = server.clone();
            async move {
                let _guard = BlockOnDrop;
                let spec = json!({"holderIdentity": "second", "renewTime": format!("{:.6}", jiff::Timestamp::now())});
                let patch = json!({ "spec": spec });
                server.patch_untyped("coordination.k8s.io/v1", "Lease", Some("default"), "operator", &patch).unwrap();
                std::future::pending::<Result<Action, Failure>>().await
            }
        });
        world.manager.run_and_exit(std::future::pending()).await;
    });
    assert!(!status.success());
}

struct BlockOnDrop;

impl Drop for BlockOnDrop {
    fn drop(&mut self) {
        Barrier::new(2).wait();
    }
}

/// Writes a line to the standard error for each event.
struct LogToStderr;

impl tracing::Subscriber for LogToStderr {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        eprintln!("{event:?}");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

//! `Manager::run_and_exit`: exits after the manager, even if a thread is blocked.

use std::{future::Future, io, process, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Manager, signals::shutdown_signal};
use crate::{
    Leadership,
    controller::state::{ControllerState, ControllerStates},
};

/// The interval of the checks of the watchdog.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The time for the stop after the grace period. The manager needs at most 9 s.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// The exit code of a manager that failed.
const FAILED: i32 = 1;

impl Manager {
    /// Runs the manager like [`run`](Self::run), then exits. Call it at the end of `main`.
    ///
    /// The exit code is 0 if the manager stopped after `stop`, and 1 if it failed. The failure is
    /// logged. Destructors of the program do not run. If a log subscriber writes in the background,
    /// its last lines can be lost. While the manager stops, the next SIGTERM or SIGINT terminates the
    /// process immediately, with exit code 1. With [`shutdown_signal`](crate::shutdown_signal), this is the
    /// second signal.
    ///
    /// A `main` that returns would wait for reconciles that block their thread. This method does not wait for
    /// these reconciles:
    /// - If the runtime has other threads, the manager stops after the grace period, and logs the
    ///   blocked part.
    /// - If all threads of the runtime are blocked, the leader cannot renew its lease. A leader acts
    ///   until the [`renew_deadline`](crate::LeaseTimes::renew_deadline), and another process takes the
    ///   lease after the [`lease_duration`](crate::LeaseTimes::lease_duration). By default, these are
    ///   10 s and 15 s after the last renewal. Shortly before the second time, a separate thread exits
    ///   the process with code 1. If the log is also blocked, the thread aborts the process. The thread also
    ///   exits a process that does not stop within 10 s after the grace period. For a blocked process without
    ///   an election, use a liveness probe of `/healthz`.
    ///
    /// ```no_run
    /// # use kube_operator::{Manager, ManagerOptions, shutdown_signal};
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let client = kube_client::Client::try_default().await?;
    ///     let manager = Manager::new(client, ManagerOptions::default())?;
    ///     // Add controllers.
    ///     manager.run_and_exit(shutdown_signal()).await
    /// }
    /// ```
    pub async fn run_and_exit(self, stop: impl Future<Output = ()>) -> ! {
        let lease_limit = self.options.election.as_ref().map_or(Duration::MAX, |election| {
            election.times.lease_duration.saturating_sub(election.times.renew_deadline)
        });
        let watchdog = Arc::new(Watchdog {
            leadership: self.leadership(),
            lease_limit,
            controllers: self.controllers.clone(),
            stop_deadline: Mutex::default(),
        });
        if let Err(error) = Arc::clone(&watchdog).start() {
            tracing::error!(%error, "cannot start the thread that watches the manager; exiting");
            process::exit(FAILED);
        }
        let stopping = CancellationToken::new();
        let on_stop = |grace_period: Duration| {
            // Without a deadline if the grace period is too long for the clock.
            let limit = grace_period.saturating_add(STOP_MARGIN);
            *watchdog.stop_deadline.lock() = Instant::now().checked_add(limit);
            stopping.cancel();
        };
        let second_signal = async {
            stopping.cancelled().await;
            shutdown_signal().await;
        };
        tokio::select! {
            biased;
            result = self.run_until_stopped(stop, on_stop) => match result {
                Ok(()) => process::exit(0),
                // The manager has logged the error.
                Err(_) => tracing::error!(code = FAILED, "manager failed; exiting"),
            },
            () = second_signal => tracing::error!("second signal received; exiting without a graceful stop"),
        }
        process::exit(FAILED)
    }
}

/// A thread that exits the process if blocked threads prevent the stop of the manager.
struct Watchdog {
    leadership: Leadership,
    /// The time after the loss of the lease, before another process can become the leader.
    lease_limit: Duration,
    controllers: ControllerStates,
    /// Set when the manager starts to stop.
    stop_deadline: Mutex<Option<Instant>>,
}

impl Watchdog {
    /// Starts the thread, which runs until the process exits.
    fn start(self: Arc<Self>) -> io::Result<()> {
        let watch = move || {
            while !self.is_expired() {
                thread::park_timeout(CHECK_INTERVAL);
            }
            // A blocked thread can hold the lock of the log, so another thread writes the log and exits.
            let _exiting = thread::Builder::new().name("exit".to_owned()).spawn(move || {
                tracing::error!("blocked threads prevent the stop of the manager; exiting");
                // A blocked thread can also hold the lock of a queue, so this line is separate.
                for reconcile in self.controllers.all().iter().filter_map(longest_reconcile) {
                    tracing::error!(%reconcile, "reconcile did not stop");
                }
                process::exit(FAILED);
            });
            thread::park_timeout(CHECK_INTERVAL);
            process::abort();
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
    }

    fn is_expired(&self) -> bool {
        let lease = self.leadership.expired_for();
        let is_lost = lease.is_some_and(|elapsed| elapsed.saturating_add(CHECK_INTERVAL) > self.lease_limit);
        is_lost || self.stop_deadline.lock().is_some_and(|deadline| Instant::now() > deadline)
    }
}

/// Describes the longest running reconcile of a controller.
fn longest_reconcile(controller: &Arc<ControllerState>) -> Option<String> {
    let (key, running_for) = controller.keys.longest_processing()?;
    let (name, seconds) = (&controller.options.name, running_for.as_secs());
    Some(format!("controller {name}: the reconcile of {key} has been running for {seconds} s"))
}

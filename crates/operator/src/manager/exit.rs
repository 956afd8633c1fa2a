//! `Manager::run_and_exit`: ends the process after the manager, even if a thread is blocked.

use std::{future::Future, io, process, thread, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{Manager, signals::shutdown_signal};
use crate::Leadership;

/// The interval of the checks of the watchdog.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The exit code of a manager that failed.
const FAILED: i32 = 1;

impl Manager {
    /// Runs the manager like [`run`](Self::run), then ends the process. Call it at the end of `main`.
    ///
    /// The exit code is 0 if the manager stopped after `stop`, and 1 if it failed. The failure is
    /// logged. Destructors of the program do not run. If a log subscriber writes in the background,
    /// its last lines can be lost. After `stop` has completed, the next SIGTERM or SIGINT ends the
    /// process immediately, with the exit code 1. With
    /// [`shutdown_signal`](crate::shutdown_signal), this is the second signal.
    ///
    /// A `main` that returns would wait for reconciles that block their thread. This method ends them
    /// with the process:
    /// - If the runtime has other threads, the manager stops after the grace period, and logs the
    ///   blocked part.
    /// - If all threads of the runtime are blocked, the leader cannot renew its lease. A leader acts
    ///   until the [`renew_deadline`](crate::LeaseTimes::renew_deadline), and another process takes the
    ///   lease after the [`lease_duration`](crate::LeaseTimes::lease_duration). By default, these are
    ///   10 s and 15 s after the last renewal. Shortly before the second time, a separate thread ends
    ///   the process with the exit code 1. Without an election, use a liveness probe of `/healthz`.
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
        if let Some(election) = &self.options.election {
            let times = election.times;
            let limit = times.lease_duration.saturating_sub(times.renew_deadline);
            if let Err(error) = start_watchdog(self.leadership(), limit) {
                tracing::error!(%error, "cannot start the thread that watches the lease; exiting");
                process::exit(FAILED);
            }
        }
        let stopping = CancellationToken::new();
        let stop = async {
            stop.await;
            stopping.cancel();
        };
        let second_signal = async {
            stopping.cancelled().await;
            shutdown_signal().await;
        };
        tokio::select! {
            biased;
            result = self.run(stop) => match result {
                Ok(()) => process::exit(0),
                Err(error) => tracing::error!(%error, "manager failed; exiting"),
            },
            () = second_signal => tracing::error!("second signal received; exiting without a graceful stop"),
        }
        process::exit(FAILED)
    }
}

/// Starts a thread that ends the process if the lease expired and the process does not stop within the
/// limit. The thread ends with the process.
fn start_watchdog(leadership: Leadership, limit: Duration) -> io::Result<()> {
    let watch = move || {
        loop {
            thread::park_timeout(CHECK_INTERVAL);
            if leadership.expired_for().is_some_and(|elapsed| elapsed + CHECK_INTERVAL > limit) {
                tracing::error!("lease expired, but blocked threads prevent a stop; exiting");
                process::exit(FAILED);
            }
        }
    };
    thread::Builder::new().name("lease watchdog".to_owned()).spawn(watch).map(drop)
}

//! Finds reconciles that did not stop after their timeout. A reconcile is stopped at its next `await`, so
//! these block their thread.

use std::{convert::Infallible, fmt, time::Duration};

use tokio::time::sleep;

use super::state::ControllerState;

/// A reconcile is logged if it does not stop within this time after its timeout. The time is longer than
/// the wait of a key for a cache that does not contain an earlier write.
const LOG_AFTER_TIMEOUT: Duration = Duration::from_secs(6);

/// The interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval of the log lines while a reconcile is stuck.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A reconcile that did not stop after its timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StuckReconcile {
    key: String,
    running_for: Duration,
    timeout: Duration,
}

impl fmt::Display for StuckReconcile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, running_for, timeout } = self;
        let seconds = running_for.as_secs();
        write!(
            f,
            "the reconcile of {key} has been running for {seconds} s, but its timeout is {timeout:?}; it blocks its thread"
        )
    }
}

/// Returns the longest running reconcile if its timeout expired more than `margin` ago.
pub(crate) fn stuck_reconcile(controller: &ControllerState, margin: Duration) -> Option<StuckReconcile> {
    let timeout = controller.options.reconcile_timeout?;
    let (key, running_for) = controller.keys.longest_processing()?;
    (running_for > timeout.saturating_add(margin)).then_some(StuckReconcile { key, running_for, timeout })
}

/// Logs stuck reconciles until the future is dropped. This needs a thread that is not blocked.
pub(super) async fn log_stuck_reconciles(controller: &ControllerState) -> Infallible {
    loop {
        let StuckReconcile { key, running_for, timeout } = next_stuck_reconcile(controller).await;
        let name = &controller.options.name;
        tracing::error!(
            controller = %name,
            %key,
            ?running_for,
            ?timeout,
            "reconcile blocks its thread, so its timeout has no effect; move blocking calls to `spawn_blocking`"
        );
        sleep(LOG_INTERVAL).await;
    }
}

/// Waits until a reconcile is stuck.
async fn next_stuck_reconcile(controller: &ControllerState) -> StuckReconcile {
    let mut before = None;
    loop {
        sleep(CHECK_INTERVAL).await;
        let stuck = stuck_reconcile(controller, LOG_AFTER_TIMEOUT);
        // After a pause of the process, the timeout may not have been observed yet.
        if let Some(stuck) = &stuck
            && before.as_ref() == Some(&stuck.key)
        {
            return stuck.clone();
        }
        before = stuck.map(|stuck| stuck.key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::{controller::ControllerOptions, observe::metrics::Metrics};

    #[tokio::test(start_paused = true)]
    async fn reconcile_is_stuck_if_it_runs_on_after_its_timeout() {
        let minute = Duration::from_secs(60);
        let options = ControllerOptions {
            name: "a".into(),
            concurrency: 1,
            reconcile_timeout: Some(minute),
            requeue_after_success: None,
            debounce: Duration::ZERO,
        };
        let limiter = kube_workqueue::default_rate_limiter();
        let (controller, keys) = ControllerState::new(options, limiter, None, None, &Metrics::default());
        assert!(timeout(5 * minute, next_stuck_reconcile(&controller)).await.is_err(), "nothing runs");

        keys.queue.add("shop/web".to_owned());
        let item = keys.queue.get().await.unwrap();
        let started = Instant::now();
        let stuck = next_stuck_reconcile(&controller).await;
        assert_eq!((&*stuck.key, stuck.timeout), ("shop/web", minute));
        let expected = minute + LOG_AFTER_TIMEOUT..=minute + LOG_AFTER_TIMEOUT + 3 * CHECK_INTERVAL;
        assert!(expected.contains(&started.elapsed()), "{stuck:?}");

        drop(item);
        assert!(timeout(5 * minute, next_stuck_reconcile(&controller)).await.is_err(), "nothing runs");
    }
}

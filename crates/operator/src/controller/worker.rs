//! `Worker`: takes keys from the queue, calls the reconciler, and handles the result.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube_informer::CachedReadError;
use kube_workqueue::Item;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    action::{Action, Failure},
    history::{LastRun, RunChanges},
    keys::{KeyQueue, RequestKey},
    reason::{Change, Reason, Reasons, Waits},
    reconcile::KeyRequest,
    state::ControllerState,
    work::{Reconciled, Work},
};
use crate::{
    Leadership, WriteError,
    observe::{ReconcileResult, calls::ApiCalls},
};

/// The state that all workers of a controller share.
pub(crate) struct Worker<Q: RequestKey, W> {
    pub(crate) state: Arc<ControllerState>,
    pub(crate) keys: KeyQueue<Q>,
    /// The source of retries and requeues in the [`Reason`]s.
    pub(crate) name: Arc<str>,
    pub(crate) work: W,
    pub(crate) leadership: Leadership,
    pub(crate) stop: CancellationToken,
    /// Receives keys whose cached object does not contain a write of this process yet.
    pub(crate) park: mpsc::Sender<Item<Q>>,
}

/// The message about an object that another client changes faster than this program can write it.
const REPEATED_CONFLICTS: &str = "each write of an object conflicts: another client changes the object all the time, the \
                                  informer does not select the object, or this program passes an old object; find \
                                  the other client with `kubectl get --show-managed-fields -o yaml`";

/// The number of consecutive failures before the first such message.
const USUAL_CONFLICTS: u32 = 5;

/// The reason why a worker returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerExit {
    Stopped,
    LostLeadership,
}

/// The result of a reconcile.
#[derive(Debug)]
enum RunOutcome {
    Success(Action),
    Failed(Failure),
    TimedOut(Duration),
    /// The panic message is dropped, because it may contain parts of an object.
    Panicked,
}

impl RunOutcome {
    /// Returns the name for the span of the reconcile.
    fn name(&self) -> &'static str {
        match self {
            Self::Success(_) => "success",
            Self::Failed(_) => "error",
            Self::TimedOut(_) => "timeout",
            Self::Panicked => "panic",
        }
    }

    /// Returns the error message, if the reconcile failed.
    fn failure(&self) -> Option<String> {
        match self {
            Self::Success(_) => None,
            Self::Failed(failure) => Some(failure.to_string()),
            Self::TimedOut(limit) => Some(format!(
                "reconcile timed out after {limit:?}; a call of the reconciler did not complete"
            )),
            Self::Panicked => Some("reconcile panicked".to_owned()),
        }
    }
}

impl<Q: RequestKey, W: Work<Q>> Worker<Q, W> {
    /// Reconciles keys until the controller stops or leadership is lost.
    pub(crate) async fn work(self: Arc<Self>) -> WorkerExit {
        let (mut stopped, mut lost) = (pin!(self.stop.cancelled()), pin!(self.leadership.lost()));
        loop {
            // A queue with keys and a reconciler without waits would otherwise never yield to other tasks.
            tokio::task::consume_budget().await;
            // Checked first, because the futures of `select!` are polled only if no key is ready.
            if self.stop.is_cancelled() {
                return WorkerExit::Stopped;
            }
            let item = tokio::select! {
                biased;
                item = self.keys.queue.get() => item,
                () = &mut stopped => return WorkerExit::Stopped,
                () = &mut lost => return WorkerExit::LostLeadership,
            };
            let Some(item) = item else { return WorkerExit::Stopped };
            // From here on, a shutdown waits for this key.
            let _token = self.state.reconciles.token();
            match self.work.ready(&item).now_or_never() {
                Some(Ok(())) => {}
                Some(Err(stale)) => {
                    self.record_stale_cache(item, stale);
                    continue;
                }
                None => {
                    let parked = tokio::select! {
                        biased;
                        parked = self.park.send(item) => parked,
                        () = &mut stopped => return WorkerExit::Stopped,
                    };
                    if parked.is_err() {
                        return WorkerExit::Stopped;
                    }
                    continue;
                }
            }
            // After the last await before the reconcile. This reads the clock, so no task need have
            // run since the lease expired.
            if !self.leadership.is_leader() {
                return WorkerExit::LostLeadership;
            }
            self.run(item).await;
        }
    }

    /// Waits until a key can be reconciled, and queues it again. Meanwhile, workers reconcile other keys.
    /// The key stays with this item, so no other worker receives it.
    pub(crate) async fn wait_parked(self: Arc<Self>, item: Item<Q>) {
        let started = Instant::now();
        let ready = self.work.ready(&item).await;
        self.keys.reasons.lock().add_cache_wait(&item, started.elapsed());
        match ready {
            Ok(()) => self.keys.queue.add_with_priority(item.clone(), item.priority()),
            Err(stale) => self.record_stale_cache(item, stale),
        }
    }

    /// Records a failure. The reconciler was not called, so the reasons stay queued for the retry.
    fn record_stale_cache(&self, item: Item<Q>, stale: CachedReadError) {
        let reasons = self.keys.reasons.lock().get(&item);
        let _entered = self.span(&item, &reasons).entered();
        let (failures, outcome) = (item.num_requeues(), RunOutcome::Failed(stale.into()));
        let run = LastRun {
            reasons,
            failures,
            ended: Instant::now(),
            took: Duration::ZERO,
            waits: Waits::default(),
            calls: ApiCalls::default(),
            in_calls: Duration::ZERO,
            // The changes stay pending for the retry, like the reasons.
            changes: RunChanges { position: self.keys.last_position(&item), ..RunChanges::default() },
            failure: outcome.failure(),
        };
        self.keys.record_run(&item, run);
        self.finish(item, outcome, true);
    }

    async fn run(&self, item: Item<Q>) {
        let (reasons, waits) = self.keys.reasons.lock().take(&item);
        let changes = self.state.changes_of(&*item, &reasons, self.keys.last_position(&item));
        let request = KeyRequest { key: item.clone(), reasons, failures: item.num_requeues() };
        let span = self.span(&item, &request.reasons);
        let (reasons, failures) = (request.reasons.clone(), request.failures);
        let (started, calls) = (Instant::now(), ApiCalls::default());
        let (outcome, exists) = calls.scope(self.reconcile(request)).instrument(span.clone()).await;
        let ended = Instant::now();
        let (took, in_calls) = (ended - started, calls.busy());
        let _entered = span.enter();
        self.state.metrics.record_duration(took);
        let failure = outcome.failure();
        let run = LastRun { reasons, failures, ended, took, waits, calls, in_calls, changes, failure };
        self.keys.record_run(&item, run);
        let result = outcome.name();
        self.finish(item, outcome, exists);
        // Not earlier, so that the log lines of the reconcile do not repeat it.
        span.record("result", result);
    }

    /// Uses the highest level, so that warnings show their controller and key even if only warnings
    /// are logged.
    fn span(&self, key: &Q, reasons: &Reasons) -> Span {
        let controller = &self.state.options.name;
        tracing::error_span!("reconcile", %controller, %key, reason = %reasons, result = tracing::field::Empty)
    }

    /// Returns the outcome, and whether the object existed.
    async fn reconcile(&self, request: KeyRequest<Q>) -> (RunOutcome, bool) {
        // The async block also catches a panic before the reconciler returns its future.
        let run = AssertUnwindSafe(async { self.work.reconcile(request).await }).catch_unwind();
        let result = match self.state.options.reconcile_timeout {
            Some(limit) => timeout(limit, run).await.map_err(|_| limit),
            None => Ok(run.await),
        };
        match result {
            Ok(Ok(Reconciled { result, exists, is_cut_short })) => {
                if is_cut_short {
                    self.state.record_cut_short();
                }
                (result.map_or_else(RunOutcome::Failed, RunOutcome::Success), exists)
            }
            Ok(Err(_)) => {
                self.state.record_cut_short();
                (RunOutcome::Panicked, true)
            }
            Err(limit) => {
                self.state.record_cut_short();
                (RunOutcome::TimedOut(limit), true)
            }
        }
    }

    /// Decides whether and when the key is requeued.
    fn finish(&self, item: Item<Q>, outcome: RunOutcome, exists: bool) {
        self.record_result(&outcome);
        match outcome {
            RunOutcome::Success(action) => {
                tracing::debug!(?action, "reconcile succeeded");
                item.forget();
                // A requeued key keeps its priority: keys with low priority stay behind changes.
                let requeue = match action {
                    Action::Done => {
                        let after = self.state.options.requeue_after_success.filter(|_| exists);
                        after.map(|after| (after, item.priority()))
                    }
                    Action::RequeueAfter(after) => Some((after, item.priority())),
                    Action::RequeueWithPriority(after, priority) => Some((after, priority)),
                    Action::AwaitChange => None,
                };
                if let Some((after, priority)) = requeue {
                    self.add_reason(&item, Change::Requeued);
                    self.keys.queue.add_after_with_priority(item.clone(), after, priority);
                }
            }
            RunOutcome::Failed(failure) if failure.is_terminal() => {
                tracing::error!(%failure, "reconcile failed; waiting for a change");
                item.forget();
            }
            failed => {
                let failures = item.num_requeues() + 1;
                match failed {
                    RunOutcome::Failed(failure) => {
                        tracing::warn!(%failure, failures, "reconcile failed; retrying");
                        if is_repeated_conflict(&failure, failures) {
                            tracing::warn!(failures, "{REPEATED_CONFLICTS}");
                        }
                    }
                    RunOutcome::TimedOut(timeout) => {
                        tracing::warn!(
                            ?timeout,
                            failures,
                            "reconcile timed out; a call of the reconciler did not complete; retrying"
                        );
                    }
                    _ => tracing::error!(
                        failures,
                        "reconcile panicked; retrying (the panic hook printed the message)"
                    ),
                }
                self.add_reason(&item, Change::Failed);
                item.retry();
            }
        }
    }

    fn record_result(&self, outcome: &RunOutcome) {
        let result = match outcome {
            RunOutcome::Success(Action::RequeueAfter(_) | Action::RequeueWithPriority(..)) => {
                ReconcileResult::RequeueAfter
            }
            RunOutcome::Success(_) => ReconcileResult::Success,
            RunOutcome::Failed(failure) if failure.is_terminal() => ReconcileResult::FailedTerminally,
            RunOutcome::Failed(_) => ReconcileResult::Failed,
            RunOutcome::TimedOut(_) => ReconcileResult::TimedOut,
            RunOutcome::Panicked => ReconcileResult::Panicked,
        };
        self.state.metrics.record_result(result);
    }

    fn add_reason(&self, key: &Q, change: Change) {
        let reason = Reason { source: Arc::clone(&self.name), group: None, object: None, change };
        self.keys.reasons.lock().add(key.clone(), reason);
    }
}

/// Returns whether a message about conflicts is due: after 5, 10, 20, 40 failures and so on.
fn is_repeated_conflict(failure: &Failure, failures: u32) -> bool {
    let is_conflict = matches!(failure.error().downcast_ref(), Some(WriteError::Conflict { .. }));
    is_conflict && failures.is_multiple_of(USUAL_CONFLICTS) && (failures / USUAL_CONFLICTS).is_power_of_two()
}

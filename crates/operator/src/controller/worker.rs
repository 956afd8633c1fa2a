//! `Worker`: takes keys from the queue, calls the reconciler, and handles the result.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube_informer::{Cached, CachedReadError, Informer, ObjectKey};
use kube_workqueue::Item;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    action::{Action, Failure},
    reason::{Change, Reason, Reasons},
    reconcile::{Reconciler, Request},
    state::{ControllerState, LastRun},
};
use crate::{Leadership, observe::ReconcileResult};

/// The maximum wait for this process's own writes of the object, before a reconcile.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The state that all workers of a controller share.
pub(crate) struct Worker<T, R> {
    pub(crate) state: Arc<ControllerState>,
    pub(crate) kind: Arc<str>,
    pub(crate) informer: Informer<T>,
    pub(crate) reconciler: R,
    pub(crate) leadership: Leadership,
    pub(crate) stop: CancellationToken,
    /// Receives keys whose cached object does not contain a write of this process yet.
    pub(crate) park: mpsc::Sender<Item<ObjectKey>>,
}

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
    /// Returns the error message, if the reconcile failed.
    fn failure(&self) -> Option<String> {
        match self {
            Self::Success(_) => None,
            Self::Failed(failure) => Some(failure.to_string()),
            Self::TimedOut(after) => Some(format!("reconcile timed out after {after:?}")),
            Self::Panicked => Some("reconcile panicked".to_owned()),
        }
    }
}

impl<T: Cached, R: Reconciler<T>> Worker<T, R> {
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
                item = self.state.keys.queue.get() => item,
                () = &mut stopped => return WorkerExit::Stopped,
                () = &mut lost => return WorkerExit::LostLeadership,
            };
            let Some(item) = item else { return WorkerExit::Stopped };
            // From here on, a shutdown waits for this key.
            let _token = self.state.reconciles.token();
            match self.wait_for_writes(&item).now_or_never() {
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
    pub(crate) async fn wait_parked(self: Arc<Self>, item: Item<ObjectKey>) {
        match self.wait_for_writes(&item).await {
            Ok(()) => self.state.keys.queue.add_with_priority(item.clone(), item.priority()),
            Err(stale) => self.record_stale_cache(item, stale),
        }
    }

    /// Waits until the cache contains this process's own writes of the object. For other objects,
    /// `CachedApi` waits.
    async fn wait_for_writes(&self, key: &ObjectKey) -> Result<(), CachedReadError> {
        match self.informer.wait_for_writes(Some(key), READ_TIMEOUT).await {
            // Reported once, for writes of the lost history. There may also be writes of the new
            // history.
            Err(CachedReadError::ServerRestored { .. }) => {
                match self.informer.wait_for_writes(Some(key), READ_TIMEOUT).await {
                    Err(CachedReadError::ServerRestored { .. }) => Ok(()),
                    other => other,
                }
            }
            other => other,
        }
    }

    /// Records a failure. The reconciler was not called, so the reasons stay queued for the retry.
    fn record_stale_cache(&self, item: Item<ObjectKey>, stale: CachedReadError) {
        let reasons = self.state.keys.reasons.lock().get(&item);
        let _entered = self.span(&item, &reasons).entered();
        let (failures, outcome) = (item.num_requeues(), RunOutcome::Failed(stale.into()));
        let (ended, took, failure) = (Instant::now(), Duration::ZERO, outcome.failure());
        self.state.record_run(&item, LastRun { reasons, failures, ended, took, failure });
        self.finish(item, outcome, false);
    }

    async fn run(&self, item: Item<ObjectKey>) {
        let request = Request {
            key: item.clone(),
            object: self.informer.lister().get_by_key(&*item),
            reasons: self.state.keys.reasons.lock().take(&item),
            failures: item.num_requeues(),
        };
        let span = self.span(&item, &request.reasons);
        let (reasons, failures) = (request.reasons.clone(), request.failures);
        let is_deleted = request.object.is_none();
        let started = Instant::now();
        let outcome = self.reconcile(request, started).instrument(span.clone()).await;
        let ended = Instant::now();
        let took = ended - started;
        let _entered = span.enter();
        self.state.metrics.record_duration(took);
        self.state.record_run(&item, LastRun { reasons, failures, ended, took, failure: outcome.failure() });
        self.finish(item, outcome, is_deleted);
    }

    /// Uses the highest level, so that warnings show their controller and key even if only warnings
    /// are logged.
    fn span(&self, key: &ObjectKey, reasons: &Reasons) -> Span {
        tracing::error_span!("reconcile", controller = %self.state.options.name, %key, reason = %reasons)
    }

    async fn reconcile(&self, request: Request<T>, started: Instant) -> RunOutcome {
        // The async block also catches a panic before the reconciler returns its future.
        let run = AssertUnwindSafe(async { self.reconciler.reconcile(request).await }).catch_unwind();
        let result = match self.state.options.reconcile_timeout {
            Some(after) => timeout(after, run).await,
            None => Ok(run.await),
        };
        match result {
            Ok(Ok(Ok(action))) => RunOutcome::Success(action),
            Ok(Ok(Err(failure))) => RunOutcome::Failed(failure),
            Ok(Err(_)) => {
                self.state.record_cut_short();
                RunOutcome::Panicked
            }
            Err(_) => {
                self.state.record_cut_short();
                RunOutcome::TimedOut(started.elapsed())
            }
        }
    }

    /// Decides whether and when the key is requeued.
    fn finish(&self, item: Item<ObjectKey>, outcome: RunOutcome, is_deleted: bool) {
        self.record_result(&outcome);
        match outcome {
            RunOutcome::Success(action) => {
                tracing::debug!(?action, "reconcile succeeded");
                item.forget();
                let requeue_after = match action {
                    Action::Done => self.state.options.requeue_after_success.filter(|_| !is_deleted),
                    Action::RequeueAfter(after) => Some(after),
                    Action::AwaitChange => None,
                };
                if let Some(after) = requeue_after {
                    self.add_reason(&item, Change::Requeued);
                    // Keep the priority: keys with low priority stay behind changes.
                    self.state.keys.queue.add_after_with_priority(item.clone(), after, item.priority());
                }
            }
            RunOutcome::Failed(failure) if failure.is_terminal() => {
                tracing::error!(%failure, "reconcile failed; waiting for a change");
                item.forget();
            }
            failed => {
                match failed {
                    RunOutcome::Failed(failure) => tracing::warn!(%failure, "reconcile failed; retrying"),
                    RunOutcome::TimedOut(after) => tracing::warn!(?after, "reconcile timed out; retrying"),
                    _ => tracing::error!("reconcile panicked; retrying"),
                }
                self.add_reason(&item, Change::Failed);
                item.retry();
            }
        }
    }

    fn record_result(&self, outcome: &RunOutcome) {
        let result = match outcome {
            RunOutcome::Success(Action::RequeueAfter(_)) => ReconcileResult::RequeueAfter,
            RunOutcome::Success(_) => ReconcileResult::Success,
            RunOutcome::Failed(failure) if failure.is_terminal() => ReconcileResult::FailedTerminally,
            RunOutcome::Failed(_) => ReconcileResult::Failed,
            RunOutcome::TimedOut(_) => ReconcileResult::TimedOut,
            RunOutcome::Panicked => ReconcileResult::Panicked,
        };
        self.state.metrics.record_result(result);
    }

    fn add_reason(&self, key: &ObjectKey, change: Change) {
        let reason = Reason { source: Arc::clone(&self.kind), object: None, change };
        self.state.keys.reasons.lock().add(key.clone(), reason);
    }
}

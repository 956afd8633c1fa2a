//! One run after the other: what is done with a key, and what becomes of it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use kube_informer::{Cached, CachedReadError, Informer, ObjectKey};
use kube_workqueue::Item;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    action::{Action, Failure},
    reason::{Change, Reason},
    reconcile::{Reconciler, Request},
    state::{ControllerState, LastRun},
};
use crate::{Leadership, observe::ReconcileResult};

/// How long a run waits for the cache to show what was written of its object.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the workers of a controller share.
pub(crate) struct Worker<T, R> {
    pub(crate) state: Arc<ControllerState>,
    pub(crate) kind: Arc<str>,
    pub(crate) informer: Informer<T>,
    pub(crate) reconciler: R,
    pub(crate) leadership: Leadership,
    pub(crate) stop: CancellationToken,
}

/// Why a worker works no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    WasTold,
    LeadsNoMore,
}

/// How a run has ended.
#[derive(Debug)]
enum Outcome {
    Success(Action),
    Failed(Failure),
    TimedOut(Duration),
    /// What it said is not kept: it may quote an object.
    Panicked,
}

impl Outcome {
    /// What went wrong, in words.
    fn failure(&self) -> Option<String> {
        match self {
            Self::Success(_) => None,
            Self::Failed(failure) => Some(failure.to_string()),
            Self::TimedOut(after) => Some(format!("took longer than {after:?}")),
            Self::Panicked => Some("panicked".to_owned()),
        }
    }
}

impl<T: Cached, R: Reconciler<T>> Worker<T, R> {
    /// Works until it is told to stop, or this process leads no more.
    pub(crate) async fn work(self: Arc<Self>) -> Left {
        loop {
            let item = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Left::WasTold,
                () = self.leadership.lost() => return Left::LeadsNoMore,
                item = self.state.keys.queue.get() => item,
            };
            let Some(item) = item else { return Left::WasTold };
            // Whoever waits for runs to end waits for this one from here on.
            let _under_way = self.state.runs.token();
            let caught_up = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Left::WasTold,
                caught_up = self.wait_for_writes(&item) => caught_up,
            };
            // After the last wait before a run. Nothing has to have run since the lease expired: this asks the clock.
            if !self.leadership.is_leader() {
                return Left::LeadsNoMore;
            }
            match caught_up {
                Ok(()) => self.run(item).await,
                Err(stale) => self.not_shown(item, stale),
            }
        }
    }

    /// What this program has written of the object itself is in what its run is shown. Other objects are read through a
    /// `CachedApi`, which waits for theirs.
    async fn wait_for_writes(&self, key: &ObjectKey) -> Result<(), CachedReadError> {
        match self.informer.wait_for_writes(Some(key), PATIENCE).await {
            // Said of writes of the lost history, once; of this one there may be writes, too.
            Err(CachedReadError::ServerRestored { .. }) => {
                match self.informer.wait_for_writes(Some(key), PATIENCE).await {
                    Err(CachedReadError::ServerRestored { .. }) => Ok(()),
                    other => other,
                }
            }
            other => other,
        }
    }

    /// No run was begun: its reasons wait for the one that will be.
    fn not_shown(&self, item: Item<ObjectKey>, stale: CachedReadError) {
        let _entered = self.span(&item).entered();
        let reasons = self.state.keys.waiting.lock().of(&item);
        let (failures, outcome) = (item.num_requeues(), Outcome::Failed(stale.into()));
        let (ended, took, failure) = (Instant::now(), Duration::ZERO, outcome.failure());
        self.state.ran(&item, LastRun { reasons, failures, ended, took, failure });
        self.settle(item, outcome, false);
    }

    async fn run(&self, item: Item<ObjectKey>) {
        let request = Request {
            key: item.clone(),
            object: self.informer.lister().get_by_key(&*item),
            reasons: self.state.keys.waiting.lock().take(&item),
            failures: item.num_requeues(),
        };
        let span = self.span(&item);
        let (reasons, failures) = (request.reasons.clone(), request.failures);
        let is_gone = request.object.is_none();
        let begun = Instant::now();
        let outcome = self.outcome(request).instrument(span.clone()).await;
        let (ended, took) = (Instant::now(), begun.elapsed());
        let _entered = span.enter();
        self.state.metrics.record_duration(took);
        self.state.ran(&item, LastRun { reasons, failures, ended, took, failure: outcome.failure() });
        self.settle(item, outcome, is_gone);
    }

    /// Of the highest level: whoever logs no more than warnings wants to know whose they are.
    fn span(&self, key: &ObjectKey) -> Span {
        tracing::error_span!("reconcile", controller = %self.state.options.name, %key)
    }

    async fn outcome(&self, request: Request<T>) -> Outcome {
        let begun = Instant::now();
        // Also what panics before it gives a future.
        let run = AssertUnwindSafe(async { self.reconciler.reconcile(request).await }).catch_unwind();
        let ended = match self.state.options.reconcile_timeout {
            Some(after) => timeout(after, run).await,
            None => Ok(run.await),
        };
        match ended {
            Ok(Ok(Ok(action))) => Outcome::Success(action),
            Ok(Ok(Err(failure))) => Outcome::Failed(failure),
            Ok(Err(_)) => {
                self.state.cut_short();
                Outcome::Panicked
            }
            Err(_) => {
                self.state.cut_short();
                Outcome::TimedOut(begun.elapsed())
            }
        }
    }

    /// Whether and when the key comes back.
    fn settle(&self, item: Item<ObjectKey>, outcome: Outcome, is_gone: bool) {
        self.count(&outcome);
        match outcome {
            Outcome::Success(action) => {
                tracing::debug!(?action, "done");
                item.forget();
                let again = match action {
                    Action::Done => self.state.options.requeue_after_success.filter(|_| !is_gone),
                    Action::RequeueAfter(after) => Some(after),
                    Action::AwaitChange => None,
                };
                if let Some(after) = again {
                    self.because(&item, Change::Requeued);
                    // What waits behind changes does so again.
                    self.state.keys.queue.add_after_with_priority(item.clone(), after, item.priority());
                }
            }
            Outcome::Failed(failure) if failure.is_terminal() => {
                tracing::error!(%failure, "failed, and is not tried again before something changes");
                item.forget();
            }
            failed => {
                match failed {
                    Outcome::Failed(failure) => tracing::warn!(%failure, "failed, and is tried again"),
                    Outcome::TimedOut(after) => tracing::warn!(?after, "took too long, and is tried again"),
                    _ => tracing::error!("panicked, and is tried again"),
                }
                self.because(&item, Change::Failed);
                item.retry();
            }
        }
    }

    fn count(&self, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Success(Action::RequeueAfter(_)) => ReconcileResult::RequeueAfter,
            Outcome::Success(_) => ReconcileResult::Success,
            Outcome::Failed(failure) if failure.is_terminal() => ReconcileResult::FailedTerminally,
            Outcome::Failed(_) => ReconcileResult::Failed,
            Outcome::TimedOut(_) => ReconcileResult::TimedOut,
            Outcome::Panicked => ReconcileResult::Panicked,
        };
        self.state.metrics.record_result(result);
    }

    fn because(&self, key: &ObjectKey, change: Change) {
        let reason = Reason { source: Arc::clone(&self.kind), object: None, change };
        self.state.keys.waiting.lock().add(key.clone(), reason);
    }
}

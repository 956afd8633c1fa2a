//! Runs a controller: starts its sources and workers, and stops them.

use std::{
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::FutureExt;
use kube_workqueue::Item;
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinSet},
};

use super::{
    ControllerError, ControllerOptions, RunResult,
    handle::HandleReceiver,
    keys::{KeyQueue, RequestKey},
    running_sources::{RunningSources, SourceExit},
    source::QueueKeys,
    stuck::log_stuck_reconciles,
    work::Work,
    worker::{Worker, WorkerExit},
};

/// The parts of a controller that arrive while it runs.
pub(super) struct Inbox<Q: RequestKey> {
    /// Keys whose cached object does not contain a write of this process yet.
    pub(super) parked: mpsc::Receiver<Item<Q>>,
    pub(super) handles: HandleReceiver<Q>,
}

pub(super) async fn run<Q: RequestKey, W: Work<Q>>(
    worker: Arc<Worker<Q, W>>,
    sources: Vec<Box<dyn QueueKeys<Q>>>,
    inbox: Inbox<Q>,
) -> RunResult {
    let mut running = RunningSources::new(&worker);
    let mut panicked = pin!(source_panicked(&worker.keys));
    let open_handles = async {
        if worker.leadership.acquired().await {
            inbox.handles.open(&worker.keys);
        }
        std::future::pending().await
    };
    let started = tokio::select! {
        biased;
        () = worker.stop.cancelled() => Ok(false),
        error = &mut panicked => Err(error),
        never = open_handles => never,
        started = running.start(sources) => started,
    };
    if started? {
        let ControllerOptions { name, concurrency, .. } = &worker.state.options;
        let keys = worker.keys.queue.len();
        tracing::info!(controller = %name, concurrency, keys, "controller started");
        supervise(&worker, &mut running, panicked, inbox).await;
        worker.stop.cancel();
        running.wait().await;
        tracing::info!(controller = %name, "controller stopped");
    }
    worker.state.result()
}

/// Runs the workers, and returns after the last worker.
async fn supervise<Q: RequestKey, W: Work<Q>>(
    worker: &Arc<Worker<Q, W>>,
    sources: &mut RunningSources<Q>,
    mut panicked: Pin<&mut impl Future<Output = ControllerError>>,
    mut inbox: Inbox<Q>,
) {
    let Worker { state, leadership, stop, .. } = &**worker;
    let mut workers: JoinSet<WorkerExit> =
        (0..state.options.concurrency).map(|_| Arc::clone(worker).work()).collect();
    // If the controller stops, the waiting keys are dropped.
    let mut waiting = JoinSet::new();
    let mut lost = pin!(leadership.lost().fuse());
    let mut log_stuck = pin!(log_stuck_reconciles(state));
    loop {
        let is_running = !state.has_failed() && !stop.is_cancelled();
        let failure = tokio::select! {
            biased;
            () = &mut lost => {
                drop_reconciles(worker, &mut workers);
                continue;
            }
            joined = workers.join_next() => match joined {
                None => return,
                // A worker checks the clock, so it may notice the loss before the timer fires.
                Some(Ok(WorkerExit::LostLeadership)) => {
                    drop_reconciles(worker, &mut workers);
                    continue;
                }
                Some(Ok(WorkerExit::Stopped)) => continue,
                // For example, a user's rate limiter panicked. Do not continue with fewer workers.
                Some(Err(error)) => {
                    resume_panic(error);
                    continue;
                }
            },
            Some(item) = inbox.parked.recv() => {
                waiting.spawn(Arc::clone(worker).wait_parked(item));
                continue;
            }
            Some(joined) = waiting.join_next() => {
                joined.unwrap_or_else(resume_panic);
                continue;
            }
            Some(added) = inbox.handles.added.recv() => {
                // A reconcile may wait for the source. After the stop, `add_source` fails.
                if is_running { sources.spawn(added) } else { drop(added) }
                continue;
            }
            never = &mut log_stuck => match never {},
            error = &mut panicked, if is_running => error,
            Some(exit) = sources.next(), if is_running => match exit {
                SourceExit::InformerStopped(informer) => ControllerError::InformerStopped(informer),
                SourceExit::Stopped | SourceExit::NotLeader => continue,
            },
        };
        stop.cancel();
        tracing::error!(controller = %state.options.name, error = %failure, "controller stops because a source failed");
        state.fail(failure);
    }
}

/// Drops the running reconciles, because leadership is lost. This process may become leader again before
/// the reconciles of the old term end.
fn drop_reconciles<Q: RequestKey, W>(worker: &Worker<Q, W>, workers: &mut JoinSet<WorkerExit>) {
    worker.stop.cancel();
    worker.state.record_cut_short();
    workers.abort_all();
}

fn resume_panic(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        resume_unwind(panic);
    }
}

/// Waits until the predicate, the mapper or the stream of a source panics. Keys are then missing.
fn source_panicked<Q: RequestKey>(keys: &KeyQueue<Q>) -> impl Future<Output = ControllerError> + use<Q> {
    let mut panicked = keys.panicked_source.subscribe();
    async move {
        match panicked.wait_for(Option::is_some).await.ok().and_then(|source| source.clone()) {
            Some(source) => ControllerError::SourcePanicked(source.to_string()),
            None => std::future::pending().await, // the sender is dropped, so no source can panic
        }
    }
}

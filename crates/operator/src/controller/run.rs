//! Runs a controller: starts its sources and workers, and stops them.

use std::{
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::{
    FutureExt,
    future::{join_all, select_all},
};
use kube_informer::{Cached, ObjectKey};
use kube_workqueue::Item;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    ControllerError, ControllerOptions, RunResult, Sources,
    reconcile::Reconciler,
    source::{KeyQueue, Source, SourceShutdown},
    worker::{Worker, WorkerExit},
};

pub(super) async fn run<T: Cached, R: Reconciler<T>>(
    worker: Arc<Worker<T, R>>,
    sources: Sources,
    parked: mpsc::Receiver<Item<ObjectKey>>,
) -> RunResult {
    let mut source_failure = pin!(source_failure(&worker.state.keys, &sources));
    let started = tokio::select! {
        biased;
        () = worker.stop.cancelled() => return Ok(()),
        error = &mut source_failure => return Err(error),
        started = start_sources(&worker, sources) => started,
    };
    let Some(shutdowns) = started else { return Ok(()) };
    let ControllerOptions { name, concurrency, .. } = &worker.state.options;
    let keys = worker.state.keys.queue.len();
    tracing::info!(controller = %name, concurrency, keys, "controller started");
    supervise(&worker, source_failure, parked).await;
    worker.stop.cancel();
    join_all(shutdowns.into_iter().map(|shutdown| shutdown.0)).await;
    tracing::info!(controller = %name, "controller stopped");
    worker.state.result()
}

/// Runs the workers, and returns after the last worker.
async fn supervise<T: Cached, R: Reconciler<T>>(
    worker: &Arc<Worker<T, R>>,
    mut source_failure: Pin<&mut impl Future<Output = ControllerError>>,
    mut parked: mpsc::Receiver<Item<ObjectKey>>,
) {
    let Worker { state, leadership, stop, .. } = &**worker;
    let mut workers: JoinSet<WorkerExit> =
        (0..state.options.concurrency).map(|_| Arc::clone(worker).work()).collect();
    // If the controller stops, the waiting keys are dropped.
    let mut waiting = JoinSet::new();
    let mut lost = pin!(leadership.lost().fuse());
    loop {
        let lost_leadership = tokio::select! {
            biased;
            () = &mut lost => true,
            joined = workers.join_next() => match joined {
                None => return,
                // A worker checks the clock, so it may notice the loss before the timer fires.
                Some(Ok(exit)) => exit == WorkerExit::LostLeadership,
                Some(Err(error)) => {
                    // For example, a user's rate limiter panicked. Do not continue with fewer workers.
                    if let Ok(panic) = error.try_into_panic() {
                        resume_unwind(panic);
                    }
                    false
                }
            },
            Some(item) = parked.recv() => {
                waiting.spawn(Arc::clone(worker).wait_parked(item));
                false
            }
            Some(joined) = waiting.join_next() => {
                if let Some(panic) = joined.err().and_then(|error| error.try_into_panic().ok()) {
                    resume_unwind(panic);
                }
                false
            }
            error = &mut source_failure, if !state.has_failed() && !stop.is_cancelled() => {
                stop.cancel();
                tracing::error!(controller = %state.options.name, %error, "controller stops because a source failed");
                state.fail(error);
                false
            }
        };
        if lost_leadership {
            // This process may become leader again before the reconciles of the old term end. Drop them.
            stop.cancel();
            state.record_cut_short();
            workers.abort_all();
        }
    }
}

/// Waits until a source fails. Keys are then missing, or will be.
fn source_failure(keys: &KeyQueue, sources: &Sources) -> impl Future<Output = ControllerError> + use<> {
    let stopped = select_all(sources.iter().map(|source| source.informer_stopped()));
    let mut panicked = keys.panicked_source.subscribe();
    async move {
        let panicked = async {
            match panicked.wait_for(Option::is_some).await.ok().and_then(|source| source.clone()) {
                Some(source) => source.to_string(),
                None => std::future::pending().await, // the sender is dropped, so no source can panic
            }
        };
        tokio::select! {
            source = panicked => ControllerError::SourcePanicked(source),
            (informer, ..) = stopped => ControllerError::InformerStopped(informer),
        }
    }
}

/// Waits for the caches and for leadership, then starts the sources. Returns when the existing objects
/// are queued, or `None` if this process can no longer become leader.
async fn start_sources<T: Cached, R>(worker: &Worker<T, R>, sources: Sources) -> Option<Vec<SourceShutdown>> {
    join_all(sources.iter().map(|source| source.wait_for_cache())).await;
    if !worker.leadership.acquired().await {
        return None;
    }
    let start = |source: Box<dyn Source>| source.start(worker.state.keys.clone(), worker.stop.clone());
    Some(join_all(sources.into_iter().map(start)).await)
}

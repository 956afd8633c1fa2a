//! `RunningSources`: the tasks of the sources of a running controller.

use std::panic::resume_unwind;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, join_all},
};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    ControllerError,
    handle::AddedSource,
    keys::{KeyQueue, RequestKey},
    source::{QueueKeys, SourceShutdown},
    worker::Worker,
};

/// The reason why the task of a source returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceExit {
    /// The source or the controller was stopped.
    Stopped,
    /// This process can no longer become leader.
    NotLeader,
    /// An informer of the source is stopped. Keys are missing.
    InformerStopped(String),
}

/// Owns the tasks of the sources. Dropping it stops the sources.
pub(super) struct RunningSources<Q: RequestKey> {
    tasks: JoinSet<SourceExit>,
    keys: KeyQueue<Q>,
    acquired: Acquired,
    /// The token of the controller.
    stop: CancellationToken,
}

/// Returns true when this process is the leader, and false if it can no longer become leader. The sources
/// share this future, because it wakes them in the order of their start. They then queue their keys in this
/// order.
type Acquired = Shared<BoxFuture<'static, bool>>;

impl<Q: RequestKey> RunningSources<Q> {
    pub(super) fn new<W>(worker: &Worker<Q, W>) -> Self {
        let leadership = worker.leadership.clone();
        let acquired = async move { leadership.acquired().await }.boxed().shared();
        Self { tasks: JoinSet::new(), keys: worker.keys.clone(), acquired, stop: worker.stop.clone() }
    }

    /// Starts the sources of a controller that does not run yet. Returns true when the existing objects
    /// are queued, and false if this process can no longer become leader.
    pub(super) async fn start(
        &mut self,
        sources: Vec<Box<dyn QueueKeys<Q>>>,
    ) -> Result<bool, ControllerError> {
        let all_started = sources.into_iter().map(|source| {
            let (added, is_started, _) = AddedSource::new(source);
            self.spawn(added);
            is_started
        });
        let all_started = join_all(all_started.collect::<Vec<_>>());
        let acquired = self.acquired.clone();
        let started = async {
            all_started.await;
            acquired.await // a controller may have no sources
        };
        tokio::select! {
            biased;
            Some(exit) = self.next() => match exit {
                SourceExit::InformerStopped(informer) => Err(ControllerError::InformerStopped(informer)),
                SourceExit::Stopped | SourceExit::NotLeader => Ok(false),
            },
            is_leader = started => Ok(is_leader),
        }
    }

    /// Starts a source.
    pub(super) fn spawn(&mut self, added: AddedSource<Q>) {
        let (keys, acquired) = (self.keys.clone(), self.acquired.clone());
        self.tasks.spawn(run_source(added, keys, acquired, self.stop.child_token()));
    }

    /// Waits for the next task that returns. Returns `None` if there are no tasks.
    pub(super) async fn next(&mut self) -> Option<SourceExit> {
        Some(self.tasks.join_next().await?.unwrap_or_else(resume_panic))
    }

    /// Waits until all sources are stopped.
    pub(super) async fn wait(&mut self) {
        while self.next().await.is_some() {}
    }
}

fn resume_panic(error: JoinError) -> SourceExit {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => SourceExit::Stopped, // the runtime shuts down
    }
}

/// Waits for the caches and for leadership, then queues keys until the source is stopped.
async fn run_source<Q: RequestKey>(
    added: AddedSource<Q>,
    keys: KeyQueue<Q>,
    acquired: Acquired,
    stop: CancellationToken,
) -> SourceExit {
    let AddedSource { source, removed, started, running } = added;
    let _running = running; // dropped when this task returns
    let mut informer_stopped = source.informer_stopped();
    let start = async {
        source.wait_for_caches().await;
        if !acquired.await {
            return None;
        }
        Some(source.start(keys, stop.clone()).await)
    };
    let source = tokio::select! {
        biased;
        () = stop.cancelled() => return SourceExit::Stopped,
        () = removed.cancelled() => return SourceExit::Stopped,
        informer = &mut informer_stopped => return SourceExit::InformerStopped(informer),
        source = start => source,
    };
    let Some(SourceShutdown(shutdown)) = source else { return SourceExit::NotLeader };
    let _dropped = started.send(());
    let exit = tokio::select! {
        biased;
        () = stop.cancelled() => SourceExit::Stopped,
        () = removed.cancelled() => SourceExit::Stopped,
        informer = informer_stopped => SourceExit::InformerStopped(informer),
    };
    stop.cancel();
    shutdown.await;
    exit
}

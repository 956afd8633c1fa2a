//! `TaskGroup`: tasks of a manager that are stopped together and awaited.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Failure, Leadership};

/// Time limit for aborted tasks to stop. A task that does not reach an await in this time counts as
/// still running.
pub(super) const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The work of a task. It receives the leadership under which it runs, and a token that is cancelled
/// when it must stop.
pub(super) type TaskFn =
    Box<dyn FnOnce(Leadership, CancellationToken) -> BoxFuture<'static, Result<(), Failure>> + Send>;

/// A stage of a manager that runs tasks. See `stages` for their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Http,
    Election,
    Runnables,
}

/// The failure of a task.
#[derive(Debug)]
pub(super) enum TaskFailure {
    LeadershipLost,
    Failed(String, Failure),
    Panicked(String),
}

/// Receives the failures of all tasks of a manager, in the order in which they happen.
pub(super) struct Failures(mpsc::Receiver<(Stage, TaskFailure)>);

/// Reports failures of the tasks of one stage.
#[derive(Clone)]
pub(super) struct FailureReporter {
    stage: Stage,
    sender: mpsc::Sender<(Stage, TaskFailure)>,
}

impl Failures {
    /// Creates a channel for at most `capacity` failures.
    pub(super) fn channel(capacity: usize) -> (impl Fn(Stage) -> FailureReporter, Self) {
        let (sender, receiver) = mpsc::channel(capacity);
        (move |stage| FailureReporter { stage, sender: sender.clone() }, Self(receiver))
    }

    /// Waits for the next failure. Never returns if no task can fail.
    pub(super) async fn next(&mut self) -> TaskFailure {
        match self.0.recv().await {
            Some((_, failure)) => failure,
            None => std::future::pending().await,
        }
    }

    /// Returns the next failure of this stage that was already reported, and discards earlier ones of
    /// other stages.
    pub(super) fn reported(&mut self, stage: Stage) -> Option<TaskFailure> {
        std::iter::from_fn(|| self.0.try_recv().ok())
            .find_map(|(from, failure)| (from == stage).then_some(failure))
    }
}

impl FailureReporter {
    pub(super) fn report(&self, failure: TaskFailure) {
        // The channel has capacity for all failures. After the manager returned, the receiver is closed.
        let _ignored = self.sender.try_send((self.stage, failure));
    }
}

/// Tasks that are stopped together. If the group is dropped, its tasks are aborted.
pub(super) struct TaskGroup {
    tasks: JoinSet<TaskEnd>,
    handles: Vec<(String, AbortHandle)>,
    /// A task that returns before the stop has lost its lease. If the lease was renewed late, other
    /// tasks may not observe the loss.
    ends_only_on_stop: bool,
    stop: CancellationToken,
    /// Copies of a task's stop token may outlive the task. They are cancelled when the group is dropped.
    _cancel_on_drop: DropGuard,
    reporter: FailureReporter,
    /// A task panicked or was aborted: one of its requests may still be in flight.
    was_cut_short: bool,
}

/// The end state of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskEnd {
    Completed,
    /// The task was dropped at an await, or it panicked.
    CutShort,
}

impl TaskGroup {
    pub(super) fn new(reporter: FailureReporter) -> Self {
        let stop = CancellationToken::new();
        let _cancel_on_drop = stop.clone().drop_guard();
        Self {
            tasks: JoinSet::new(),
            handles: Vec::new(),
            ends_only_on_stop: false,
            stop,
            _cancel_on_drop,
            reporter,
            was_cut_short: false,
        }
    }

    /// Treats a task that returns before the stop as a loss of leadership.
    pub(super) fn ends_only_on_stop(self) -> Self {
        Self { ends_only_on_stop: true, ..self }
    }

    /// Starts a task. It is dropped as soon as `leadership` is lost, also during a graceful shutdown.
    pub(super) fn spawn(&mut self, name: String, leadership: Leadership, run: TaskFn) {
        let (stop, reporter) = (self.stop.child_token(), self.reporter.clone());
        let (stopped, ends_only_on_stop) = (stop.clone(), self.ends_only_on_stop);
        let task_name = name.clone();
        let task = async move {
            let run_leadership = leadership.clone();
            let result = tokio::select! {
                biased;
                () = lease_lost(leadership) => Err(TaskFailure::LeadershipLost),
                result = AssertUnwindSafe(async move { run(run_leadership, stop).await }).catch_unwind() => {
                    match result {
                        Ok(Ok(())) if ends_only_on_stop && !stopped.is_cancelled() => {
                            Err(TaskFailure::LeadershipLost)
                        }
                        Ok(Ok(())) => Ok(()),
                        Ok(Err(failure)) => Err(TaskFailure::Failed(task_name, failure)),
                        Err(_) => Err(TaskFailure::Panicked(task_name)),
                    }
                }
            };
            let end = match &result {
                Ok(()) | Err(TaskFailure::Failed(..)) => TaskEnd::Completed,
                Err(TaskFailure::LeadershipLost | TaskFailure::Panicked(_)) => TaskEnd::CutShort,
            };
            if let Err(failure) = result {
                reporter.report(failure);
            }
            end
        };
        let handle = self.tasks.spawn(task);
        self.handles.push((name, handle));
    }

    /// Cancels the stop token and waits for the tasks until the deadline. Then aborts remaining tasks.
    /// Returns whether all tasks stopped in time.
    pub(super) async fn stop(&mut self, deadline: Instant) -> bool {
        self.stop.cancel();
        let in_time = timeout_at(deadline, self.join_all()).await.is_ok();
        if !in_time {
            tracing::warn!(tasks = ?self.still_running(), "tasks did not stop in time; aborting them");
            self.abort().await;
        }
        in_time
    }

    /// Aborts the tasks without a graceful stop.
    pub(super) async fn abort(&mut self) {
        self.tasks.abort_all();
        let _in_time = timeout(ABORT_TIMEOUT, self.join_all()).await;
    }

    async fn join_all(&mut self) {
        while let Some(joined) = self.tasks.join_next().await {
            self.was_cut_short |= was_cut_short(joined);
        }
    }

    /// Returns whether a task panicked or was dropped at an await. A task that is still running is not
    /// included.
    pub(super) fn was_cut_short(&self) -> bool {
        self.was_cut_short
    }

    /// Returns the names of the running tasks.
    pub(super) fn still_running(&self) -> Vec<String> {
        let running = self.handles.iter().filter(|(_, task)| !task.is_finished());
        running.map(|(name, _)| name.clone()).collect()
    }
}

fn was_cut_short(joined: Result<TaskEnd, JoinError>) -> bool {
    joined.map_or(true, |end| end == TaskEnd::CutShort)
}

/// Returns when this process was the leader and its lease expired. Never returns if the election was
/// stopped, because it then releases the lease.
async fn lease_lost(leadership: Leadership) {
    if leadership.acquired().await {
        leadership.lost().await;
        if !leadership.has_ended() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

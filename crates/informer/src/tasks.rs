//! `InformerTasks`: counts the tasks and threads of an informer, also for its factory.

use std::future::Future;

use tokio::runtime::Handle;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Counts the running tasks and threads of one informer. Clones count together.
///
/// The factory of the informer counts them too, because its shutdown also waits for the tasks of
/// informers that it no longer knows.
#[derive(Clone, Default)]
pub(crate) struct InformerTasks {
    informer: TaskTracker,
    factory: Option<TaskTracker>,
}

/// Counts as a running task until it is dropped.
pub(crate) struct TaskToken {
    _informer: TaskTrackerToken,
    _factory: Option<TaskTrackerToken>,
}

impl InformerTasks {
    pub(crate) fn new(factory: Option<TaskTracker>) -> Self {
        Self { informer: TaskTracker::new(), factory }
    }

    pub(crate) fn token(&self) -> TaskToken {
        let factory = self.factory.as_ref().map(TaskTracker::token);
        TaskToken { _informer: self.informer.token(), _factory: factory }
    }

    pub(crate) fn spawn_on(&self, task: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        let task = self.informer.track_future(task);
        match &self.factory {
            Some(factory) => drop(factory.spawn_on(task, runtime)),
            None => drop(runtime.spawn(task)),
        }
    }

    /// Lets [`InformerTasks::wait`] return when no task runs.
    pub(crate) fn close(&self) {
        self.informer.close();
    }

    pub(crate) async fn wait(&self) {
        self.informer.wait().await;
    }
}

//! `ManagerHandle`: adds controllers to a running manager.

use std::{fmt, sync::Arc};

use futures_util::FutureExt;
use kube_informer::{Cached, InformerFactory};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot, watch},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    RunsOn,
    runnables::{IN_FLIGHT_TIME, TaskKind, TaskSpec},
};
use crate::{
    Controller, Failure, Leadership, Reconciler,
    controller::{PreparedController, state::ControllerStates},
    observe::metrics::Metrics,
    shards::gate::SlotGate,
};

/// The name of the task that runs the added controllers.
const TASK: &str = "controllers added at run time";

/// Adds controllers to a running [`Manager`](crate::Manager), for example when a CRD is installed. Handles
/// are cheap to clone.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_operator::{Action, Controller, Failure, Manager, Request, RunsOn};
/// # async fn example(mut manager: Manager) -> Result<(), Box<dyn std::error::Error>> {
/// let (handle, factory) = (manager.handle(), manager.factory().clone());
/// manager.add_task("controllers", RunsOn::LeaderOnly, async move |stop| {
///     let controller = Controller::new(&factory.informer::<ConfigMap>()?);
///     let reconcile = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) };
///     let controller = handle.add_controller(controller, reconcile)?;
///     stop.cancelled().await;
///     controller.remove().await;
///     Ok(())
/// });
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ManagerHandle {
    parts: HandleParts,
    added: AddedQueue,
}

/// Holds the added controllers that do not run yet. Their number is bounded, because their names differ.
#[derive(Clone)]
struct AddedQueue {
    /// `None` after the queue was closed.
    controllers: Arc<Mutex<Option<Vec<NewController>>>>,
    changed: Arc<Notify>,
}

impl AddedQueue {
    fn new() -> Self {
        Self { controllers: Arc::new(Mutex::new(Some(Vec::new()))), changed: Arc::default() }
    }

    /// Returns false if the queue is closed.
    fn push(&self, added: NewController) -> bool {
        let mut controllers = self.controllers.lock();
        let Some(controllers) = &mut *controllers else { return false };
        controllers.push(added);
        self.changed.notify_one();
        true
    }

    /// Waits for added controllers.
    async fn take(&self) -> Vec<NewController> {
        loop {
            let added = self.controllers.lock().as_mut().map(std::mem::take).unwrap_or_default();
            if !added.is_empty() {
                return added;
            }
            self.changed.notified().await;
        }
    }

    fn close(&self) {
        let closed = self.controllers.lock().take();
        drop(closed); // without the lock
    }
}

/// Closes the queue when the manager stops, or is dropped before it runs.
struct CloseOnDrop(AddedQueue);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The parts of a manager that an added controller needs.
#[derive(Clone)]
pub(super) struct HandleParts {
    pub(super) factory: InformerFactory,
    pub(super) leadership: Leadership,
    pub(super) metrics: Metrics,
    pub(super) gate: Option<SlotGate>,
    pub(super) controllers: ControllerStates,
}

struct NewController {
    prepared: PreparedController,
    leadership: Leadership,
    removed: CancellationToken,
    metrics: Metrics,
    /// Dropped when the controller has stopped.
    running: oneshot::Sender<()>,
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerHandle").finish_non_exhaustive()
    }
}

/// Describes the reason why a controller was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddControllerError {
    /// Another controller has the same name. Metrics and pages could not distinguish them.
    #[error("failed to add the controller {0:?}: another controller has this name; use `Controller::named`")]
    DuplicateName(String),
    /// The controller needs objects of all slots, but an informer caches only the slots of this process.
    #[error(
        "failed to add the controller {controller:?}: it needs objects of all slots, but the informer {informer} caches only the slots of this process; use `Selection::all_slots`, or `ClusterSharding::ByKey` for many clusters"
    )]
    IncompleteInformer {
        /// The name of the controller.
        controller: String,
        /// The name of the informer.
        informer: String,
    },
    /// The manager stops, or was dropped before it ran.
    #[error("failed to add the controller {0:?}: the manager has stopped")]
    ManagerStopped(String),
}

impl ManagerHandle {
    /// Adds a controller that runs as a controller of
    /// [`Manager::add_controller`](crate::Manager::add_controller). If the manager does not run yet, the
    /// controller starts with the manager.
    ///
    /// The controller starts when its caches are synced. The manager starts and stops the informers of the
    /// controller, but does not check their permissions, and does not wait for their caches at its start. If
    /// the controller fails, the manager stops.
    ///
    /// # Errors
    /// Returns an [`AddControllerError`] if another controller has the same name, if the manager has stopped,
    /// or if an informer caches only some slots, and the controller needs objects of all slots.
    pub fn add_controller<T: Cached>(
        &self,
        controller: Controller<T>,
        reconciler: impl Reconciler<T>,
    ) -> Result<AddedController, AddControllerError> {
        let runs_on = if self.parts.gate.is_some() { RunsOn::EachShard } else { RunsOn::LeaderOnly };
        self.add_controller_on(runs_on, controller, reconciler)
    }

    /// Adds a controller like [`add_controller`](Self::add_controller). `runs_on` selects the processes that
    /// run it.
    ///
    /// # Errors
    /// Returns the errors of [`add_controller`](Self::add_controller).
    pub fn add_controller_on<T: Cached>(
        &self,
        runs_on: RunsOn,
        controller: Controller<T>,
        reconciler: impl Reconciler<T>,
    ) -> Result<AddedController, AddControllerError> {
        let HandleParts { factory, leadership, metrics, gate, controllers } = &self.parts;
        let gate = gate.clone().filter(|_| runs_on == RunsOn::EachShard);
        let is_sharded = gate.is_some();
        let prepared = controller.prepare(reconciler, metrics, gate);
        let state = prepared.state.clone();
        let name = state.options.name.to_string();
        if let Some(informer) = prepared.incomplete_informer.clone().filter(|_| self.parts.gate.is_some()) {
            return Err(AddControllerError::IncompleteInformer { controller: name, informer });
        }
        if !controllers.add_unique(state, IN_FLIGHT_TIME) {
            return Err(AddControllerError::DuplicateName(name));
        }
        prepared.join(factory);
        let leadership = match runs_on {
            RunsOn::EachShard if is_sharded => Leadership::always(),
            RunsOn::LeaderOnly | RunsOn::EachShard => leadership.clone(),
            RunsOn::EveryReplica => Leadership::always(),
        };
        let (removed, (running, stopped)) = (CancellationToken::new(), oneshot::channel());
        let metrics = metrics.clone();
        let added = NewController { prepared, leadership, removed: removed.clone(), metrics, running };
        if !self.added.push(added) {
            controllers.remove(&name);
            return Err(AddControllerError::ManagerStopped(name));
        }
        Ok(AddedController { removed, stopped })
    }
}

/// Refers to a controller that was added with [`ManagerHandle::add_controller`]. Dropping it does not remove
/// the controller.
#[derive(Debug)]
pub struct AddedController {
    removed: CancellationToken,
    /// Closed when the controller has stopped.
    stopped: oneshot::Receiver<()>,
}

impl AddedController {
    /// Stops the controller, and waits for its running reconciles. The informers of the controller continue
    /// to run until the manager stops, or until they are removed from the factory.
    ///
    /// Do not wait for this method in a reconcile of the controller, because they would wait for each other
    /// indefinitely.
    ///
    /// # Cancel safety
    /// The first poll stops the controller. If you drop the future after this poll, you do not know when its
    /// last reconcile completes.
    pub async fn remove(self) {
        self.removed.cancel();
        let _stopped = self.stopped.await;
    }
}

/// Returns a handle, and the task that runs its controllers.
pub(super) fn channel(parts: HandleParts) -> (ManagerHandle, TaskSpec) {
    let added = AddedQueue::new();
    let receiver = CloseOnDrop(added.clone());
    let (failure, first_failure) = watch::channel(None);
    let controllers = parts.controllers.clone();
    let task = TaskSpec {
        name: TASK.to_owned(),
        leadership: Leadership::always(),
        kind: TaskKind::AddedControllers(first_failure),
        run: Box::new(move |_, stop| run(receiver, controllers, failure, stop).boxed()),
    };
    (ManagerHandle { parts, added }, task)
}

/// Runs the added controllers until `stop` is cancelled. If a controller fails, stops the other controllers,
/// and returns the failure.
async fn run(
    added: CloseOnDrop,
    controllers: ControllerStates,
    failure: watch::Sender<Option<String>>,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let stop = stop.child_token();
    let failure = FirstFailure { failure, stop: stop.clone() };
    let mut running = JoinSet::new();
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(joined) = running.join_next() => {
                if failure.record_panic(joined) == Some(ControllerEnd::LostLeadership) {
                    return Ok(()); // the group reports that leadership is lost
                }
            }
            added = added.0.take() => {
                for added in added {
                    running.spawn(run_controller(added, controllers.clone(), failure.clone()));
                }
            }
        }
    }
    drop(added);
    while let Some(joined) = running.join_next().await {
        failure.record_panic(joined);
    }
    let failure = failure.failure.borrow().clone();
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Holds the first failure of the added controllers.
#[derive(Clone)]
struct FirstFailure {
    failure: watch::Sender<Option<String>>,
    /// Stops all added controllers.
    stop: CancellationToken,
}

impl FirstFailure {
    fn record(&self, error: String) {
        self.stop.cancel();
        self.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(error);
            is_first
        });
    }

    fn record_panic(&self, joined: Result<ControllerEnd, JoinError>) -> Option<ControllerEnd> {
        joined.map_err(|error| self.record(error.to_string())).ok()
    }
}

/// The reason why an added controller returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControllerEnd {
    /// The controller was removed, has failed, or all controllers stop.
    Stopped,
    /// A worker has observed the expired lease, even if the lease was renewed late.
    LostLeadership,
}

/// Runs a controller until it is removed, or until all added controllers stop. Records a failure
/// immediately, because running reconciles can take long.
async fn run_controller(
    added: NewController,
    controllers: ControllerStates,
    failure: FirstFailure,
) -> ControllerEnd {
    let NewController { prepared, leadership, removed, metrics, running } = added;
    let _running = running; // dropped when this task returns
    let state = prepared.state.clone();
    let stop = failure.stop.child_token();
    let record = |error| failure.record(format!("controller {}: {error}", state.options.name));
    let watch = async {
        tokio::select! {
            () = removed.cancelled() => stop.cancel(),
            error = state.wait_for_failure() => record(error),
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        result = prepared.run(leadership, stop.clone()) => result.unwrap_or_else(record),
        () = watch => {} // never returns
    }
    // A new controller can have the same name after the removal.
    metrics.remove_controller(&state.options.name);
    controllers.remove(&state.options.name);
    if stop.is_cancelled() { ControllerEnd::Stopped } else { ControllerEnd::LostLeadership }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;
    use kube_testserver::Server;
    use tokio::{
        task::yield_now,
        time::{Instant, advance, sleep, timeout},
    };

    use super::*;
    use crate::{Action, Request, election::leadership::LeaderState};

    const SECOND: Duration = Duration::from_secs(1);

    /// A worker observes the expired lease, and the lease is renewed before the timers fire. The task of the
    /// added controllers must return, so that the manager reports the lost lease.
    #[tokio::test(start_paused = true)]
    async fn task_of_added_controllers_stops_after_observed_loss_of_lease() {
        let server = Server::new();
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let until = Instant::now() + 10 * SECOND + Duration::from_micros(500);
        let (leader_state, receiver) = watch::channel(LeaderState::Leading(until));
        let controllers = ControllerStates::default();
        let (handle, task) = channel(HandleParts {
            factory: factory.clone(),
            leadership: Leadership::new(receiver),
            gate: None,
            metrics: Metrics::default(),
            controllers: controllers.clone(),
        });
        let running = tokio::spawn((task.run)(Leadership::always(), CancellationToken::new()));
        let controller = Controller::<ConfigMap>::new(&factory.informer().unwrap());
        let requests = controller.handle();
        let reconcile = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::AwaitChange) };
        let _added = handle.add_controller(controller, reconcile).unwrap();
        sleep(SECOND).await;
        advance(until - Instant::now() + Duration::from_micros(100)).await;
        requests.reconcile("default/a".parse().unwrap());
        for _ in 0..50 {
            yield_now().await; // the worker sees the expired lease, and no timer fires
        }
        leader_state.send_replace(LeaderState::Leading(Instant::now() + 3600 * SECOND));
        timeout(60 * SECOND, running).await.unwrap().unwrap().unwrap();
        assert_eq!(controllers.current().len(), 0);
        factory.shutdown().await;
    }
}

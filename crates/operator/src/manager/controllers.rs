//! Adds controllers to a `Manager`.

use std::sync::Arc;

use futures_util::{FutureExt, TryFutureExt};
use kube_informer::Cached;

use super::{
    Manager, ManagerHandle, RunsOn,
    added::{self, HandleParts},
    permissions,
    runnables::{TaskKind, TaskSpec},
};
use crate::{
    Action, Controller, Failure, KeyController, KeyRequest, Leadership, Reconciler, RequestKey,
    controller::PreparedController,
};

impl Manager {
    /// Adds a controller that runs only on the leader. With
    /// [`ManagerOptions::shards`](crate::ManagerOptions::shards), the controller runs in every process
    /// instead, for the objects in the slots of the process.
    pub fn add_controller<T: Cached>(&mut self, controller: Controller<T>, reconciler: impl Reconciler<T>) {
        self.add_controller_on(self.default_runs_on(), controller, reconciler);
    }

    /// Adds a controller. `runs_on` selects the processes that run it. The manager starts and stops
    /// the informers of the controller, even if another factory created them.
    pub fn add_controller_on<T: Cached>(
        &mut self,
        runs_on: RunsOn,
        controller: Controller<T>,
        reconciler: impl Reconciler<T>,
    ) {
        let reads = controller.read_paths().flat_map(|path| permissions::rules_of_path(path, None, &["get"]));
        self.permissions.exact.extend(reads);
        let gate = self.gate.clone().filter(|_| runs_on == RunsOn::EachShard);
        let leadership = if gate.is_some() { Leadership::always() } else { self.leadership_for(runs_on) };
        let prepared = controller.prepare(reconciler, &self.metrics, gate);
        self.add_prepared(leadership, prepared);
    }

    /// Adds a controller for keys of the program's own type that runs only on the leader.
    pub fn add_key_controller<Q, F, R, E>(&mut self, controller: KeyController<Q>, reconcile: F)
    where
        Q: RequestKey,
        F: Fn(KeyRequest<Q>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        self.add_key_controller_on(RunsOn::LeaderOnly, controller, reconcile);
    }

    /// Adds a controller for keys of the program's own type. `runs_on` selects the processes that run it.
    pub fn add_key_controller_on<Q, F, R, E>(
        &mut self,
        runs_on: RunsOn,
        controller: KeyController<Q>,
        reconcile: F,
    ) where
        Q: RequestKey,
        F: Fn(KeyRequest<Q>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let prepared = controller.prepare(reconcile, &self.metrics);
        self.add_prepared(self.leadership_for(runs_on), prepared);
    }

    /// Returns a handle that adds controllers while the manager runs.
    pub fn handle(&mut self) -> ManagerHandle {
        if let Some(handle) = &self.handle {
            return handle.clone();
        }
        let parts = HandleParts {
            factory: self.factory.clone(),
            leadership: self.leadership.clone(),
            metrics: self.metrics.clone(),
            gate: self.gate.clone(),
            controllers: self.controllers.clone(),
        };
        let (handle, task) = added::channel(parts);
        self.runnables.push(task);
        self.handle = Some(handle.clone());
        handle
    }

    fn default_runs_on(&self) -> RunsOn {
        if self.gate.is_some() { RunsOn::EachShard } else { RunsOn::LeaderOnly }
    }

    pub(super) fn add_prepared(&mut self, leadership: Leadership, prepared: PreparedController) {
        prepared.join(&self.factory);
        if let Some(shards) = &mut self.shards {
            shards.reject_incomplete(&prepared);
        }
        let state = Arc::clone(&prepared.state);
        self.controllers.add(Arc::clone(&state));
        self.runnables.push(TaskSpec {
            name: state.options.name.to_string(),
            leadership,
            kind: TaskKind::Controller(state),
            run: Box::new(move |leadership, stop| {
                prepared.run(leadership, stop).map_err(Failure::from).boxed()
            }),
        });
    }
}

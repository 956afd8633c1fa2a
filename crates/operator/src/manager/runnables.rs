//! `Runnables`: the controllers and tasks of a program, as a manager runs them.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::task_group::{ABORT_TIMEOUT, FailureReporter, TaskFailure, TaskFn, TaskGroup};
use crate::{
    Failure, Leadership,
    controller::state::{ControllerState, ControllerStates},
};

/// Time for which an aborted task may have a request in flight. It equals the default time that
/// candidates wait after a crash.
pub(super) const IN_FLIGHT_TIME: Duration = Duration::from_secs(15);

/// Limit for the grace period: a longer one could overflow a clock.
const MAX_GRACE_PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// A controller or a task that has not started.
pub(super) struct TaskSpec {
    pub(super) name: String,
    /// The task runs only while this process is the leader.
    pub(super) leadership: Leadership,
    pub(super) kind: TaskKind,
    pub(super) run: TaskFn,
}

/// Decides when a task is stopped. Controllers stop first, because they may depend on tasks.
pub(super) enum TaskKind {
    Controller(Arc<ControllerState>),
    /// Runs the controllers that are added while the manager runs.
    /// The receiver contains the first failure of these controllers.
    AddedControllers(watch::Receiver<Option<String>>),
    Task,
}

/// Running controllers and tasks. If this is dropped, they are aborted.
pub(super) struct Runnables {
    controllers: TaskGroup,
    tasks: TaskGroup,
    states: ControllerStates,
    reporter: FailureReporter,
}

/// Result of [`Runnables::stop`].
#[derive(Debug)]
pub(super) struct StopReport {
    /// Controllers and tasks that could not be aborted, because they block their thread.
    pub(super) still_running: Vec<String>,
    /// All tasks returned without an abort or a panic. A request can then not be in flight.
    pub(super) all_completed: bool,
}

impl Runnables {
    pub(super) fn new(reporter: FailureReporter, states: ControllerStates) -> Self {
        Self {
            controllers: TaskGroup::new(reporter.clone()).ends_only_on_stop(),
            tasks: TaskGroup::new(reporter.clone()),
            states,
            reporter,
        }
    }

    pub(super) fn start(&mut self, specs: Vec<TaskSpec>) {
        for TaskSpec { name, leadership, kind, run } in specs {
            match kind {
                TaskKind::Controller(state) => {
                    let failed = async move { Failure::from(state.wait_for_failure().await) };
                    let run = self.report_early(name.clone(), failed, run);
                    self.controllers.spawn(name, leadership, run);
                }
                TaskKind::AddedControllers(failure) => {
                    let run = self.report_early(name.clone(), wait_for_failure(failure), run);
                    self.controllers.spawn(name, leadership, run);
                }
                TaskKind::Task => self.tasks.spawn(name, leadership, run),
            }
        }
    }

    /// Reports the failure of a controller immediately. The controller itself returns later, when its
    /// reconciles have returned, and the grace period limits them.
    fn report_early(
        &self,
        name: String,
        failed: impl Future<Output = Failure> + Send + 'static,
        run: TaskFn,
    ) -> TaskFn {
        let reporter = self.reporter.clone();
        Box::new(move |leadership, stop| {
            async move {
                let report = async {
                    let failure = failed.await;
                    reporter.report(TaskFailure::Failed(name, failure));
                    std::future::pending().await
                };
                tokio::select! {
                    biased;
                    result = run(leadership, stop) => result,
                    never = report => never,
                }
            }
            .boxed()
        })
    }

    /// Stops the controllers, then the tasks. Waits at most for the grace period, and then aborts
    /// remaining tasks.
    pub(super) async fn stop(mut self, grace_period: Duration) -> StopReport {
        let deadline = Instant::now() + grace_period.min(MAX_GRACE_PERIOD);
        let controllers_in_time = self.controllers.stop(deadline).await;
        let tasks_in_time = self.tasks.stop(deadline.max(Instant::now() + ABORT_TIMEOUT)).await;
        let states = self.states.all();
        let reconciles = async {
            for state in &states {
                state.reconciles.close();
                state.reconciles.wait().await;
            }
        };
        let _in_time = timeout(ABORT_TIMEOUT, reconciles).await;
        let reconciling = states.iter().filter(|state| !state.reconciles.is_empty());
        let reconciling = reconciling.map(|state| state.options.name.to_string());
        let mut still_running: Vec<_> = self.controllers.still_running();
        still_running.extend(self.tasks.still_running());
        still_running.extend(reconciling);
        still_running.sort_unstable();
        still_running.dedup();
        let was_cut_short = self.controllers.was_cut_short()
            || self.tasks.was_cut_short()
            || states.iter().any(|state| state.was_cut_short_within(IN_FLIGHT_TIME));
        StopReport { still_running, all_completed: controllers_in_time && tasks_in_time && !was_cut_short }
    }
}

/// Never returns if no controller fails.
async fn wait_for_failure(mut failure: watch::Receiver<Option<String>>) -> Failure {
    match failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) {
        Some(failure) => failure.into(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryFutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;
    use kube_informer::InformerFactory;
    use kube_testserver::Server;
    use tokio::{
        sync::{mpsc, watch},
        task::yield_now,
        time::{advance, sleep},
    };

    use super::{
        super::task_group::{Failures, Stage},
        *,
    };
    use crate::{
        Action, Controller, Failure, Request, election::leadership::LeaderState, observe::metrics::Metrics,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A timer fires at the next millisecond. If the response to the renewal arrives before that, only
    /// a worker that reads the clock in between observes the expired lease.
    #[tokio::test(start_paused = true)]
    async fn controller_that_sees_lost_lease_fails_even_if_lease_returns() {
        let server = Server::new();
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let (request, requests) = mpsc::channel(9);
        let requests = futures_util::stream::unfold(requests, |mut requests| async {
            Some((requests.recv().await?, requests))
        });
        let controller = Controller::<ConfigMap>::new(&factory.informer().unwrap());
        let reconcile = |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::AwaitChange) };
        let prepared =
            controller.watches_stream("a test", requests).prepare(reconcile, &Metrics::default(), None);

        let until = Instant::now() + 10 * SECOND + Duration::from_micros(500);
        let (leader_state, receiver) = watch::channel(LeaderState::Leading(until));
        let (reporter, mut failures) = Failures::channel(9);
        let mut runnables = Runnables::new(reporter(Stage::Runnables), ControllerStates::default());
        runnables.start(vec![TaskSpec {
            name: "a controller".to_owned(),
            leadership: Leadership::new(receiver),
            kind: TaskKind::Controller(Arc::clone(&prepared.state)),
            run: Box::new(|leadership, stop| prepared.run(leadership, stop).map_err(Failure::from).boxed()),
        }]);
        sleep(SECOND).await;
        advance(until - Instant::now() + Duration::from_micros(100)).await;
        request.send("default/a".parse().unwrap()).await.unwrap();
        for _ in 0..50 {
            yield_now().await; // the worker sees the expired lease, and no timer fires
        }
        leader_state.send_replace(LeaderState::Leading(Instant::now() + 3600 * SECOND));
        let failure = timeout(60 * SECOND, failures.next()).await;
        assert!(matches!(failure, Ok(TaskFailure::LeadershipLost)), "{failure:?}");
    }
}

//! The program of `why --demo`: an operator of the demo server with a failing key and a slow key.

use std::{net::Ipv4Addr, time::Duration};

use http::Uri;
use k8s_openapi::api::apps::v1::Deployment;
use kube_client::{
    Api,
    api::{Patch, PatchParams},
};
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, Manager, ManagerError, ManagerOptions, Request,
    informer::Informer,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{error::WhyError, model::Explanation, source::Source};
use crate::{connection::Session, demo::NAMESPACE, error::CliError};

/// The time between two reads of the queues.
const POLL_PERIOD: Duration = Duration::from_millis(20);
/// The maximum number of reads for one change.
const MAX_POLLS: usize = 20;
/// The maximum time until a key has failed.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that the slow reconcile gets at the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);
/// The controller of the demo.
const CONTROLLER: &str = "prices";
/// The Deployment whose reconciles fail.
const FAILING: &str = "payments";
/// The failures after which the demo is ready.
const FAILURES: u64 = 4;

/// A running operator. [`DemoOperator::stop`] stops the operator.
pub(super) struct DemoOperator {
    /// The URL of its pages.
    pub(super) url: Uri,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl DemoOperator {
    /// Starts the operator.
    ///
    /// # Errors
    ///
    /// Fails if no address of loopback can be bound.
    pub(super) fn start(session: &Session) -> Result<Self, CliError> {
        let failed = |error: ManagerError| CliError::Command(Box::new(error));
        let options = ManagerOptions {
            bind_address: Some((Ipv4Addr::LOCALHOST, 0).into()),
            explain_changes: true,
            graceful_shutdown_timeout: SHUTDOWN_TIMEOUT,
            election: Some(ElectionOptions::new(NAMESPACE, "price-operator")),
            ..ManagerOptions::default()
        };
        let mut manager = Manager::new(session.client.clone(), options).map_err(failed)?;
        let deployments: Informer<Deployment> =
            manager.factory().informer().map_err(|error| CliError::Command(Box::new(error)))?;
        let controller = Controller::new(&deployments).named(CONTROLLER).concurrency(4);
        manager.add_controller(controller, reconcile);
        let address = manager.local_address().map(|address| address.to_string()).unwrap_or_default();
        let url = format!("http://{address}").parse().map_err(|error| CliError::Command(Box::new(error)))?;
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        Ok(Self { url, stop, running })
    }

    /// Waits until a key has failed several times, and changes its object, so that the key has a history.
    ///
    /// # Errors
    ///
    /// Fails if no key fails within 20 s, or if the object cannot be changed.
    pub(super) async fn until_failing(&self, session: &Session, source: &Source) -> Result<(), CliError> {
        let failing = async {
            let has_failed = |run: &Explanation| run.failures >= FAILURES;
            while !until(source, has_failed).await {}
            let has_changes =
                |run: &Explanation| run.last_run.as_ref().is_some_and(|run| !run.changes.is_empty());
            // A retry of the key can hide the changes before they are read.
            for replicas in 21.. {
                scale(session, replicas).await?;
                if until(source, has_changes).await {
                    break;
                }
            }
            Ok(())
        };
        let late = |_| CliError::from(WhyError::LateDemo);
        tokio::time::timeout(START_TIMEOUT, failing).await.map_err(late)?
    }

    /// Stops the operator, and waits for its tasks.
    ///
    /// # Errors
    ///
    /// Fails if the operator returned an error.
    pub(super) async fn stop(self) -> Result<(), CliError> {
        self.stop.cancel();
        match self.running.await {
            // The slow reconcile does not end by itself.
            Ok(Ok(()) | Err(ManagerError::ShutdownTimeout { .. })) => Ok(()),
            Ok(Err(error)) => Err(CliError::Command(Box::new(error))),
            Err(panicked) => Err(CliError::Command(Box::new(panicked))),
        }
    }
}

/// Reads the explanation of the failing key until it is as expected, at most some times.
async fn until(source: &Source, is_expected: impl Fn(&Explanation) -> bool) -> bool {
    let key = format!("{NAMESPACE}/{FAILING}");
    for _ in 0..MAX_POLLS {
        // Until the operator runs, the page does not exist.
        let explanation: Result<Explanation, _> = source.explanation(CONTROLLER, &key).await;
        if explanation.is_ok_and(|explanation| is_expected(&explanation)) {
            return true;
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
    false
}

/// Changes the object of the failing key.
async fn scale(session: &Session, replicas: u32) -> Result<(), CliError> {
    let deployments: Api<Deployment> = Api::namespaced(session.client.clone(), NAMESPACE);
    let params = PatchParams { field_manager: Some("kubectl-scale".to_owned()), ..PatchParams::default() };
    let scaled = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let scaled = deployments.patch(FAILING, &params, &scaled).await;
    scaled.map(drop).map_err(|error| CliError::request(format!("scale the Deployment {FAILING}"), error))
}

/// Fails for one Deployment, and is slow for a second Deployment.
async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
    match request.key.name() {
        FAILING => Err(Failure::from("no price for the image registry.example/payments/app:1.4.2")),
        "search" => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(Action::Done)
        }
        _ => Ok(Action::Done),
    }
}

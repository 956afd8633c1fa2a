//! The program of `why --demo`: an operator of the demo server with a failing key and a slow key.

use std::{net::Ipv4Addr, time::Duration};

use http::Uri;
use k8s_openapi::api::apps::v1::Deployment;
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, Manager, ManagerError, ManagerOptions, Request,
    informer::Informer,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{model::Queue, source::Source};
use crate::{connection::Session, demo::NAMESPACE, error::CliError};

/// The time between two reads of the queues.
const POLL_PERIOD: Duration = Duration::from_millis(50);
/// The maximum time until a key has failed.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The failures after which the demo is ready.
const FAILURES: u64 = 3;

/// A running operator. It stops with [`DemoOperator::stop`].
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
            election: Some(ElectionOptions::new(NAMESPACE, "price-operator")),
            ..ManagerOptions::default()
        };
        let mut manager = Manager::new(session.client.clone(), options).map_err(failed)?;
        let deployments: Informer<Deployment> =
            manager.factory().informer().map_err(|error| CliError::Command(Box::new(error)))?;
        let controller = Controller::new(&deployments).named("prices").concurrency(4);
        manager.add_controller(controller, reconcile);
        let address = manager.local_address().map(|address| address.to_string()).unwrap_or_default();
        let url = format!("http://{address}").parse().map_err(|error| CliError::Command(Box::new(error)))?;
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        Ok(Self { url, stop, running })
    }

    /// Waits until a key has failed several times.
    ///
    /// # Errors
    ///
    /// Fails if no key fails within 20 s.
    pub(super) async fn until_failing(&self, source: &Source) -> Result<(), CliError> {
        let failing = async {
            loop {
                let queues: Vec<Queue> = source.json("/debug/queues").await.unwrap_or_default();
                let mut keys = queues.iter().flat_map(|queue| &queue.failed);
                if keys.any(|key| key.failures >= FAILURES) {
                    return;
                }
                tokio::time::sleep(POLL_PERIOD).await;
            }
        };
        let late = |_| CliError::Usage("the operator of the demo did not start in time".to_owned());
        tokio::time::timeout(START_TIMEOUT, failing).await.map_err(late)
    }

    /// Stops the operator, and waits for its tasks.
    ///
    /// # Errors
    ///
    /// Fails if the operator ended with an error.
    pub(super) async fn stop(self) -> Result<(), CliError> {
        self.stop.cancel();
        match self.running.await {
            Ok(result) => result.map_err(|error| CliError::Command(Box::new(error))),
            Err(panicked) => Err(CliError::Command(Box::new(panicked))),
        }
    }
}

/// Fails for one Deployment, and is slow for another.
async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
    match request.key.name() {
        "payments" => Err(Failure::from("no price for the image registry.example/payments/app:1.4.2")),
        "search" => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(Action::Done)
        }
        _ => Ok(Action::Done),
    }
}

//! `Demo`: the server of `--demo`, with example data. The server listens on loopback.

mod objects;
mod workload;

use std::net::{Ipv4Addr, SocketAddr};

use kube_client::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_testserver::{Listening, Rights, Server};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::CliError;

/// The namespace of the example data.
pub(crate) const NAMESPACE: &str = "shop";
/// The token and the name of the user with all rights.
const ADMIN: &str = "admin";

/// A server with example data. A task changes objects, until [`Demo::stop`].
pub(crate) struct Demo {
    listening: Listening,
    stop: CancellationToken,
    workload: JoinHandle<()>,
}

impl Demo {
    /// Starts the server, creates the example data, and starts to change it.
    ///
    /// # Errors
    ///
    /// Fails if no address of loopback can be bound, or if an object cannot be created.
    pub(crate) async fn start() -> Result<Self, CliError> {
        let server = Server::builder().seed(1).rbac(true).user(ADMIN, ADMIN, Rights::All).build();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = server.listen(address).await.map_err(|error| CliError::Command(Box::new(error)))?;
        let client = Client::try_from(config(&listening).await?);
        let client = client.map_err(|error| CliError::request("connect to the demo server", error))?;
        objects::create(&server, &client).await?;
        let stop = CancellationToken::new();
        let workload = tokio::spawn(workload::run(client, stop.clone()));
        Ok(Self { listening, stop, workload })
    }

    /// Returns the configuration of a client with all rights.
    pub(crate) async fn config(&self) -> Result<Config, CliError> {
        config(&self.listening).await
    }

    /// Stops the changes and the server.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the task of the changes stops later.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // A panic of the task is already printed.
        let _ = self.workload.await;
        drop(self.listening);
    }
}

async fn config(listening: &Listening) -> Result<Config, CliError> {
    let invalid = |source| CliError::Kubeconfig { file: None, source: Box::new(source) };
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig()).map_err(invalid)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(invalid)?;
    NAMESPACE.clone_into(&mut config.default_namespace);
    Ok(config)
}

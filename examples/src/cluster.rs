//! The API server of an example: an embedded server with a simulated workload, or a real cluster.

use std::{error::Error as _, fmt::Debug, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use k8s_openapi::api::core::v1::Namespace;
use kube_client::{
    Api, Client, Config, Error, Resource,
    api::{DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, NamespaceResourceScope},
};
use kube_testserver::Server;
use serde::de::DeserializeOwned;

use crate::{
    cli, connection,
    duration::RunDuration,
    workload::{Workload, WorkloadHandle},
};

/// The HTTP status of a resource that the API server does not serve. If the API group is unknown, the body
/// contains text instead of a `Status`.
const NOT_FOUND: u16 = 404;
/// The interval between two changes of the simulated workload.
const WORKLOAD_INTERVAL: Duration = Duration::from_millis(150);

/// The command-line options that all examples share.
///
/// Without options, an example starts an embedded API server with a simulated workload.
#[derive(Debug, Clone, Parser)]
pub struct ClusterArgs {
    /// Connect to the cluster of the current kubeconfig context. In a Pod, connect to the cluster of the
    /// Pod. Without this option, the example starts an API server in memory.
    #[arg(long)]
    pub cluster: bool,
    /// Connect to the cluster of this kubeconfig context. This option implies --cluster.
    #[arg(long)]
    pub context: Option<String>,
    /// Use only the objects in this namespace.
    #[arg(long, short, value_parser = cli::namespace)]
    pub namespace: Option<String>,
    /// Run for this time, for example 30s, 2m, 1h or forever.
    #[arg(long, value_name = "TIME", default_value = "6s")]
    pub duration: RunDuration,
}

/// The client of an example, and the embedded server if one is used.
pub struct Cluster {
    /// The client for informers, factories and `kube_client::Api`.
    pub client: Client,
    /// The embedded server and its workload, or `None` on a real cluster.
    pub embedded: Option<Embedded>,
}

/// An API server in memory with a simulated workload.
pub struct Embedded {
    /// The server, which also writes objects without a client.
    pub server: Server,
    workload: WorkloadHandle,
}

impl ClusterArgs {
    /// Returns true if the example uses the embedded server.
    pub fn is_embedded(&self) -> bool {
        !self.cluster && self.context.is_none()
    }

    /// Connects to the API server. An embedded server runs its workload when this method returns.
    ///
    /// # Errors
    ///
    /// Fails if there is no usable kubeconfig or context, if the cluster does not respond, or if
    /// the namespace does not exist.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn connect(&self) -> anyhow::Result<Cluster> {
        let cluster = if self.is_embedded() {
            let server = Server::new();
            let workload = Workload::new(1, WORKLOAD_INTERVAL).start(&server);
            let client = Client::new(server.service(), "default");
            Cluster { client, embedded: Some(Embedded { server, workload }) }
        } else {
            Cluster { client: self.real_client().await?, embedded: None }
        };
        self.check_namespace(&cluster.client).await?;
        Ok(cluster)
    }

    /// Checks that the namespace of the command line exists.
    ///
    /// # Errors
    ///
    /// Fails if the API server has no namespace of this name.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn check_namespace(&self, client: &Client) -> anyhow::Result<()> {
        let Some(name) = &self.namespace else { return Ok(()) };
        match Api::<Namespace>::all(client.clone()).get_opt(name).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => bail!("namespace {name:?} does not exist; choose another namespace or create it"),
            // Access to objects of a namespace does not require access to the namespace itself.
            Err(Error::Api(_)) => Ok(()),
            Err(error) => Err(error).context("cannot check the namespace"),
        }
    }

    async fn real_client(&self) -> anyhow::Result<Client> {
        connection::connect(self.config().await?).await
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let Some(context) = self.context.clone() else {
            // The source is the failure to load a kubeconfig. The message also contains the less
            // useful failure to find an in-cluster account.
            return Config::infer().await.map_err(|error| kubeconfig_error(&error.source()));
        };
        let kubeconfig = Kubeconfig::read().map_err(|error| kubeconfig_error(&Some(&error)))?;
        if !kubeconfig.contexts.iter().any(|known| known.name == context) {
            bail!("the kubeconfig has no context {context:?}; see `kubectl config get-contexts`");
        }
        let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.context("the kubeconfig is invalid")
    }
}

fn kubeconfig_error(cause: &Option<&(dyn std::error::Error + 'static)>) -> anyhow::Error {
    let cause = cause.map_or_else(|| "no kubeconfig".to_owned(), ToString::to_string);
    anyhow!("{cause}; set KUBECONFIG to a kubeconfig, or omit --cluster and --context")
}

impl Cluster {
    /// Checks that the user may list objects of type `K`, in one namespace or in all namespaces.
    ///
    /// # Errors
    ///
    /// Fails if the list request fails. The error suggests a remedy.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn check_list_access<K>(&self, namespace: Option<&str>) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let plural = K::plural(&());
        match list_one(&api).await {
            Err(Error::Api(status)) if status.code == NOT_FOUND => {
                bail!("the API server does not serve {plural} of {}", K::api_version(&()))
            }
            listed => access_of(listed, &plural),
        }
    }

    /// Checks that the user may list objects of a type that is known only at run time. Succeeds if the API
    /// server does not serve the type yet.
    ///
    /// # Errors
    ///
    /// Fails if the list request fails, except with 404. The error suggests a remedy.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn check_dynamic_list_access(&self, resource: &ApiResource) -> anyhow::Result<()> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        match list_one(&api).await {
            Err(Error::Api(status)) if status.code == NOT_FOUND => Ok(()),
            listed => access_of(listed, &resource.plural),
        }
    }

    /// Stops the workload of the embedded server.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: the workload stops even if the future is dropped.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.workload.stop().await;
        }
    }
}

async fn list_one<K: Clone + DeserializeOwned + Debug>(api: &Api<K>) -> Result<(), Error> {
    api.list(&ListParams::default().limit(1)).await.map(drop)
}

/// Returns the remedy if the user may not list these objects.
fn access_of(listed: Result<(), Error>, plural: &str) -> anyhow::Result<()> {
    match listed {
        Err(Error::Api(status)) if status.is_forbidden() => {
            bail!("{}; grant the user the verbs list and watch on {plural}", cli::shorten(&status.message))
        }
        listed => listed.with_context(|| format!("cannot list {plural}")),
    }
}

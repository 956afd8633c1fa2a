//! Where an example looks: the embedded API server with a simulated workload, or a real cluster.

use std::{future::Future, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Parser;
use kube_client::{
    Api, Client, Config, Error, Resource,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_testserver::{Server, Workload, WorkloadHandle};
use serde::de::DeserializeOwned;

use crate::life::Life;

/// How often the simulated workload changes something.
const PERIOD: Duration = Duration::from_millis(150);

/// The flags that all examples have. Without any, an API server in memory with a simulated workload is used.
#[derive(Debug, Clone, Parser)]
pub struct ClusterArgs {
    /// Use the current kubeconfig context, or the in-cluster account, instead of the embedded server.
    #[arg(long)]
    pub cluster: bool,
    /// Use this kubeconfig context. Implies --cluster.
    #[arg(long)]
    pub context: Option<String>,
    /// Look at one namespace only.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// How long to run: 30s, 2m, 1h or ever.
    #[arg(long = "for", default_value = "6s")]
    pub life: Life,
}

/// A client, and what stands behind it where that is the embedded server.
pub struct Cluster {
    /// For any `kube_client::Api`, informer or factory.
    pub client: Client,
    /// The embedded server and its workload; `None` on a real cluster.
    pub embedded: Option<Embedded>,
}

/// An API server in memory in which something happens.
pub struct Embedded {
    /// The server: objects can be written into it directly.
    pub server: Server,
    workload: WorkloadHandle,
}

impl ClusterArgs {
    /// Connects. On the embedded server a small workload is running when this returns.
    ///
    /// # Errors
    /// No kubeconfig, no such context, or a cluster that can't be reached, in one sentence.
    ///
    /// # Cancel safety
    /// Safe: nothing is left behind.
    pub async fn connect(&self) -> anyhow::Result<Cluster> {
        if !self.cluster && self.context.is_none() {
            let server = Server::new();
            let workload = Workload::new(1, PERIOD).start(&server);
            let client = Client::new(server.service(), "default");
            return Ok(Cluster { client, embedded: Some(Embedded { server, workload }) });
        }
        let mut config = self.config().await?;
        // Retries are the informers' own; kube-client's would hide failures from them.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        let url = config.cluster_url.clone();
        let client = Client::try_from(config).context("the kubeconfig can't be used")?;
        match client.apiserver_version().await {
            // Whether the credentials suffice is for the first list to say.
            Ok(_) | Err(Error::Api(_)) => Ok(Cluster { client, embedded: None }),
            // What hyper wraps around the cause says nothing to a person.
            Err(error) => {
                bail!("the cluster at {url} can't be reached: {}", anyhow::Error::from(error).root_cause())
            }
        }
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let Some(context) = self.context.clone() else {
            return Config::infer().await.context("no kubeconfig and no in-cluster account");
        };
        let kubeconfig = Kubeconfig::read().context("no kubeconfig")?;
        if !kubeconfig.contexts.iter().any(|known| known.name == context) {
            bail!("the kubeconfig has no context {context:?}");
        }
        let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.context("the kubeconfig can't be used")
    }
}

impl Cluster {
    /// Makes sure that objects of this type can be listed here.
    ///
    /// # Errors
    /// They can't: what the server says about it.
    ///
    /// # Cancel safety
    /// Safe: nothing but the answer is lost.
    pub async fn can_list<K>(&self, namespace: Option<&str>) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = kube_client::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) => bail!("{} can't be listed: {}", K::plural(&()), status.message),
            Err(error) => Err(error).with_context(|| format!("{} can't be listed", K::plural(&()))),
        }
    }

    /// Ends the workload and the embedded server.
    ///
    /// # Cancel safety
    /// Only the wait is lost.
    pub async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.workload.stop().await;
        }
    }
}

/// Runs an example: a failure is one line on standard error and a non-zero exit.
///
/// # Cancel safety
/// As that of the example.
pub async fn run(example: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    match example.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes; libraries often repeat a cause's text in their own.
fn one_line(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(|cause| cause.to_string().replace('\n', " ")) {
        if !said.contains(&cause) {
            said = if said.is_empty() { cause } else { format!("{said}: {cause}") };
        }
    }
    said
}

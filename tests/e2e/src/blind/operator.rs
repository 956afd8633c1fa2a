//! The operator of all cases. For each Website, it applies a ConfigMap, a Deployment and a Service, and
//! registers the name of the Website in a service outside of the cluster.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    net::SocketAddr,
    process,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{Client, CustomResource, ResourceExt as _};
use kube_operator::{
    Action, CachedClient, Cleanup, Controller, ElectionOptions, EventRecorder, EventType, Failure, Finalizer,
    Manager, ManagerOptions, OperationResult, Reconciler, Request, shutdown_signal,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use super::names::Names;

/// The name of the operator, its account, its Lease and its field manager.
pub(super) const NAME: &str = "web-operator";
/// The time limit of a reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(5);
/// One thread remains for the pages and the election if a reconcile blocks the other.
const THREADS: usize = 2;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
pub(super) struct WebsiteSpec {
    image: String,
    replicas: i32,
    html: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WebsiteStatus {
    observed_generation: Option<i64>,
    url: String,
}

/// Configures the process of the operator.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct OperatorSettings {
    pub(super) names: SocketAddr,
    /// If true, calls of the name service block their thread.
    pub(super) blocks: bool,
    /// If true, an apply takes over the fields of other field managers.
    pub(super) force: bool,
    pub(super) cache_sync_timeout: Duration,
}

struct Websites {
    client: CachedClient,
    finalizer: Finalizer,
    recorder: EventRecorder,
    names: Names,
}

impl Reconciler<Website> for Websites {
    async fn reconcile(&self, request: Request<Website>) -> Result<Action, Failure> {
        let websites = self.client.api_of::<Website>(&request.key)?;
        let delete = async |website: Arc<Website>| {
            self.names.remove(&website_path(&website)).await?;
            Ok(Cleanup::Done)
        };
        self.finalizer.reconcile(&websites, request.object, |website| self.apply(website), delete).await
    }
}

impl Websites {
    async fn apply(&self, website: Arc<Website>) -> Result<Action, Failure> {
        self.client.apply_owned(&*website, config_map(&website)).await?;
        let deployment = self.client.apply_owned(&*website, deployment(&website)).await?;
        if deployment.result == OperationResult::Created {
            self.recorder.event(&*website, EventType::Normal, "Created", "Create", "created the Deployment");
        }
        self.client.apply_owned(&*website, service(&website)).await?;
        let url = self.names.register(&website_path(&website)).await?;
        self.client
            .update_status(website, |website| {
                let generation = website.metadata.generation;
                website.status = Some(WebsiteStatus { observed_generation: generation, url });
                Ok(())
            })
            .await?;
        Ok(Action::Done)
    }
}

fn website_path(website: &Website) -> String {
    format!("{}/{}", website.namespace().unwrap_or_default(), website.name_any())
}

fn config_map(website: &Website) -> ConfigMap {
    ConfigMap {
        metadata: metadata(website),
        data: Some(BTreeMap::from([("index.html".into(), website.spec.html.clone())])),
        ..Default::default()
    }
}

fn deployment(website: &Website) -> Deployment {
    let container =
        Container { name: "server".into(), image: Some(website.spec.image.clone()), ..Default::default() };
    Deployment {
        metadata: metadata(website),
        spec: Some(DeploymentSpec {
            replicas: Some(website.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels(website)), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels(website)), ..Default::default() }),
                spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn service(website: &Website) -> Service {
    Service {
        metadata: metadata(website),
        spec: Some(ServiceSpec {
            selector: Some(labels(website)),
            ports: Some(vec![ServicePort { port: 80, ..Default::default() }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn metadata(website: &Website) -> ObjectMeta {
    ObjectMeta {
        name: website.metadata.name.clone(),
        namespace: website.metadata.namespace.clone(),
        labels: Some(labels(website)),
        ..Default::default()
    }
}

fn labels(website: &Website) -> BTreeMap<String, String> {
    BTreeMap::from([("app".into(), website.name_any())])
}

/// Runs the operator until a signal, or until standard input is closed.
///
/// # Errors
///
/// Fails if the settings or the kubeconfig are invalid. After the start, the process exits if the operator
/// fails.
pub fn run_operator(settings: &str) -> Result<()> {
    let settings: OperatorSettings = serde_json::from_str(settings)?;
    let filter = EnvFilter::try_from_default_env()?;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).init();
    // The process must not outlive the program that started it.
    thread::Builder::new().name("stdin".into()).spawn(|| {
        let _closed = io::stdin().read_to_end(&mut Vec::new());
        process::exit(1);
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(async {
        let manager = operator(Client::try_default().await?, &settings)?;
        manager.run_and_exit(shutdown_signal()).await
    })
}

fn operator(client: Client, settings: &OperatorSettings) -> Result<Manager> {
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(client.default_namespace(), NAME)),
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        cache_sync_timeout: settings.cache_sync_timeout,
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options)?;
    let recorder = manager.event_recorder(NAME)?;
    let client = manager.cached_client(NAME);
    let client = if settings.force { client.force() } else { client };
    let controller = Controller::new(&client.informer::<Website>()?)
        .owns(&client.informer::<ConfigMap>()?)
        .owns(&client.informer::<Deployment>()?)
        .owns(&client.informer::<Service>()?)
        .concurrency(4)
        .reconcile_timeout(RECONCILE_TIMEOUT);
    let websites = Websites {
        client,
        finalizer: Finalizer::new("example.com/website"),
        recorder,
        names: Names { address: settings.names, blocks: settings.blocks },
    };
    manager.add_controller(controller, websites);
    Ok(manager)
}

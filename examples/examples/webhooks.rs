//! Serves the webhooks of a CRD with two versions: defaults, validation and conversion.
//!
//! Without options, the example runs on an API server in memory, which calls the webhooks over HTTPS. With
//! `--cluster --write`, it installs the CRD and the webhook configurations on the cluster of the current
//! kubeconfig context. The cluster must reach this program at the host of `--host`. The example creates a
//! database in the old version, reads it in the new version, and tries an invalid change. The command `rbac`
//! prints the roles that the example needs.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube_client::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, TypeMeta},
};
use kube_informer_examples::{
    cli,
    cluster::ClusterArgs,
    database::{CRD, Database, DatabaseSpec, configurations, crd, v1beta1, webhooks},
};
use kube_operator::{
    Manager, ManagerOptions, WriteKind, ensure_crd, offline_client,
    webhook::{CaBundleTarget, SecretCertificate, WebhookCertificate, WebhookOptions},
};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

const NAME: &str = "orders";
const FIELD_MANAGER: &str = "databases";

/// Serves webhooks for Databases, and shows their effects.
#[derive(Parser)]
struct Flags {
    /// Print something, instead of running.
    command: Option<Command>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Permit the example to write to the cluster: the CRD, the webhook configurations, the Secret of the
    /// certificate, and one Database.
    #[arg(long)]
    write: bool,
    /// Serve the webhooks at this address.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
    /// The host name or IP address at which the API server reaches this program.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    /// The roles that the example needs.
    Rbac,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    cli::run(run).await
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    if let Some(Command::Rbac) = flags.command {
        let namespace = flags.cluster.namespace.as_deref().unwrap_or("default");
        let (manager, _) = manager(&offline_client(namespace), namespace, flags.address, &flags.host)?;
        print!("{}", manager.rbac_roles(FIELD_MANAGER));
        return Ok(());
    }
    let client = if flags.cluster.is_embedded() {
        Client::new(Server::new().service(), "default")
    } else if flags.write {
        flags.cluster.connect().await?.client
    } else {
        bail!("this example writes to the cluster; permit it with --write");
    };
    let namespace = flags.cluster.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let (manager, base_url) = manager(&client, &namespace, flags.address, &flags.host)?;
    ensure_crd(&client, &crd(&base_url)?, FIELD_MANAGER, Duration::from_secs(30)).await?;
    for configuration in configurations(&base_url) {
        apply(&client, &configuration).await?;
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let shown = show(&client, &namespace).await;
    stop.cancel();
    running.await??;
    shown
}

/// Creates a manager that serves the webhooks, and returns their address.
fn manager(
    client: &Client,
    namespace: &str,
    bind_address: SocketAddr,
    host: &str,
) -> anyhow::Result<(Manager, String)> {
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client.clone(), options)?;
    let name = "databases".to_owned();
    let targets = [
        CaBundleTarget::Mutating(name.clone()),
        CaBundleTarget::Validating(name),
        CaBundleTarget::Crd(CRD.into()),
    ];
    let certificate = SecretCertificate {
        names: vec![host.to_owned()],
        ..SecretCertificate::new(namespace, "database-webhooks", "database-webhooks", targets)
    };
    let options = WebhookOptions::new(WebhookCertificate::Secret(certificate));
    manager.serve_webhooks(webhooks(), WebhookOptions { bind_address, ..options })?;
    // The permissions of `ensure_crd`, `apply` and `show`.
    manager.require_crd(CRD);
    manager.require_writes::<MutatingWebhookConfiguration>(&[WriteKind::Apply]);
    manager.require_writes::<ValidatingWebhookConfiguration>(&[WriteKind::Apply]);
    let verbs = ["create", "get", "patch", "delete"];
    manager.require_permissions(&verbs, "examples.kube-informer.dev", "databases", Some(namespace));
    let port = manager.local_webhook_address().context("the manager serves no webhooks")?.port();
    Ok((manager, format!("https://{host}:{port}")))
}

/// Applies a manifest.
async fn apply(client: &Client, manifest: &Value) -> anyhow::Result<()> {
    let types: TypeMeta = serde_json::from_value(manifest.clone())?;
    let resource = ApiResource::from_gvk(&(&types).try_into()?);
    let name = manifest["metadata"]["name"].as_str().context("the manifest has no name")?;
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &params, &Patch::Apply(manifest)).await;
    applied.map(drop).with_context(|| format!("cannot apply {} {name}", types.kind))
}

/// Creates a database in the old version, and prints the effects of the webhooks.
async fn show(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let old = Api::<v1beta1::Database>::namespaced(client.clone(), namespace);
    let new = Api::<Database>::namespaced(client.clone(), namespace);
    create(&old).await?;
    let DatabaseSpec { storage_gib, replicas } = new.get(NAME).await?.spec;
    println!("converted : the v1beta1 object has storageGib {storage_gib} in v1");
    println!("defaulted : replicas is {}", replicas.context("the webhook sets replicas")?);
    let change = Patch::Merge(json!({"spec": {"size": "5Gi"}}));
    match old.patch(NAME, &PatchParams::default(), &change).await {
        Err(kube_client::Error::Api(status)) => println!("denied    : {}", status.message),
        unexpected => bail!("the webhook did not deny a smaller volume: {unexpected:?}"),
    }
    let change = Patch::Merge(json!({"spec": {"storageGib": 20}}));
    new.patch(NAME, &PatchParams::default(), &change).await?;
    println!("changed   : size is {} in v1beta1", old.get(NAME).await?.spec.size);
    new.delete(NAME, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates the database. Tries again for 30 s, because the webhooks have no certificate at first.
async fn create(api: &Api<v1beta1::Database>) -> anyhow::Result<()> {
    let spec = v1beta1::DatabaseSpec { size: "10Gi".to_owned(), replicas: None };
    let database = v1beta1::Database::new(NAME, spec);
    let mut last = None;
    let created = timeout(Duration::from_secs(30), async {
        while let Err(error) = api.create(&PostParams::default(), &database).await {
            last = Some(error);
            sleep(Duration::from_millis(100)).await;
        }
    });
    let created = created.await;
    if created.is_err() {
        let error = last.context("the API server did not respond within 30 s")?;
        return Err(error).context("cannot create the Database");
    }
    Ok(())
}

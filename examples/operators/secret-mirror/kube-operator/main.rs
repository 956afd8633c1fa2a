//! The Secret mirror on kube-operator.

use std::{collections::BTreeMap, env, sync::Arc};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Client, ResourceExt};
use kube_operator::{
    Action, CachedClient, Cleanup, Controller, ElectionOptions, Failure, Finalizer, Manager, ManagerOptions,
    Reconciler, Request, ShardOptions, WriteKind,
    informer::{CachedApi, ObjectKey},
    shutdown_signal,
};
use tracing_subscriber::EnvFilter;

const FINALIZER: &str = "example.com/mirror";
const MIRRORED_FROM_LABEL: &str = "example.com/mirrored-from";
const NAMESPACES_ANNOTATION: &str = "example.com/namespaces";

struct Mirror {
    sources: CachedApi<Secret>,
    copies: CachedClient,
    finalizer: Finalizer,
}

impl Reconciler<Secret> for Mirror {
    async fn reconcile(&self, request: Request<Secret>) -> Result<Action, Failure> {
        let sources = self.sources.namespace(request.key.namespace().unwrap_or_default());
        let release = async |secret: Arc<Secret>| {
            self.delete_copies(&secret, &[]).await?;
            Ok(Cleanup::Done)
        };
        self.finalizer.reconcile(&sources, request.object, |secret| self.mirror(secret), release).await
    }
}

impl Mirror {
    /// Applies the copies of a Secret, and deletes the copies that are no longer wanted.
    async fn mirror(&self, secret: Arc<Secret>) -> Result<Action, Failure> {
        let namespaces = target_namespaces(&secret);
        self.delete_copies(&secret, &namespaces).await?;
        for namespace in namespaces {
            self.apply_copy(&secret, namespace).await?;
        }
        Ok(Action::Done)
    }

    /// Applies the copy in a namespace. Fails if another Secret has this name.
    async fn apply_copy(&self, secret: &Secret, namespace: String) -> Result<(), Failure> {
        let labels = BTreeMap::from([(MIRRORED_FROM_LABEL.into(), secret.namespace().unwrap_or_default())]);
        let copy = Secret {
            metadata: ObjectMeta {
                name: secret.metadata.name.clone(),
                namespace: Some(namespace),
                labels: Some(labels),
                ..Default::default()
            },
            type_: secret.type_.clone(),
            data: secret.data.clone(),
            ..Default::default()
        };
        let is_copy = |existing: &Secret| match existing.labels().get(MIRRORED_FROM_LABEL) {
            source if source == secret.metadata.namespace.as_ref() => Ok(()),
            _ => Err(format!(
                "{}/{} is another Secret",
                existing.namespace().unwrap_or_default(),
                existing.name_any()
            )
            .into()),
        };
        self.copies.apply_checked(&copy, is_copy).await?;
        Ok(())
    }

    /// Deletes the copies outside of the given namespaces.
    async fn delete_copies(&self, secret: &Secret, except: &[String]) -> Result<(), Failure> {
        let selector = format!("{MIRRORED_FROM_LABEL}={}", secret.namespace().unwrap_or_default());
        for copy in self.copies.list::<Secret>(None, &selector.parse()?).await? {
            let namespace = copy.namespace().unwrap_or_default();
            if copy.metadata.name == secret.metadata.name && !except.contains(&namespace) {
                self.copies.delete::<Secret>(&ObjectKey::new(Some(&namespace), &copy.name_any())).await?;
            }
        }
        Ok(())
    }
}

/// Returns the namespaces of the annotation, without the namespace of the Secret.
fn target_namespaces(secret: &Secret) -> Vec<String> {
    let annotation = secret.annotations().get(NAMESPACES_ANNOTATION).map_or("", String::as_str);
    annotation
        .split(',')
        .map(|namespace| namespace.trim().to_owned())
        .filter(|namespace| !namespace.is_empty() && Some(namespace) != secret.namespace().as_ref())
        .collect()
}

/// Returns the key of the source of a copy.
fn source_of(copy: &Secret) -> Option<ObjectKey> {
    let namespace = copy.labels().get(MIRRORED_FROM_LABEL)?;
    Some(ObjectKey::new(Some(namespace), &copy.name_any()))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let client = Client::try_default().await?;
    let options = ManagerOptions {
        election: Some(ElectionOptions::new(client.default_namespace(), "secret-mirror")),
        bind_address: None,
        shards: env::var("SHARD_GROUP").ok().map(|name| ShardOptions::new(client.default_namespace(), name)),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client, options)?;
    manager.require_writes::<Secret>(&[WriteKind::Finalizer, WriteKind::Apply, WriteKind::Delete]);
    let secrets = manager.factory().select::<Secret>();
    // A client reads a type from one informer. Sources and copies have separate informers.
    let source_client = manager.cached_client("secret-mirror");
    source_client.use_informer(&secrets.clone().labels("example.com/mirror=true").informer()?);
    let sources = source_client.api::<Secret>()?;
    let copies = manager.cached_client("secret-mirror").force();
    copies.use_informer(&secrets.labels(MIRRORED_FROM_LABEL).informer()?);
    let controller = Controller::new(&sources)
        .reconcile_unselected(&sources, FINALIZER)?
        .watches(&copies.informer::<Secret>()?, |event| source_of(event.entry()))
        .concurrency(4);
    manager.add_controller(controller, Mirror { sources, copies, finalizer: Finalizer::new(FINALIZER) });
    if env::args().nth(1).as_deref() == Some("rbac") {
        print!("{}", manager.rbac_roles("secret-mirror"));
        return Ok(());
    }
    manager.run_and_exit(shutdown_signal()).await
}

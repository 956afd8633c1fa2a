//! The operator on kube-runtime's `Controller`. Reflectors cache the children, and their streams
//! trigger reconciles.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::api::{Patch, PatchParams};
use kube_client::core::NamespaceResourceScope;
use kube_client::{Api, Client, Resource};
use kube_runtime::controller::{Action, Config};
use kube_runtime::reflector::store::WriterDropped;
use kube_runtime::reflector::{self, ObjectRef, Store};
use kube_runtime::{Controller, WatchStreamExt as _, watcher};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::CONCURRENCY;
use super::children::{Child, FIELD_MANAGER, config_map, deployment, service};
use super::reconciles::ReconcileCounter;
use super::website::Website;

/// The delay before the retry of a failed reconcile.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The dependencies of the reconciler.
struct Context {
    client: Client,
    maps: Store<ConfigMap>,
    deployments: Store<Deployment>,
    services: Store<Service>,
    /// Set when all stores contain their initial list.
    filled: OnceCell<()>,
    counter: Arc<ReconcileCounter>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Client(#[from] kube_client::Error),
    #[error(transparent)]
    NoStore(#[from] WriterDropped),
}

pub(super) fn start(
    client: Client,
    counter: Arc<ReconcileCounter>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let (maps, of_maps) = reflected::<ConfigMap>(&client);
        let (deployments, of_deployments) = reflected::<Deployment>(&client);
        let (services, of_services) = reflected::<Service>(&client);
        let context =
            Context { client: client.clone(), maps, deployments, services, filled: OnceCell::new(), counter };
        Controller::new(Api::<Website>::all(client), watcher::Config::default())
            .owns_stream(of_maps)
            .owns_stream(of_deployments)
            .owns_stream(of_services)
            .with_config(Config::default().concurrency(CONCURRENCY))
            .graceful_shutdown_on(stop.cancelled_owned())
            .run(reconcile, |_, _, _| Action::requeue(RETRY_DELAY), Arc::new(context))
            .for_each(|_| ready(()))
            .await;
        Ok(())
    }
    .boxed()
}

/// Creates a store of all objects of a type, and the stream of its changed objects.
fn reflected<K>(client: &Client) -> (Store<K>, impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff();
    (store, events.reflect(writer).touched_objects())
}

async fn reconcile(website: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let outcome = context.reconcile_children(&website).await;
    context.counter.record(website.metadata.name.as_deref().unwrap_or_default(), &outcome);
    outcome
}

impl Context {
    async fn reconcile_children(&self, website: &Website) -> Result<Action, Error> {
        self.filled.get_or_try_init(|| self.fill()).await?;
        self.ensure(&self.maps, website, config_map).await?;
        self.ensure(&self.deployments, website, deployment).await?;
        self.ensure(&self.services, website, service).await?;
        if !website.is_reported() {
            let (namespace, name) = namespace_and_name(website);
            let websites: Api<Website> = Api::namespaced(self.client.clone(), namespace);
            let report = Patch::Merge(website.report());
            websites.patch_status(name, &PatchParams::default(), &report).await?;
        }
        Ok(Action::await_change())
    }

    /// Waits for the stores. A store wakes only one of several waiters, so only one reconcile calls
    /// this.
    async fn fill(&self) -> Result<(), WriterDropped> {
        self.maps.wait_until_ready().await?;
        self.deployments.wait_until_ready().await?;
        self.services.wait_until_ready().await
    }

    /// Applies a child unless the stored child is up to date.
    async fn ensure<K>(
        &self,
        store: &Store<K>,
        website: &Website,
        wanted: fn(&Website) -> K,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Child,
        K: Clone + Debug + Serialize + DeserializeOwned + 'static,
    {
        let (namespace, name) = namespace_and_name(website);
        if store
            .get(&ObjectRef::new(name).within(namespace))
            .is_some_and(|found| found.is_up_to_date(website))
        {
            return Ok(());
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        api.patch(name, &params, &Patch::Apply(wanted(website))).await?;
        Ok(())
    }
}

fn namespace_and_name(website: &Website) -> (&str, &str) {
    let metadata = &website.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

//! The operator on kube-runtime's `Controller`. What it owns is kept by reflectors, whose streams lead to runs.

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
use super::children::{Child, MANAGER, config_map, deployment, service};
use super::program::Runs;
use super::website::Website;

/// After a run that has failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What its runs need.
struct Context {
    client: Client,
    maps: Store<ConfigMap>,
    deployments: Store<Deployment>,
    services: Store<Service>,
    /// Whether all of these show what there is.
    filled: OnceCell<()>,
    runs: Arc<Runs>,
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
    runs: Arc<Runs>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let (maps, of_maps) = reflected::<ConfigMap>(&client);
        let (deployments, of_deployments) = reflected::<Deployment>(&client);
        let (services, of_services) = reflected::<Service>(&client);
        let context =
            Context { client: client.clone(), maps, deployments, services, filled: OnceCell::new(), runs };
        Controller::new(Api::<Website>::all(client), watcher::Config::default())
            .owns_stream(of_maps)
            .owns_stream(of_deployments)
            .owns_stream(of_services)
            .with_config(Config::default().concurrency(CONCURRENCY))
            .graceful_shutdown_on(stop.cancelled_owned())
            .run(reconcile, |_, _, _| Action::requeue(AGAIN), Arc::new(context))
            .for_each(|_| ready(()))
            .await;
        Ok(())
    }
    .boxed()
}

/// A store of all objects of a type, and the objects that come into it and go.
fn reflected<K>(client: &Client) -> (Store<K>, impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default()).default_backoff();
    (store, events.reflect(writer).touched_objects())
}

async fn reconcile(website: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let outcome = context.work(&website).await;
    context.runs.ended(website.metadata.name.as_deref().unwrap_or_default(), &outcome);
    outcome
}

impl Context {
    async fn work(&self, website: &Website) -> Result<Action, Error> {
        self.filled.get_or_try_init(|| self.fill()).await?;
        self.ensure(&self.maps, website, config_map).await?;
        self.ensure(&self.deployments, website, deployment).await?;
        self.ensure(&self.services, website, service).await?;
        if !website.is_reported() {
            let (namespace, name) = place(website);
            let websites: Api<Website> = Api::namespaced(self.client.clone(), namespace);
            let report = Patch::Merge(website.report());
            websites.patch_status(name, &PatchParams::default(), &report).await?;
        }
        Ok(Action::await_change())
    }

    /// Of several runs that wait for a store only one is woken: so one waits for all.
    async fn fill(&self) -> Result<(), WriterDropped> {
        self.maps.wait_until_ready().await?;
        self.deployments.wait_until_ready().await?;
        self.services.wait_until_ready().await
    }

    /// Applies what is wanted unless the store shows that it is there.
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
        let (namespace, name) = place(website);
        if store.get(&ObjectRef::new(name).within(namespace)).is_some_and(|found| found.fits(website)) {
            return Ok(());
        }
        let params = PatchParams::apply(MANAGER).force();
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        api.patch(name, &params, &Patch::Apply(wanted(website))).await?;
        Ok(())
    }
}

fn place(website: &Website) -> (&str, &str) {
    let metadata = &website.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

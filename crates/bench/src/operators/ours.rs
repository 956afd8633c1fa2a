//! The operator on kube-operator, with typed caches and with projections.

use std::fmt::Debug;
use std::sync::Arc;

use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::api::{Patch, PatchParams};
use kube_client::core::NamespaceResourceScope;
use kube_client::{Api, Client, Resource};
use kube_informer::{Cached, CachedApi, Event, Informer, InformerFactory, Object, ObjectKey, Projection};
use kube_operator::{Action, Controller, Failure, Leadership, Reconciler, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::CONCURRENCY;
use super::children::{Child, FIELD_MANAGER, config_map, deployment, service};
use super::reconciles::ReconcileCounter;
use super::views::{ConfigMapView, DeploymentView, ServiceView};
use super::website::Website;

/// The reconciler, generic over the representations of the children.
struct Operator<M: Cached, D: Cached, S: Cached> {
    websites: CachedApi<Website>,
    maps: CachedApi<M>,
    deployments: CachedApi<D>,
    services: CachedApi<S>,
    counter: Arc<ReconcileCounter>,
}

/// Runs the operator with typed caches.
pub(super) fn typed(
    client: Client,
    counter: Arc<ReconcileCounter>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let factory = InformerFactory::new(client.clone());
        let maps: Informer<ConfigMap> = factory.informer()?;
        let deployments: Informer<Deployment> = factory.informer()?;
        let services: Informer<Service> = factory.informer()?;
        let websites: Informer<Website> = factory.informer()?;
        let controller = Controller::new(&websites).owns(&maps).owns(&deployments).owns(&services);
        let operator = Operator {
            websites: cached(&client, &websites),
            maps: cached(&client, &maps),
            deployments: cached(&client, &deployments),
            services: cached(&client, &services),
            counter,
        };
        controller.concurrency(CONCURRENCY.into()).run(operator, Leadership::always(), stop).await?;
        factory.shutdown().await;
        Ok(())
    }
    .boxed()
}

/// Runs the operator with caches that contain only the fields that reconciles compare.
pub(super) fn projections(
    client: Client,
    counter: Arc<ReconcileCounter>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<()>> {
    async move {
        let factory = InformerFactory::new(client.clone());
        let maps: Informer<Projection<ConfigMap, ConfigMapView>> = factory.informer()?;
        let deployments: Informer<Projection<Deployment, DeploymentView>> = factory.informer()?;
        let services: Informer<Projection<Service, ServiceView>> = factory.informer()?;
        let websites: Informer<Website> = factory.informer()?;
        let controller = Controller::new(&websites)
            .watches(&maps, website_of)
            .watches(&deployments, website_of)
            .watches(&services, website_of);
        let operator = Operator {
            websites: cached(&client, &websites),
            maps: cached(&client, &maps),
            deployments: cached(&client, &deployments),
            services: cached(&client, &services),
            counter,
        };
        controller.concurrency(CONCURRENCY.into()).run(operator, Leadership::always(), stop).await?;
        factory.shutdown().await;
        Ok(())
    }
    .boxed()
}

/// Returns the Website of a child. Both have the same name.
fn website_of<T: Object>(event: &Event<T>) -> Option<ObjectKey> {
    Some(event.key().clone())
}

fn cached<T: Cached>(client: &Client, informer: &Informer<T>) -> CachedApi<T>
where
    T::Resource: Resource<Scope = NamespaceResourceScope>,
    <T::Resource as Resource>::DynamicType: Default,
{
    CachedApi::new(Api::all(client.clone()), informer)
}

impl<M, D, S> Reconciler<Website> for Operator<M, D, S>
where
    M: Cached<Resource = ConfigMap> + Child,
    D: Cached<Resource = Deployment> + Child,
    S: Cached<Resource = Service> + Child,
{
    async fn reconcile(&self, request: Request<Website>) -> Result<Action, Failure> {
        let Some(website) = request.object.present() else { return Ok(Action::AwaitChange) };
        let outcome = self.reconcile_children(&request.key, &website).await;
        self.counter.record(request.key.name(), &outcome);
        outcome
    }
}

impl<M, D, S> Operator<M, D, S>
where
    M: Cached<Resource = ConfigMap> + Child,
    D: Cached<Resource = Deployment> + Child,
    S: Cached<Resource = Service> + Child,
{
    async fn reconcile_children(&self, key: &ObjectKey, website: &Website) -> Result<Action, Failure> {
        ensure(&self.maps, key, website, config_map).await?;
        ensure(&self.deployments, key, website, deployment).await?;
        ensure(&self.services, key, website, service).await?;
        if !website.is_reported() {
            let websites = self.websites.namespace(key.namespace().unwrap_or_default());
            let report = Patch::Merge(website.report());
            websites.patch_status(key.name(), &PatchParams::default(), &report).await?;
        }
        Ok(Action::Done)
    }
}

/// Applies a child unless the cached child is up to date.
async fn ensure<T>(
    api: &CachedApi<T>,
    key: &ObjectKey,
    website: &Website,
    wanted: fn(&Website) -> T::Resource,
) -> Result<(), Failure>
where
    T: Cached + Child,
    T::Resource:
        Resource<Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned + Object,
    <T::Resource as Resource>::DynamicType: Default,
{
    let api = api.namespace(key.namespace().unwrap_or_default());
    if api.get(key.name()).await?.is_some_and(|found| found.is_up_to_date(website)) {
        return Ok(());
    }
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(key.name(), &params, &Patch::Apply(wanted(website))).await?;
    Ok(())
}

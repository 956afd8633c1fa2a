//! Websites that a client creates, changes, deletes and modifies all the time. This module also
//! replaces the Deployment controller.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::{Api, Client, Error, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::replica::SOON;

const NAMESPACE: &str = "shop";
const DIRECTORY: &str = "websites.examples.kube-informer.dev";
/// The number of created sites. The test deletes some of these sites.
const SITES: usize = 36;
const DELETED: usize = 8;
/// The interval between changes.
const PERIOD: Duration = Duration::from_millis(150);
const SEED: u64 = 2026;

/// The desired state of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DesiredSite {
    html: String,
    replicas: i32,
}

/// The desired sites by name. `None` is a deleted site.
type DesiredSites = BTreeMap<String, Option<DesiredSite>>;

/// Changes sites, and reports their Deployments as ready.
pub(crate) struct Sites {
    objects: Objects,
    changing: Task<DesiredSites>,
    serving: Task<()>,
}

struct Task<T> {
    stop: CancellationToken,
    running: JoinHandle<Result<T>>,
}

#[derive(Clone)]
struct Objects {
    sites: Api<DynamicObject>,
    maps: Api<ConfigMap>,
    deployments: Api<Deployment>,
    services: Api<Service>,
    directory: Api<ConfigMap>,
}

impl Sites {
    /// Starts the changes. The server must have the CRD.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let objects = Objects::new(&client);
        let changing = Task::start(|stop| objects.clone().change(stop));
        let serving = Task::start(|stop| objects.clone().serve(stop));
        Ok(Self { objects, changing, serving })
    }

    /// Fails if the changes have stopped.
    pub(crate) fn check_alive(&self) -> Result<()> {
        let is_over = self.changing.running.is_finished() || self.serving.running.is_finished();
        ensure!(!is_over, "the changes of sites have stopped");
        Ok(())
    }

    /// Changes each site a last time, and waits until all sites have their desired state and a status
    /// of this replica. Returns the number of sites.
    pub(crate) async fn settle(self, by: &str) -> Result<usize> {
        let mut desired = self.changing.end().await?;
        for (name, site_spec) in &mut desired {
            if let Some(site_spec) = site_spec {
                site_spec.html = format!("<h1>{name}, the last</h1>");
                self.objects.update(name, site_spec).await?;
            }
        }
        let deadline = Instant::now() + SOON;
        while let Err(error) = self.objects.check_sites(&desired, by).await {
            ensure!(Instant::now() < deadline, "not as it should be within {SOON:?}: {error:#}");
            sleep(Duration::from_millis(200)).await;
        }
        self.serving.end().await?;
        Ok(desired.values().flatten().count())
    }
}

impl<T: Send + 'static> Task<T> {
    fn start<F>(task: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let running = tokio::spawn(task(stop.clone()));
        Self { stop, running }
    }

    async fn end(self) -> Result<T> {
        self.stop.cancel();
        self.running.await?
    }
}

impl Objects {
    fn new(client: &Client) -> Self {
        let kind = GroupVersionKind::gvk("examples.kube-informer.dev", "v1", "Website");
        let resource = ApiResource::from_gvk(&kind);
        Self {
            sites: Api::namespaced_with(client.clone(), NAMESPACE, &resource),
            maps: Api::namespaced(client.clone(), NAMESPACE),
            deployments: Api::namespaced(client.clone(), NAMESPACE),
            services: Api::namespaced(client.clone(), NAMESPACE),
            directory: Api::default_namespaced(client.clone()),
        }
    }

    /// Changes sites sequentially. Returns the final desired states.
    async fn change(self, stop: CancellationToken) -> Result<DesiredSites> {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut desired = DesiredSites::new();
        while !stop.is_cancelled() {
            let site_spec =
                DesiredSite { html: format!("<h1>{}</h1>", random.u32(..)), replicas: random.i32(0..4) };
            let deleted = desired.values().filter(|site_spec| site_spec.is_none()).count();
            let existing =
                desired.iter().filter(|(_, site_spec)| site_spec.is_some()).map(|(name, _)| name.clone());
            let name = random.choice(existing.collect::<Vec<_>>());
            match (name, random.u32(0..10)) {
                (Some(name), 0) if deleted < DELETED => {
                    self.sites.delete(&name, &DeleteParams::default()).await?;
                    desired.insert(name, None);
                }
                (Some(name), 1) => {
                    ignore_missing(self.services.delete(&name, &DeleteParams::default()).await)?;
                }
                (Some(name), 2) => ignore_missing(self.maps.delete(&name, &DeleteParams::default()).await)?,
                (Some(name), 3..6) => {
                    self.update(&name, &site_spec).await?;
                    desired.insert(name, Some(site_spec));
                }
                _ if desired.len() < SITES => {
                    let name = format!("web-{}", desired.len());
                    self.create(&name, &site_spec).await?;
                    desired.insert(name, Some(site_spec));
                }
                _ => {}
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        Ok(desired)
    }

    async fn create(&self, name: &str, site_spec: &DesiredSite) -> Result<()> {
        let site = json!({
            "apiVersion": "examples.kube-informer.dev/v1", "kind": "Website",
            "metadata": {"name": name}, "spec": spec(site_spec),
        });
        self.sites.create(&PostParams::default(), &serde_json::from_value(site)?).await?;
        Ok(())
    }

    async fn update(&self, name: &str, site_spec: &DesiredSite) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec(site_spec) }));
        self.sites.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Marks all replicas of a Deployment as ready, because no controller and no kubelet run.
    async fn serve(self, stop: CancellationToken) -> Result<()> {
        while !stop.is_cancelled() {
            for deployment in self.deployments.list(&ListParams::default()).await? {
                let generation = deployment.metadata.generation;
                let seen = deployment.status.as_ref().and_then(|status| status.observed_generation);
                if seen == generation {
                    continue;
                }
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                let patch = Patch::Merge(json!({"status": {
                    "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                    "readyReplicas": replicas, "availableReplicas": replicas,
                }}));
                let params = PatchParams::default();
                ignore_missing(self.deployments.patch_status(&deployment.name_any(), &params, &patch).await)?;
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        Ok(())
    }

    async fn check_sites(&self, desired: &DesiredSites, by: &str) -> Result<()> {
        for (name, site_spec) in desired {
            let site = self.sites.get_opt(name).await?;
            match (site_spec, site) {
                (Some(site_spec), Some(site)) => {
                    self.check_site(&site, site_spec, by).await.context(name.clone())?;
                }
                (None, None) => {}
                (_, site) => ensure!(site.is_none(), "{name} still exists"),
            }
        }
        let directory = self.directory.get(DIRECTORY).await?.data.unwrap_or_default();
        let listed: Vec<_> = directory.into_keys().collect();
        let existing = desired.iter().filter(|(_, site_spec)| site_spec.is_some());
        let existing: Vec<_> = existing.map(|(name, _)| format!("{NAMESPACE}.{name}")).collect();
        ensure!(listed == existing, "the directory has {listed:?} instead of {existing:?}");
        Ok(())
    }

    async fn check_site(&self, site: &DynamicObject, site_spec: &DesiredSite, by: &str) -> Result<()> {
        let (name, status) = (site.name_any(), &site.data["status"]);
        let ready = &status["conditions"][0];
        let generation = json!(site.metadata.generation);
        ensure!(ready["status"] == "True" && ready["observedGeneration"] == generation, "{status}");
        ensure!(status["writtenBy"] == by, "{status}");
        let page = self.maps.get(&name).await?.data.unwrap_or_default();
        ensure!(page.get("index.html") == Some(&site_spec.html), "{page:?} instead of {}", site_spec.html);
        let replicas = self.deployments.get(&name).await?.spec.unwrap_or_default().replicas;
        ensure!(replicas == Some(site_spec.replicas), "{replicas:?} instead of {}", site_spec.replicas);
        self.services.get(&name).await?;
        Ok(())
    }
}

fn spec(site_spec: &DesiredSite) -> Value {
    json!({"html": site_spec.html, "replicas": site_spec.replicas})
}

/// Ignores a missing object.
fn ignore_missing<T>(result: kube_client::Result<T>) -> Result<()> {
    match result {
        Err(Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

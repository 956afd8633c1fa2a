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
/// The number of created sites. Some are deleted.
const SITES: usize = 36;
const DELETED: usize = 8;
/// The interval between changes.
const PERIOD: Duration = Duration::from_millis(150);
const SEED: u64 = 2026;

/// The desired state of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    html: String,
    replicas: i32,
}

/// The desired sites by name. `None` is a deleted site.
type Wishes = BTreeMap<String, Option<Wish>>;

/// What happens to sites.
pub(crate) struct Sites {
    objects: Objects,
    changing: Task<Wishes>,
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
        let mut wishes = self.changing.end().await?;
        for (name, wish) in &mut wishes {
            if let Some(wish) = wish {
                wish.html = format!("<h1>{name}, the last</h1>");
                self.objects.ask_for(name, wish).await?;
            }
        }
        let deadline = Instant::now() + SOON;
        while let Err(error) = self.objects.are_as(&wishes, by).await {
            ensure!(Instant::now() < deadline, "not as it should be within {SOON:?}: {error:#}");
            sleep(Duration::from_millis(200)).await;
        }
        self.serving.end().await?;
        Ok(wishes.values().flatten().count())
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
    async fn change(self, stop: CancellationToken) -> Result<Wishes> {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut wishes = Wishes::new();
        while !stop.is_cancelled() {
            let wish = Wish { html: format!("<h1>{}</h1>", random.u32(..)), replicas: random.i32(0..4) };
            let deleted = wishes.values().filter(|wish| wish.is_none()).count();
            let living = wishes.iter().filter(|(_, wish)| wish.is_some()).map(|(name, _)| name.clone());
            let name = random.choice(living.collect::<Vec<_>>());
            match (name, random.u32(0..10)) {
                (Some(name), 0) if deleted < DELETED => {
                    self.sites.delete(&name, &DeleteParams::default()).await?;
                    wishes.insert(name, None);
                }
                (Some(name), 1) => found(self.services.delete(&name, &DeleteParams::default()).await)?,
                (Some(name), 2) => found(self.maps.delete(&name, &DeleteParams::default()).await)?,
                (Some(name), 3..6) => {
                    self.ask_for(&name, &wish).await?;
                    wishes.insert(name, Some(wish));
                }
                _ if wishes.len() < SITES => {
                    let name = format!("web-{}", wishes.len());
                    self.create(&name, &wish).await?;
                    wishes.insert(name, Some(wish));
                }
                _ => {}
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        Ok(wishes)
    }

    async fn create(&self, name: &str, wish: &Wish) -> Result<()> {
        let site = json!({
            "apiVersion": "examples.kube-informer.dev/v1", "kind": "Website",
            "metadata": {"name": name}, "spec": spec(wish),
        });
        self.sites.create(&PostParams::default(), &serde_json::from_value(site)?).await?;
        Ok(())
    }

    async fn ask_for(&self, name: &str, wish: &Wish) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec(wish) }));
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
                found(self.deployments.patch_status(&deployment.name_any(), &params, &patch).await)?;
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        Ok(())
    }

    async fn are_as(&self, wishes: &Wishes, by: &str) -> Result<()> {
        for (name, wish) in wishes {
            let site = self.sites.get_opt(name).await?;
            match (wish, site) {
                (Some(wish), Some(site)) => self.is_as(&site, wish, by).await.context(name.clone())?,
                (None, None) => {}
                (_, site) => ensure!(site.is_none(), "{name} still exists"),
            }
        }
        let directory = self.directory.get(DIRECTORY).await?.data.unwrap_or_default();
        let listed: Vec<_> = directory.into_keys().collect();
        let living = wishes.iter().filter(|(_, wish)| wish.is_some());
        let living: Vec<_> = living.map(|(name, _)| format!("{NAMESPACE}.{name}")).collect();
        ensure!(listed == living, "the directory has {listed:?} instead of {living:?}");
        Ok(())
    }

    async fn is_as(&self, site: &DynamicObject, wish: &Wish, by: &str) -> Result<()> {
        let (name, status) = (site.name_any(), &site.data["status"]);
        let ready = &status["conditions"][0];
        let generation = json!(site.metadata.generation);
        ensure!(ready["status"] == "True" && ready["observedGeneration"] == generation, "{status}");
        ensure!(status["writtenBy"] == by, "{status}");
        let page = self.maps.get(&name).await?.data.unwrap_or_default();
        ensure!(page.get("index.html") == Some(&wish.html), "{page:?} instead of {}", wish.html);
        let replicas = self.deployments.get(&name).await?.spec.unwrap_or_default().replicas;
        ensure!(replicas == Some(wish.replicas), "{replicas:?} instead of {}", wish.replicas);
        self.services.get(&name).await?;
        Ok(())
    }
}

fn spec(wish: &Wish) -> Value {
    json!({"html": wish.html, "replicas": wish.replicas})
}

/// Ignores a missing object.
fn found<T>(answer: kube_client::Result<T>) -> Result<()> {
    match answer {
        Err(Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

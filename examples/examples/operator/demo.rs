//! The scripted demo: creates, changes and deletes a site, and prints the results of the operator.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentStatus},
    core::v1::{ConfigMap, Service},
    events::v1::Event,
};
use kube_client::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use kube_informer::{CachedApi, InformerFactory};
use kube_informer_examples::website::{DIRECTORY, Website, WebsiteSpec};
use kube_operator::{Action, Controller, Failure, Leadership, Request, is_condition_true, update_status};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

const STEP_TIMEOUT: Duration = Duration::from_secs(60);
const SITE: &str = "kube-informer-example";

/// Runs all steps and prints a line for each.
pub(super) async fn run(client: &Client, namespace: &str, address: SocketAddr) -> anyhow::Result<()> {
    let sites: Api<Website> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);

    let site = Website::new(SITE, WebsiteSpec { html: "<h1>Hello</h1>".to_owned(), replicas: 2 });
    let site = sites.create(&PostParams::default(), &site).await?;
    println!("created   : Website {SITE} with 2 replicas");
    let deployment = wait_for("the Deployment", async || deployments.get_opt(SITE).await).await?;
    let owner = deployment.owner_references().first().context("the Deployment has no owner")?.name.clone();
    println!("owns      : Deployment {SITE}, with owner Website {owner}");
    wait_for("the site to be ready", async || Ok(sites.get_opt(SITE).await?.filter(is_ready))).await?;
    println!("ready     : 2 replicas are available");
    let entry = wait_for("the directory entry", async || directory_entry(&maps, namespace).await).await?;
    println!("directory : {entry}");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let published = wait_for("an event", async || {
        let all = events.list(&ListParams::default()).await?;
        Ok(all
            .into_iter()
            .find(|event| is_about(event, &site) && event.reason.as_deref() == Some("Published")))
    });
    println!("event     : {}", published.await?.note.unwrap_or_default());

    let before = services.get(SITE).await?.uid();
    services.delete(SITE, &DeleteParams::default()).await?;
    let replaced = async || Ok(services.get_opt(SITE).await?.filter(|service| service.uid() != before));
    wait_for("the restored Service", replaced).await?;
    println!("restored  : Service {SITE}, after its deletion");

    let patch = Patch::Merge(json!({"spec": {"html": "<h1>Bye</h1>", "replicas": 3}}));
    sites.patch(SITE, &PatchParams::default(), &patch).await?;
    let changed = |map: &ConfigMap| map.data.iter().flatten().any(|(_, page)| page.contains("Bye"));
    wait_for("the new page", async || Ok(maps.get_opt(SITE).await?.filter(changed))).await?;
    let ready = |site: &Website| is_ready(site) && observed_generation(site) == site.metadata.generation;
    wait_for("the changed site to be ready", async || Ok(sites.get_opt(SITE).await?.filter(ready))).await?;
    println!("changed   : the page; 3 replicas are available");
    println!("metrics   : {}", metric(address, "controller_runtime_reconcile_total{").await?);

    sites.delete(SITE, &DeleteParams::default()).await?;
    wait_for("the deletion of the site", async || Ok(sites.get_opt(SITE).await?.is_none().then_some(())))
        .await?;
    if directory_entry(&maps, namespace).await?.is_some() {
        bail!("{SITE} is deleted but still has a directory entry");
    }
    println!("deleted   : Website {SITE} and its directory entry");
    let deleted = async || Ok(deployments.get_opt(SITE).await?.is_none().then_some(()));
    wait_for("the deletion of the Deployment", deleted).await?;
    println!("collected : Deployment {SITE}, by the garbage collector");
    Ok(())
}

fn is_ready(site: &Website) -> bool {
    site.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Ready"))
}

fn observed_generation(site: &Website) -> Option<i64> {
    site.status.as_ref().and_then(|status| status.observed_generation)
}

/// Compares uids, because an earlier site may have had the same name.
fn is_about(event: &Event, site: &Website) -> bool {
    event.regarding.as_ref().is_some_and(|about| about.uid.is_some() && about.uid == site.uid())
}

async fn directory_entry(maps: &Api<ConfigMap>, namespace: &str) -> kube_client::Result<Option<String>> {
    let directory = maps.get_opt(DIRECTORY).await?;
    Ok(directory.and_then(|map| map.data?.remove(&format!("{namespace}.{SITE}"))))
}

/// Calls `check` until it returns a value.
async fn wait_for<T>(
    what: &str,
    check: impl AsyncFn() -> kube_client::Result<Option<T>>,
) -> anyhow::Result<T> {
    let polling = async {
        loop {
            if let Some(value) = check().await? {
                return Ok(value);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(STEP_TIMEOUT, polling).await {
        Ok(result) => result,
        Err(_) => bail!("timed out after {STEP_TIMEOUT:?} while waiting for {what}"),
    }
}

/// Returns the first successful sample of a metric from `/metrics`.
async fn metric(address: SocketAddr, prefix: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    let line = page.lines().find(|line| line.starts_with(prefix) && line.contains("success"));
    Ok(line.with_context(|| format!("/metrics has no {prefix}"))?.to_owned())
}

/// Reports all replicas of each Deployment as available. The embedded server has no kubelet that
/// does this.
pub(super) async fn run_kubelet(client: Client, stop: CancellationToken) -> anyhow::Result<()> {
    let factory = InformerFactory::new(client.clone());
    let deployments = factory.informer::<Deployment>()?;
    let cached = CachedApi::new(Api::all(client), &deployments);
    let reconcile = move |request: Request<Deployment>| {
        let cached = cached.namespace(request.key.namespace().unwrap_or_default());
        async move {
            let Some(deployment) = request.object.present() else { return Ok(Action::AwaitChange) };
            update_status(&cached, deployment, |deployment| {
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                deployment.status = Some(DeploymentStatus {
                    available_replicas: replicas,
                    observed_generation: deployment.metadata.generation,
                    ..DeploymentStatus::default()
                });
                Ok(())
            })
            .await?;
            Ok::<_, Failure>(Action::Done)
        }
    };
    Controller::new(&deployments).run(reconcile, Leadership::always(), stop).await?;
    factory.shutdown().await;
    Ok(())
}

//! What happens to a site, and what the operator makes of it.

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

/// Each step takes at most this long.
const STEP: Duration = Duration::from_secs(60);
const SITE: &str = "kube-informer-example";

/// The story, line by line.
pub(super) async fn tell(client: &Client, namespace: &str, address: SocketAddr) -> anyhow::Result<()> {
    let sites: Api<Website> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);

    let site = Website::new(SITE, WebsiteSpec { html: "<h1>Hello</h1>".to_owned(), replicas: 2 });
    let site = sites.create(&PostParams::default(), &site).await?;
    println!("created   : Website {SITE} with 2 replicas");
    let deployment = until("its Deployment", async || deployments.get_opt(SITE).await).await?;
    let owner = deployment.owner_references().first().context("it has an owner")?.name.clone();
    println!("owns      : Deployment {SITE}, whose controller is Website {owner}");
    until("the site is ready", async || Ok(sites.get_opt(SITE).await?.filter(is_ready))).await?;
    println!("ready     : 2 replicas serve");
    let listed = until("its line in the directory", async || line(&maps, namespace).await).await?;
    println!("directory : {listed}");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let published = until("an event", async || {
        let all = events.list(&ListParams::default()).await?;
        Ok(all
            .into_iter()
            .find(|event| is_about(event, &site) && event.reason.as_deref() == Some("Published")))
    });
    println!("event     : {}", published.await?.note.unwrap_or_default());

    let before = services.get(SITE).await?.uid();
    services.delete(SITE, &DeleteParams::default()).await?;
    let another = async || Ok(services.get_opt(SITE).await?.filter(|service| service.uid() != before));
    until("another Service", another).await?;
    println!("restored  : Service {SITE}, which somebody had deleted");

    let patch = Patch::Merge(json!({"spec": {"html": "<h1>Bye</h1>", "replicas": 3}}));
    sites.patch(SITE, &PatchParams::default(), &patch).await?;
    let changed = |map: &ConfigMap| map.data.iter().flatten().any(|(_, page)| page.contains("Bye"));
    until("the new page", async || Ok(maps.get_opt(SITE).await?.filter(changed))).await?;
    let ready = |site: &Website| is_ready(site) && observed(site) == site.metadata.generation;
    until("the site is ready again", async || Ok(sites.get_opt(SITE).await?.filter(ready))).await?;
    println!("changed   : the page, and 3 replicas serve it");
    println!("metrics   : {}", metric(address, "controller_runtime_reconcile_total{").await?);

    sites.delete(SITE, &DeleteParams::default()).await?;
    until("its end", async || Ok(sites.get_opt(SITE).await?.is_none().then_some(()))).await?;
    if line(&maps, namespace).await?.is_some() {
        bail!("{SITE} is gone and still in the directory");
    }
    println!("deleted   : Website {SITE}, and its line in the directory");
    let end = async || Ok(deployments.get_opt(SITE).await?.is_none().then_some(()));
    until("the end of its Deployment", end).await?;
    println!("collected : Deployment {SITE}");
    Ok(())
}

fn is_ready(site: &Website) -> bool {
    site.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Ready"))
}

fn observed(site: &Website) -> Option<i64> {
    site.status.as_ref().and_then(|status| status.observed_generation)
}

/// A site of this name may have been there before.
fn is_about(event: &Event, site: &Website) -> bool {
    event.regarding.as_ref().is_some_and(|about| about.uid.is_some() && about.uid == site.uid())
}

async fn line(maps: &Api<ConfigMap>, namespace: &str) -> kube_client::Result<Option<String>> {
    let directory = maps.get_opt(DIRECTORY).await?;
    Ok(directory.and_then(|map| map.data?.remove(&format!("{namespace}.{SITE}"))))
}

/// Asks until there is an answer.
async fn until<T>(what: &str, ask: impl AsyncFn() -> kube_client::Result<Option<T>>) -> anyhow::Result<T> {
    let asked = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(STEP, asked).await {
        Ok(answer) => answer,
        Err(_) => bail!("waited in vain for {what}"),
    }
}

/// The first line of `/metrics` that begins so.
async fn metric(address: SocketAddr, name: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    let line = page.lines().find(|line| line.starts_with(name) && line.contains("success"));
    Ok(line.context("the metric is there")?.to_owned())
}

/// On a server without a kubelet nothing serves: this says of each Deployment that all its replicas do.
pub(super) async fn kubelet(client: Client, stop: CancellationToken) -> anyhow::Result<()> {
    let factory = InformerFactory::new(client.clone());
    let deployments = factory.informer::<Deployment>()?;
    let cached = CachedApi::new(Api::all(client), &deployments);
    let run = move |request: Request<Deployment>| {
        let cached = cached.namespace(request.key.namespace().unwrap_or_default());
        async move {
            let Some(deployment) = request.object else { return Ok(Action::AwaitChange) };
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
    Controller::new(&deployments).run(run, Leadership::always(), stop).await?;
    factory.shutdown().await;
    Ok(())
}

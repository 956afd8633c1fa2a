//! The cluster that operators work on, in a process of its own: its Websites, and what becomes of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client, ResourceExt as _};
use kube_runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::check::check;
use super::control::{Command, Reply};
use super::observer::Observer;
use super::server::Counter;
use super::website::{Website, WebsiteSpec, definition};

/// So many namespaces have Websites.
const NAMESPACES: usize = 20;
/// Before the number of a namespace.
const TEAM: &str = "team-";
/// Before the number of a Website in its name.
const NAME: &str = "site-";
/// So many Websites are created at once.
const PARALLEL: usize = 16;
/// A definition is served before this.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// The Websites of a server, and what is known of them.
pub(super) struct Cluster {
    client: Client,
    objects: usize,
    observer: Observer,
    /// Where requests can be counted.
    counter: Option<Counter>,
}

impl Cluster {
    /// So many Websites on this server, which has none. Nothing was done yet for them.
    ///
    /// # Errors
    /// What the server refuses.
    ///
    /// # Cancel safety
    /// Dropped early, some are there.
    pub(super) async fn new(client: Client, objects: usize, counter: Option<Counter>) -> Result<Self> {
        fill(&client, objects).await.context("filling the server")?;
        Ok(Self { client, objects, observer: Observer::new(objects), counter })
    }

    /// Looks at the Websites until it is dropped.
    pub(super) async fn observe(&self) {
        self.observer.watch(self.client.clone()).await;
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// What the server refuses.
    ///
    /// # Cancel safety
    /// Dropped early, some Websites may have been changed.
    pub(super) async fn obey(&self, command: Command) -> Result<Reply> {
        let (mut latency, mut state) = (None, None);
        match command {
            Command::Ready => self.observer.all_ready().await,
            Command::Change { websites, per_second } => {
                self.change(websites, per_second).await?;
                self.observer.all_ready().await;
                latency = self.observer.latency();
            }
            Command::Count => {}
            Command::Check => state = Some(check(&self.client, self.objects).await?),
        }
        Ok(Reply { requests: self.counter.as_ref().map(Counter::so_far), latency, state })
    }

    /// Changes so many Websites, which are spread over all.
    async fn change(&self, websites: usize, per_second: u64) -> Result<()> {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second.max(1) as f64));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for turn in 0..websites.min(self.objects) {
            ticks.tick().await;
            let number = turn * self.objects / websites;
            let (namespace, name) = (namespace(number), name(number));
            let api: Api<Website> = Api::namespaced(self.client.clone(), &namespace);
            let patch = Patch::Merge(json!({"spec": spec(number, 2)}));
            let awaited = self.observer.changes(number);
            let changed = api.patch(&name, &PatchParams::default(), &patch).await;
            let changed = changed.with_context(|| format!("changing {namespace}/{name}"))?;
            let generation = changed.metadata.generation;
            ensure!(
                generation == awaited,
                "{namespace}/{name} is of generation {generation:?}, not {awaited:?}"
            );
        }
        Ok(())
    }
}

/// Gives a server so many Websites, their definition, their namespaces.
pub(super) async fn fill(client: &Client, objects: usize) -> Result<()> {
    define(client).await?;
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for number in 0..NAMESPACES {
        let namespace = serde_json::from_value(json!({"metadata": {"name": namespace(number)}}))?;
        namespaces.create(&params, &namespace).await?;
    }
    let create = |number| {
        let api: Api<Website> = Api::namespaced(client.clone(), &namespace(number));
        let (website, params) = (Website::new(&name(number), spec(number, 1)), &params);
        async move { api.create(params, &website).await.map(drop) }
    };
    Ok(stream::iter(0..objects).map(create).buffer_unordered(PARALLEL).try_collect().await?)
}

async fn define(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition())?;
    let name = definitions.create(&PostParams::default(), &definition).await?.name_any();
    let established = await_condition(definitions, &name, is_crd_established());
    timeout(ESTABLISHED, established).await.context("Websites are not served")??;
    Ok(())
}

fn namespace(number: usize) -> String {
    format!("{TEAM}{:02}", number % NAMESPACES)
}

/// Whether a namespace has Websites. A server has others of its own.
pub(super) fn has_websites(namespace: &str) -> bool {
    namespace.starts_with(TEAM)
}

fn name(number: usize) -> String {
    format!("{NAME}{number:05}")
}

/// The number of the Website of this name.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(NAME)?.parse().ok()
}

/// What a Website asks for. Another revision has another page and another image.
fn spec(number: usize, revision: usize) -> WebsiteSpec {
    let line =
        format!("<p>Website {number}, revision {revision}: what is served here is of no interest.</p>\n");
    let html = format!("<!doctype html>\n<title>{number}</title>\n{}", line.repeat(5));
    WebsiteSpec { image: format!("registry.example.com/server:1.{revision}"), replicas: 2, html }
}

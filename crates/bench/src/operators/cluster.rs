//! The cluster of an operator: its Websites, their changes, and the observation of their status.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::check::check;
use super::observer::Observer;
use super::protocol::{Command, Reply};
use super::server::Counter;
use super::website::Website;
use super::workload::{fill, name, namespace, spec};

/// The Websites of a server and their observed status.
pub(super) struct Cluster {
    client: Client,
    objects: usize,
    observer: Observer,
    /// Counts the requests, if the server supports this.
    counter: Option<Counter>,
}

impl Cluster {
    /// Creates `objects` Websites on a server without Websites.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects a request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some Websites may exist.
    pub(super) async fn new(client: Client, objects: usize, counter: Option<Counter>) -> Result<Self> {
        fill(&client, objects).await.context("cannot create the Websites")?;
        Ok(Self { client, objects, observer: Observer::new(objects), counter })
    }

    /// Observes the Websites until the future is dropped.
    pub(super) async fn observe(&self) {
        self.observer.watch(self.client.clone()).await;
    }

    /// Executes a command.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects a request.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some Websites may be changed.
    pub(super) async fn handle_command(&self, command: Command) -> Result<Reply> {
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
        Ok(Reply { requests: self.counter.as_ref().map(Counter::total), latency, state })
    }

    /// Changes `websites` Websites, distributed evenly over all Websites.
    async fn change(&self, websites: usize, per_second: u64) -> Result<()> {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second.max(1) as f64));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for index in 0..websites.min(self.objects) {
            ticks.tick().await;
            let number = index * self.objects / websites;
            let (namespace, name) = (namespace(number), name(number));
            let api: Api<Website> = Api::namespaced(self.client.clone(), &namespace);
            let patch = Patch::Merge(json!({"spec": spec(number, 2)}));
            let expected = self.observer.start_change(number);
            let changed = api.patch(&name, &PatchParams::default(), &patch).await;
            let changed = changed.with_context(|| format!("cannot change {namespace}/{name}"))?;
            let generation = changed.metadata.generation;
            ensure!(
                generation == expected,
                "{namespace}/{name} has generation {generation:?}, expected {expected:?}"
            );
        }
        Ok(())
    }
}

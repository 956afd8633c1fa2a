//! One contender, once: from its start through events and relists to its end.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::process;
use tokio::time::sleep;

use super::{Places, Settings};
use crate::client::{Latency, Order, Report};
use crate::contenders::{Contender, Field};
use crate::process::Process;
use crate::replay::{Command, Listening, Reply};
use crate::stage::{Begun, Stage};

/// One in so many objects changes where it is a few.
const FEW: u64 = 20;

/// What was measured of one contender in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// How many objects it held after its first list.
    pub objects: usize,
    /// From its start until its cache was in sync.
    pub sync: Stage,
    /// Events, sent as fast as it read them.
    pub events: Stage,
    /// How often its handler was called from its start to the end of these.
    pub handled: u64,
    /// A relist after an ERROR 410, of what it had already.
    pub relist: Stage,
    /// The same with one in 20 objects changed.
    pub relist_changed: Stage,
    /// A relist that was asked for and not caused by an expiry, where the library has that; nothing has changed.
    pub relist_asked: Option<Stage>,
    /// Events at a fixed rate.
    pub paced: Stage,
    /// How long each of these took.
    pub latency: Option<Latency>,
}

/// A contender and its server.
pub(crate) struct Run {
    /// How long the contender is left alone after each stage.
    settle: Duration,
    server: Process,
    client: Process,
    /// What the server last said.
    reply: Reply,
}

/// Measures a contender.
pub(super) async fn run(
    settings: &Settings,
    places: &Places,
    field: &Field,
    contender: &Contender,
) -> Result<Round> {
    let (server, logs) = (field.server(&places.recording), places.folder.join("logs"));
    let client = |url: &str| field.command(contender, url);
    let (mut run, objects, sync) = Run::start(server, contender.name, client, settings.settle, &logs).await?;
    let round = run.after(settings, objects, sync).await?;
    run.stop().await?;
    Ok(round)
}

impl Run {
    /// Starts a server, and a contender on its URL. How many objects the contender has once it is in sync, and what that
    /// cost.
    pub(crate) async fn start(
        server: process::Command,
        name: &str,
        client: impl FnOnce(&str) -> Result<process::Command>,
        settle: Duration,
        logs: &Path,
    ) -> Result<(Self, usize, Stage)> {
        let mut server = Process::spawn("replay", server, logs)?;
        let Listening { url } = server.hear().await?;
        server.tell(&Command::Counts).await?;
        let reply: Reply = server.hear().await?;

        let begun = Begun::from_nothing();
        let client = Process::spawn(name, client(&url)?, logs)?;
        let mut run = Self { settle, server, client, reply };
        let objects = run.synced().await?;
        let sync = run.end(&begun).await?;
        Ok((run, objects, sync))
    }

    /// The most that the server has had in memory, in bytes.
    pub(crate) fn server_peak(&self) -> Result<u64> {
        Ok(self.server.memory()?.peak)
    }

    /// Ends both.
    pub(crate) async fn stop(self) -> Result<()> {
        self.client.stop().await?;
        self.server.stop().await
    }

    /// What comes after the first list.
    async fn after(&mut self, settings: &Settings, objects: usize, sync: Stage) -> Result<Round> {
        let (events, handled) = self.events(settings.events).await?;
        let relist = self.relist(0).await?;
        let relist_changed = self.relist(objects as u64 / FEW).await?;
        let relist_asked = self.relist_asked().await?;
        let (paced, latency) = self.paced(settings.rate, settings.seconds).await?;
        Ok(Round { objects, sync, events, handled, relist, relist_changed, relist_asked, paced, latency })
    }

    async fn synced(&mut self) -> Result<usize> {
        match self.client.hear().await? {
            Report::Synced(objects) => Ok(objects),
            other => bail!("instead of being in sync it says {other:?}"),
        }
    }

    /// So many events as fast as they are read, and how often the handler was called from its start until then.
    pub(crate) async fn events(&mut self, events: u64) -> Result<(Stage, u64)> {
        let begun = self.begin()?;
        self.await_version(self.reply.version + events, false).await?;
        self.server(Command::Release(events)).await?;
        let (handled, _) = self.reached().await?;
        Ok((self.end(&begun).await?, handled))
    }

    /// Its watch is ended with an ERROR 410, after changes that it has not seen.
    async fn relist(&mut self, changes: u64) -> Result<Stage> {
        let begun = self.begin()?;
        let states = self.reply.counts.states();
        self.server(Command::Expire(changes)).await?;
        self.listed(states + 1).await?;
        self.end(&begun).await
    }

    async fn relist_asked(&mut self) -> Result<Option<Stage>> {
        let begun = self.begin()?;
        let states = self.reply.counts.states();
        self.client.tell(&Order::Relist).await?;
        match self.client.hear().await? {
            Report::Relisting(true) => {}
            Report::Relisting(false) => return Ok(None),
            other => bail!("instead of relisting it says {other:?}"),
        }
        self.listed(states + 1).await?;
        self.end(&begun).await.map(Some)
    }

    /// A list is over when an event that was released after it has come to the handler.
    async fn listed(&mut self, states: u64) -> Result<()> {
        self.server(Command::States(states)).await?;
        self.await_version(self.reply.version + 1, false).await?;
        self.server(Command::Release(1)).await?;
        self.reached().await?;
        self.server(Command::Counts).await?;
        let now = self.reply.counts.states();
        ensure!(now == states, "{} lists instead of one", now + 1 - states);
        Ok(())
    }

    async fn paced(&mut self, per_second: u64, seconds: u64) -> Result<(Stage, Option<Latency>)> {
        let begun = self.begin()?;
        let events = per_second * seconds;
        self.await_version(self.reply.version + events, true).await?;
        self.server(Command::Pace { events, per_second }).await?;
        let (_, latency) = self.reached().await?;
        Ok((self.end(&begun).await?, latency))
    }

    async fn await_version(&mut self, version: u64, measured: bool) -> Result<()> {
        self.client.tell(&Order::Until { version, measured }).await
    }

    async fn reached(&mut self) -> Result<(u64, Option<Latency>)> {
        match self.client.hear().await? {
            Report::Reached { events, latency } => Ok((events, latency)),
            other => bail!("instead of reaching a version it says {other:?}"),
        }
    }

    async fn server(&mut self, command: Command) -> Result<()> {
        self.server.tell(&command).await?;
        self.reply = self.server.hear().await?;
        Ok(())
    }

    fn begin(&self) -> Result<Begun> {
        Begun::of(&self.client)
    }

    /// What it does while it settles belongs to the stage: garbage may be collected, handlers may lag.
    async fn end(&self, begun: &Begun) -> Result<Stage> {
        let wall = begun.wall();
        sleep(self.settle).await;
        begun.end(&self.client, wall)
    }
}

//! One measurement of one contender: start, events, relists and paced events.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::process;
use tokio::time::sleep;

use super::{Paths, Settings};
use crate::client::{Latency, Order, Report};
use crate::contenders::{Contender, Contenders, Endpoint};
use crate::process::Process;
use crate::replay::{Command, Listening, Reply};
use crate::stage::{Stage, StageTimer};

/// One in this many objects changes before a relist with changes.
const CHANGE_INTERVAL: u64 = 20;

/// Contains the measurement of one contender in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// The number of objects after the initial list.
    pub objects: usize,
    /// The stage from the start of the process until its cache is synced.
    pub sync: Stage,
    /// The stage in which the server sends events at full speed.
    pub events: Stage,
    /// The number of handler calls for the events at full speed.
    pub handled: u64,
    /// The relist after an ERROR 410. No object has changed.
    pub relist: Stage,
    /// The relist after an ERROR 410. One in 20 objects has changed.
    pub relist_changed: Stage,
    /// The relist that the program requests. No object has changed. `None` if the library does not
    /// support such a relist.
    pub relist_asked: Option<Stage>,
    /// The stage in which the server sends events at a fixed rate.
    pub paced: Stage,
    /// The latency of the events at a fixed rate.
    pub latency: Option<Latency>,
}

/// A contender and its server.
pub(crate) struct RunningContender {
    /// The pause after each stage.
    settle: Duration,
    server: Process,
    client: Process,
    /// The last reply of the server.
    reply: Reply,
    /// The number of bytes that the server had sent at the end of the last stage.
    bytes: u64,
}

/// Measures a contender once.
pub(super) async fn run(
    settings: &Settings,
    paths: &Paths,
    contenders: &Contenders,
    contender: &Contender,
) -> Result<Round> {
    let (server, logs) = (contenders.server(&paths.recording), paths.folder.join("logs"));
    let client = |url: &str| contenders.command(contender, Endpoint::Url(url));
    let (mut run, objects, sync) =
        RunningContender::start(server, contender.name, client, settings.settle, &logs).await?;
    let round = run.after(settings, objects, sync).await?;
    run.stop().await?;
    Ok(round)
}

impl RunningContender {
    /// Starts a server and a contender. Returns the number of objects after the sync, and the cost
    /// of the sync.
    pub(crate) async fn start(
        server: process::Command,
        name: &str,
        client: impl FnOnce(&str) -> Result<process::Command>,
        settle: Duration,
        logs: &Path,
    ) -> Result<(Self, usize, Stage)> {
        let mut server = Process::spawn("replay", server, logs)?;
        let Listening { url } = server.receive().await?;
        server.send(&Command::Counts).await?;
        let reply: Reply = server.receive().await?;

        let begun = StageTimer::from_start();
        let client = Process::spawn(name, client(&url)?, logs)?;
        let mut run = Self { settle, server, client, reply, bytes: reply.counts.bytes };
        let objects = run.synced().await?;
        let sync = run.end(&begun).await?;
        Ok((run, objects, sync))
    }

    /// Returns the peak memory of the server in bytes.
    pub(crate) fn server_peak(&self) -> Result<u64> {
        Ok(self.server.memory()?.peak)
    }

    /// Stops the contender and the server.
    pub(crate) async fn stop(self) -> Result<()> {
        self.client.stop().await?;
        self.server.stop().await
    }

    /// Measures the stages after the initial list.
    async fn after(&mut self, settings: &Settings, objects: usize, sync: Stage) -> Result<Round> {
        let (events, handled) = self.events(settings.events).await?;
        let relist = self.relist(0).await?;
        let relist_changed = self.relist(objects as u64 / CHANGE_INTERVAL).await?;
        let relist_asked = self.relist_asked().await?;
        let (paced, latency) = self.paced(settings.rate, settings.seconds).await?;
        Ok(Round { objects, sync, events, handled, relist, relist_changed, relist_asked, paced, latency })
    }

    async fn synced(&mut self) -> Result<usize> {
        match self.client.receive().await? {
            Report::Synced(objects) => Ok(objects),
            other => bail!("unexpected message of the contender: {other:?}"),
        }
    }

    /// Measures events at full speed. Also returns the number of handler calls since the start.
    pub(crate) async fn events(&mut self, events: u64) -> Result<(Stage, u64)> {
        let begun = self.begin()?;
        self.await_version(self.reply.version + events, false).await?;
        self.send_to_server(Command::Release(events)).await?;
        let (handled, _) = self.reached().await?;
        Ok((self.end(&begun).await?, handled))
    }

    /// Measures a relist after an ERROR 410, with `changes` changes that the watch did not send.
    async fn relist(&mut self, changes: u64) -> Result<Stage> {
        let begun = self.begin()?;
        let states = self.reply.counts.states();
        self.send_to_server(Command::Expire(changes)).await?;
        self.listed(states + 1).await?;
        self.end(&begun).await
    }

    async fn relist_asked(&mut self) -> Result<Option<Stage>> {
        let begun = self.begin()?;
        let states = self.reply.counts.states();
        self.client.send(&Order::Relist).await?;
        match self.client.receive().await? {
            Report::Relisting(true) => {}
            Report::Relisting(false) => return Ok(None),
            other => bail!("unexpected message of the contender: {other:?}"),
        }
        self.listed(states + 1).await?;
        self.end(&begun).await.map(Some)
    }

    /// Waits until a relist is complete: the handler has received an event that was released after
    /// the list.
    async fn listed(&mut self, states: u64) -> Result<()> {
        self.send_to_server(Command::States(states)).await?;
        self.await_version(self.reply.version + 1, false).await?;
        self.send_to_server(Command::Release(1)).await?;
        self.reached().await?;
        self.send_to_server(Command::Counts).await?;
        let now = self.reply.counts.states();
        ensure!(now == states, "{} lists, expected one", now + 1 - states);
        Ok(())
    }

    async fn paced(&mut self, per_second: u64, seconds: u64) -> Result<(Stage, Option<Latency>)> {
        let begun = self.begin()?;
        let events = per_second * seconds;
        self.await_version(self.reply.version + events, true).await?;
        self.send_to_server(Command::Pace { events, per_second }).await?;
        let (_, latency) = self.reached().await?;
        Ok((self.end(&begun).await?, latency))
    }

    async fn await_version(&mut self, version: u64, measured: bool) -> Result<()> {
        self.client.send(&Order::Until { version, measured }).await
    }

    async fn reached(&mut self) -> Result<(u64, Option<Latency>)> {
        match self.client.receive().await? {
            Report::Reached { events, latency } => Ok((events, latency)),
            other => bail!("unexpected message of the contender: {other:?}"),
        }
    }

    async fn send_to_server(&mut self, command: Command) -> Result<()> {
        self.server.send(&command).await?;
        self.reply = self.server.receive().await?;
        Ok(())
    }

    fn begin(&self) -> Result<StageTimer> {
        StageTimer::of(&self.client)
    }

    /// Ends a stage. The pause is part of the stage, because garbage collection and handlers may
    /// still run.
    async fn end(&mut self, begun: &StageTimer) -> Result<Stage> {
        let wall = begun.wall();
        sleep(self.settle).await;
        self.send_to_server(Command::Counts).await?;
        let received = self.reply.counts.bytes - std::mem::replace(&mut self.bytes, self.reply.counts.bytes);
        Ok(Stage { received, ..begun.end(&self.client, wall)? })
    }
}

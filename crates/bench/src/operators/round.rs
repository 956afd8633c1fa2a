//! One operator, once: from nothing to everything, through changes and a while without, and started again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::OperatorSettings;
use super::contenders::{Contender, Field};
use super::control::{Command, Filled, Reply};
use super::program::Said;
use super::server::Requests;
use crate::client::Latency;
use crate::process::Process;
use crate::stage::{Begun, Stage};

/// A program is at rest that uses less than one part in so many of a processor.
const REST: u32 = 50;
/// It is looked at so often before it is given up.
const LOOKS: usize = 240;

/// What was measured of one operator in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorRound {
    /// From its start until all Websites were ready.
    pub cold: Part,
    /// Until the last change was reported to be ready.
    pub changes: Part,
    /// How long each change took from the moment at which the server had it.
    pub latency: Latency,
    /// Nothing happens.
    pub idle: Part,
    /// From its second start, where nothing was left to do, until it had looked at each Website.
    pub restart: Part,
    /// Of what it has left behind: after its first start, after the changes, at the end.
    pub digests: [String; 3],
}

/// A part of a round. What a program does until it is at rest belongs to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What it cost the operator.
    pub stage: Stage,
    /// What it has asked of the server, where that is counted.
    pub requests: Option<Requests>,
    /// How many runs have ended.
    pub runs: u64,
    /// How many of them had failed.
    pub failed: u64,
}

/// The runs so far.
#[derive(Clone, Copy, Default)]
struct Runs {
    ended: u64,
    failed: u64,
}

/// An operator and its cluster.
struct Run<'a> {
    settings: &'a OperatorSettings,
    cluster: Process,
    operator: Process,
    /// What was asked before the part that is measured.
    asked: Option<Requests>,
    /// The runs before it.
    runs: Runs,
}

/// Measures an operator.
pub(super) async fn run(
    settings: &OperatorSettings,
    field: &Field,
    contender: &Contender,
    logs: &Path,
) -> Result<OperatorRound> {
    let mut cluster = Process::spawn("cluster", field.cluster(settings), logs)?;
    let Filled { kubeconfig } = cluster.hear().await?;
    let start =
        || Process::spawn(contender.name, field.operator(contender, &kubeconfig, settings.objects)?, logs);

    let begun = Begun::from_nothing();
    let operator = start()?;
    let mut run = Run { settings, cluster, operator, asked: None, runs: Runs::default() };
    let cold = run.cold(&begun).await?;
    let first = run.check().await?;
    let (changes, latency) = run.changes().await?;
    let second = run.check().await?;
    let idle = run.idle().await?;
    run.operator.stop().await?;

    let begun = Begun::from_nothing();
    (run.operator, run.runs) = (start()?, Runs::default());
    let restart = run.restart(&begun).await?;
    let last = run.check().await?;
    run.operator.stop().await?;
    run.cluster.stop().await?;
    Ok(OperatorRound { cold, changes, latency, idle, restart, digests: [first, second, last] })
}

impl Run<'_> {
    async fn cold(&mut self, begun: &Begun) -> Result<Part> {
        self.cluster(Command::Ready).await?;
        let wall = begun.wall();
        self.looked().await?;
        self.part(begun, wall).await
    }

    async fn changes(&mut self) -> Result<(Part, Latency)> {
        let OperatorSettings { changes, rate, .. } = *self.settings;
        let begun = Begun::of(&self.operator)?;
        let reply = self.cluster(Command::Change { websites: changes, per_second: rate }).await?;
        let wall = begun.wall();
        let latency = reply.latency.context("no change was seen")?;
        Ok((self.part(&begun, wall).await?, latency))
    }

    async fn idle(&mut self) -> Result<Part> {
        let begun = Begun::of(&self.operator)?;
        sleep(self.settings.idle).await;
        let stage = begun.end(&self.operator, begun.wall())?;
        self.counted(stage).await
    }

    async fn restart(&mut self, begun: &Begun) -> Result<Part> {
        self.looked().await?;
        let wall = begun.wall();
        self.part(begun, wall).await
    }

    async fn looked(&mut self) -> Result<()> {
        match self.operator.hear().await? {
            Said::Looked => Ok(()),
            other => bail!("instead of having looked at all it says {other:?}"),
        }
    }

    /// What a part cost that was done after `wall` seconds.
    async fn part(&mut self, begun: &Begun, wall: f64) -> Result<Part> {
        self.rest().await?;
        let stage = begun.end(&self.operator, wall)?;
        self.counted(stage).await
    }

    /// Waits until the operator is at rest.
    async fn rest(&self) -> Result<()> {
        let settle = self.settings.settle;
        for _ in 0..LOOKS {
            let before = self.operator.cpu()?;
            sleep(settle).await;
            if self.operator.cpu()? - before <= settle / REST {
                return Ok(());
            }
        }
        bail!("it does not come to rest")
    }

    /// With what was asked, and the runs that there were, since this was counted last.
    async fn counted(&mut self, stage: Stage) -> Result<Part> {
        self.operator.tell(&"runs").await?;
        let now = match self.operator.hear().await? {
            Said::Runs { ended, failed } => Runs { ended, failed },
            other => bail!("instead of its runs it says {other:?}"),
        };
        let asked = self.cluster(Command::Count).await?.requests;
        let part = Part {
            stage,
            requests: asked.map(|now| now.since(self.asked.unwrap_or_default())),
            runs: now.ended - self.runs.ended,
            failed: now.failed - self.runs.failed,
        };
        (self.asked, self.runs) = (asked, now);
        Ok(part)
    }

    async fn check(&mut self) -> Result<String> {
        let state =
            self.cluster(Command::Check).await?.state.context("the cluster says nothing of its state")?;
        ensure!(state.wrong.is_empty(), "it has not done its work: {}", state.wrong.join("; "));
        Ok(state.digest)
    }

    async fn cluster(&mut self, command: Command) -> Result<Reply> {
        self.cluster.tell(&command).await?;
        self.cluster.hear().await
    }
}

/// How long a program is looked at that may be at rest.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

//! One measurement of one operator: first start, changes, idle stage and restart.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::OperatorSettings;
use super::contenders::{Contender, Contenders};
use super::protocol::{ClusterReady, Command, Reply};
use super::reconciles::OperatorMessage;
use super::server::Requests;
use crate::client::Latency;
use crate::process::Process;
use crate::stage::{Stage, StageTimer};

/// Contains the measurement of one operator in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorRound {
    /// The part from the first start of the operator until all Websites are ready.
    pub cold: Part,
    /// The part from the first change until all changed Websites are ready.
    pub changes: Part,
    /// The percentiles of the time from a change until the changed Website is ready again.
    pub latency: Latency,
    /// The part in which no object changes.
    pub idle: Part,
    /// The part from the second start until each Website is reconciled. No write is necessary in this
    /// part.
    pub restart: Part,
    /// The digests of all objects after the first start, after the changes, and at the end.
    pub digests: [String; 3],
}

/// Represents a part of a round. It includes the time until the operator is at rest.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The resource use of the operator.
    pub stage: Stage,
    /// The requests of the operator, if the server counts them.
    pub requests: Option<Requests>,
    /// The number of completed reconciles.
    pub runs: u64,
    /// The number of failed reconciles.
    pub failed: u64,
}

/// The number of reconciles so far.
#[derive(Clone, Copy, Default)]
struct Reconciles {
    total: u64,
    failed: u64,
}

/// An operator and its cluster during a round.
struct RunningOperator<'a> {
    settings: &'a OperatorSettings,
    cluster: Process,
    operator: Process,
    /// The requests before the current part.
    requests_before: Option<Requests>,
    /// The reconciles before the current part.
    reconciles_before: Reconciles,
}

/// Measures an operator once.
pub(super) async fn run(
    settings: &OperatorSettings,
    contenders: &Contenders,
    contender: &Contender,
    logs: &Path,
) -> Result<OperatorRound> {
    let mut cluster = Process::spawn("cluster", contenders.cluster(settings), logs)?;
    let ClusterReady { kubeconfig } = cluster.receive().await?;
    let start = || {
        Process::spawn(contender.name, contenders.operator(contender, &kubeconfig, settings.objects)?, logs)
    };

    let begun = StageTimer::from_start();
    let operator = start()?;
    let mut run = RunningOperator {
        settings,
        cluster,
        operator,
        requests_before: None,
        reconciles_before: Reconciles::default(),
    };
    let cold = run.cold(&begun).await?;
    let first = run.check().await?;
    let (changes, latency) = run.changes().await?;
    let second = run.check().await?;
    let idle = run.idle().await?;
    run.operator.stop().await?;

    let begun = StageTimer::from_start();
    (run.operator, run.reconciles_before) = (start()?, Reconciles::default());
    let restart = run.restart(&begun).await?;
    let last = run.check().await?;
    run.operator.stop().await?;
    run.cluster.stop().await?;
    Ok(OperatorRound { cold, changes, latency, idle, restart, digests: [first, second, last] })
}

impl RunningOperator<'_> {
    async fn cold(&mut self, begun: &StageTimer) -> Result<Part> {
        self.cluster(Command::Ready).await?;
        let wall = begun.wall();
        self.wait_until_all_reconciled().await?;
        self.part(begun, wall).await
    }

    async fn changes(&mut self) -> Result<(Part, Latency)> {
        let OperatorSettings { changes, rate, .. } = *self.settings;
        let begun = StageTimer::of(&self.operator)?;
        let reply = self.cluster(Command::Change { websites: changes, per_second: rate }).await?;
        let wall = begun.wall();
        let latency = reply.latency.context("the cluster measured no change")?;
        Ok((self.part(&begun, wall).await?, latency))
    }

    async fn idle(&mut self) -> Result<Part> {
        let begun = StageTimer::of(&self.operator)?;
        sleep(self.settings.idle).await;
        let stage = begun.end(&self.operator, begun.wall())?;
        self.with_counts(stage).await
    }

    async fn restart(&mut self, begun: &StageTimer) -> Result<Part> {
        self.wait_until_all_reconciled().await?;
        let wall = begun.wall();
        self.part(begun, wall).await
    }

    async fn wait_until_all_reconciled(&mut self) -> Result<()> {
        match self.operator.receive().await? {
            OperatorMessage::AllReconciled => Ok(()),
            other => bail!("unexpected message of the operator: {other:?}"),
        }
    }

    /// Measures a part that took `wall` seconds.
    async fn part(&mut self, begun: &StageTimer, wall: f64) -> Result<Part> {
        self.operator.rest(self.settings.settle).await?;
        let stage = begun.end(&self.operator, wall)?;
        self.with_counts(stage).await
    }

    /// Adds the requests and reconciles since the last call.
    async fn with_counts(&mut self, stage: Stage) -> Result<Part> {
        self.operator.send(&"reconciles").await?;
        let now = match self.operator.receive().await? {
            OperatorMessage::Reconciles { total, failed } => Reconciles { total, failed },
            other => bail!("unexpected message of the operator: {other:?}"),
        };
        let requests = self.cluster(Command::Count).await?.requests;
        let part = Part {
            stage,
            requests: requests.map(|now| now.since(self.requests_before.unwrap_or_default())),
            runs: now.total - self.reconciles_before.total,
            failed: now.failed - self.reconciles_before.failed,
        };
        (self.requests_before, self.reconciles_before) = (requests, now);
        Ok(part)
    }

    async fn check(&mut self) -> Result<String> {
        let state = self
            .cluster(Command::Check)
            .await?
            .state
            .context("the reply of the cluster contains no state")?;
        ensure!(state.problems.is_empty(), "the work is incomplete: {}", state.problems.join("; "));
        Ok(state.digest)
    }

    async fn cluster(&mut self, command: Command) -> Result<Reply> {
        self.cluster.send(&command).await?;
        self.cluster.receive().await
    }
}

/// The interval of the checks whether a program is at rest.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

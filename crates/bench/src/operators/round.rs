//! One measurement of one program: first start, changes, idle part and restart. The program is measured
//! from outside.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube_client::Client;
use kube_informer_operators::programs::{Program, Running};
use kube_informer_operators::storage_server::StorageServer;
use kube_testserver::Server;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::observer::Observer;
use super::{Operator, OperatorSettings};
use crate::client::Latency;
use crate::http_server::{RequestCounter, RequestCounts, kubeconfig, serve};
use crate::process::{REST_INTERVAL, Statistics};
use crate::record::RealServer;

/// The time limit for each part.
const PART_LIMIT: Duration = Duration::from_secs(900);
/// The number of times that a program must be at rest after a part.
const RESTS: usize = 4;
/// The interval of the checks whether a restarted program has read all objects.
const START_INTERVAL: Duration = Duration::from_millis(20);

/// Contains the measurement of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorRound {
    /// The part from the first start until each object is reported.
    pub first: OperatorPart,
    /// The part from the first change until all changes are reported.
    pub changes: OperatorPart,
    /// The percentiles of the time from a change until it is reported.
    pub latency: Latency,
    /// The part in which no object changes. Its duration is the interval of polls.
    pub idle: OperatorPart,
    /// The part from the second start until the program is at rest.
    pub restart: OperatorPart,
}

/// Contains the resource use of a part. The time until the program is at rest is included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorPart {
    /// Wall time in seconds, without the time until the program is at rest.
    pub wall: f64,
    /// CPU time in seconds.
    pub cpu: f64,
    /// Resident memory at the end, in bytes.
    pub resident: u64,
    /// Peak resident memory, in bytes.
    pub peak: u64,
    /// The requests to the API server, if it counts them. kube-apiserver does not.
    pub requests: Option<RequestCounts>,
    /// The number of requests to the storage service.
    pub storage_requests: u64,
}

/// A server with objects, and the measured program.
struct Measurement<'a> {
    settings: &'a OperatorSettings,
    operator: Operator,
    program: &'a Program,
    client: &'a Client,
    kubeconfig: &'a Path,
    /// The folder of the log.
    folder: &'a Path,
    counter: Option<&'a RequestCounter>,
    observer: Observer,
    storage: StorageServer,
}

/// The state before a part.
struct PartStart {
    time: Instant,
    cpu: Duration,
    requests: Option<RequestCounts>,
    storage_requests: u64,
}

/// Measures a program once.
pub(super) async fn run(
    settings: &OperatorSettings,
    operator: Operator,
    program: &Program,
) -> Result<OperatorRound> {
    let folder = tempfile::tempdir()?;
    let measurement = async |client: Client, kubeconfig: &Path, counter| {
        operator.fill(&client, settings.objects).await?;
        let (observer, storage) = (Observer::new(settings.objects), StorageServer::start().await?);
        let (client, folder, resource) = (&client, folder.path(), operator.resource());
        let measurement = Measurement {
            settings,
            operator,
            program,
            client,
            kubeconfig,
            folder,
            counter,
            observer,
            storage,
        };
        tokio::select! {
            () = measurement.observer.watch(client.clone(), &resource) => bail!("the observation stopped"),
            round = measurement.run() => round,
        }
    };
    if settings.real {
        let server = RealServer::start().await?;
        let round = measurement(server.client().await?, server.kubeconfig(), None).await?;
        server.stop().await?;
        return Ok(round);
    }
    let (server, counter) = (Server::new(), RequestCounter::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let file = folder.path().join("kubeconfig");
    fs::write(&file, kubeconfig(&format!("http://{}", listener.local_addr()?)).to_string())?;
    // The counter counts only requests through the socket, so the client of this process does not use it.
    let client = Client::new(server.service(), "default");
    tokio::select! {
        served = serve(listener, server.service(), counter.clone()) => bail!("the server stopped: {served:?}"),
        round = measurement(client, &file, Some(&counter)) => round,
    }
}

impl Measurement<'_> {
    async fn run(&self) -> Result<OperatorRound> {
        let before = self.begin(Duration::ZERO);
        let mut running = self.start()?;
        let process = self.statistics(&running)?;
        self.limited(&mut running, "each object is reported", self.observer.all_reported()).await?;
        let first = self.end(&before, before.time.elapsed(), &process, true).await?;
        let changes = self.changes(&mut running, &process).await?;
        let latency = self.observer.latency().context("no change was reported")?;
        process.reset_peak()?;
        let before = self.begin(process.cpu()?);
        sleep(self.settings.poll).await;
        let idle = self.end(&before, before.time.elapsed(), &process, false).await?;
        running.stop().await?;

        let before = self.begin(Duration::ZERO);
        let mut running = self.start()?;
        let process = self.statistics(&running)?;
        self.limited(&mut running, "the program reads all objects", self.is_started(&before)).await?;
        let restart = self.end(&before, before.time.elapsed(), &process, true).await?;
        running.stop().await?;
        Ok(OperatorRound { first, changes, latency, idle, restart })
    }

    fn start(&self) -> Result<Running> {
        let (url, poll) = (self.storage.url(), self.settings.poll.as_secs().to_string());
        let arguments: &[&str] = match self.operator {
            Operator::Website => &[],
            Operator::Bucket => &["--storage-url", &url, "--poll-seconds", &poll],
        };
        self.program.start(self.kubeconfig, self.folder, arguments)
    }

    fn statistics(&self, running: &Running) -> Result<Statistics> {
        Statistics::new(self.operator.name(), running.id().context("the program has stopped")?)
    }

    async fn changes(&self, running: &mut Running, process: &Statistics) -> Result<OperatorPart> {
        process.reset_peak()?;
        let before = self.begin(process.cpu()?);
        let mut ticks = interval(Duration::from_secs_f64(1.0 / self.settings.rate as f64));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for index in 0..self.settings.changes {
            ticks.tick().await;
            let number = index * self.settings.objects / self.settings.changes;
            self.observer.start_change(number);
            self.operator.change(self.client, number).await?;
        }
        self.limited(running, "all changes are reported", self.observer.all_reported()).await?;
        self.end(&before, before.time.elapsed(), process, true).await
    }

    /// Waits until a restarted program watches all types, and has read each bucket.
    async fn is_started(&self, before: &PartStart) {
        let is_started = || {
            let requests = self.requests_since(before);
            let reads = self.storage.requests().total() - before.storage_requests;
            requests.is_none_or(|requests| requests.of("watch") >= self.operator.watched_types())
                && (self.operator != Operator::Bucket || reads >= self.settings.objects as u64)
        };
        while !is_started() {
            sleep(START_INTERVAL).await;
        }
    }

    /// Waits for a part of the work of a program, which must not exit.
    async fn limited(&self, running: &mut Running, what: &str, wait: impl Future<Output = ()>) -> Result<()> {
        let failure = tokio::select! {
            biased;
            () = wait => return Ok(()),
            status = running.exited() => format!("the program exited with {}", status?),
            () = sleep(PART_LIMIT) => format!("timed out after {PART_LIMIT:?}"),
        };
        let log = fs::read_to_string(self.folder.join("operator.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        bail!("{failure} while waiting until {what}; last lines: {last:#?}")
    }

    fn requests_since(&self, before: &PartStart) -> Option<RequestCounts> {
        Some(self.counter?.total().since(before.requests.as_ref()?))
    }

    fn begin(&self, cpu: Duration) -> PartStart {
        PartStart {
            time: Instant::now(),
            cpu,
            requests: self.counter.map(RequestCounter::total),
            storage_requests: self.storage.requests().total(),
        }
    }

    /// Completes a part that took `wall`, after the program is at rest if `waits` is true.
    async fn end(
        &self,
        before: &PartStart,
        wall: Duration,
        process: &Statistics,
        waits: bool,
    ) -> Result<OperatorPart> {
        if waits {
            // A program can wait for a first response without any work.
            for _ in 0..RESTS {
                process.rest(REST_INTERVAL).await?;
            }
        }
        let memory = process.memory()?;
        Ok(OperatorPart {
            wall: wall.as_secs_f64(),
            cpu: (process.cpu()? - before.cpu).as_secs_f64(),
            resident: memory.resident,
            peak: memory.peak,
            requests: self.requests_since(before),
            storage_requests: self.storage.requests().total() - before.storage_requests,
        })
    }
}

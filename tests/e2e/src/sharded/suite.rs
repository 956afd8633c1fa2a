//! The server, the replicas and their faults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kube_client::Client;
use kube_object::SlotCount;
use tempfile::TempDir;
use tokio::process::{ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

use super::history::{History, audit_log};
use super::judge::{Report, idle, judge};
use super::objects::{self, Changes, Values, Wanted};
use super::operator::OperatorOptions;
use super::tables::TableWatch;
use crate::audit::AuditLog;
use crate::proxy::Proxy;
use crate::real::{RealServer, Source};
use crate::replica::{ReplicaProcess, impersonating_kubeconfig};

/// The deadline of each step. Only a test that hangs reaches this deadline.
const DEADLINE: Duration = Duration::from_secs(180);
/// The interval between two reads of the audit log.
const LOOK: Duration = Duration::from_millis(50);
/// If fewer objects than this have no final state in the log, the server decides.
const FEW_OBJECTS: usize = 50;
/// The number of requests that a paused replica may have started to send. More would be reconciles that
/// continued.
const MAX_LATE_WRITES: usize = 2;
/// The number of lines of each log in an error.
const LOG_LINES: usize = 30;

/// The settings of the test.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `sharded`.
    pub program: PathBuf,
    /// The number of objects.
    pub objects: usize,
    /// The number of namespaces of the objects.
    pub namespaces: usize,
    /// The options of the replicas.
    pub operator: OperatorOptions,
    /// Enables the feature gate `ShardedListAndWatch` of the server.
    pub gate: bool,
}

/// One replica, which connects to the server through its own proxy.
struct Replica {
    process: ReplicaProcess,
    proxy: Proxy,
    /// The replica exits when this is closed.
    _stdin: ChildStdin,
}

struct Suite<'a> {
    settings: &'a Settings,
    server: RealServer,
    dir: TempDir,
    log: AuditLog,
    history: History,
    tables: TableWatch,
    replicas: Vec<Replica>,
    started: Vec<String>,
    say: &'a dyn Fn(&str),
}

/// Runs replicas on a server, causes faults, and checks all writes. Passes each printed line to `say`.
///
/// # Errors
///
/// Fails if a replica broke a guarantee, if an object does not have its final state, or if slots
/// finally have no owner.
///
/// # Cancel safety
///
/// If the future is dropped, all processes are killed.
pub async fn run(settings: &Settings, source: Source, say: &dyn Fn(&str)) -> Result<()> {
    let log = audit_log()?;
    let mut options = log.options();
    options.apiserver_flags.push(format!("--feature-gates=ShardedListAndWatch={}", settings.gate));
    let server = RealServer::start_from(source, options).await?;
    let tables = TableWatch::start(server.client().await?);
    let mut suite = Suite {
        settings,
        server,
        dir: tempfile::tempdir()?,
        log,
        history: History::default(),
        tables,
        replicas: Vec::new(),
        started: Vec::new(),
        say,
    };
    if let Err(error) = suite.run().await {
        let logs: Vec<String> = suite.replicas.iter().map(Replica::last_lines).collect();
        // The folder also contains the logs of replicas that have exited.
        let folder = suite.dir.keep();
        bail!("{error:#}\n{}\nall logs: {}", logs.join("\n"), folder.display());
    }
    suite.server.stop().await
}

impl Suite<'_> {
    async fn run(&mut self) -> Result<()> {
        let client = self.server.client().await?;
        let since = Instant::now();
        let wanted = objects::create(&client, self.settings.objects, self.settings.namespaces).await?;
        self.say(
            since,
            &format!("created {} objects in {} namespaces", wanted.len(), self.settings.namespaces),
        );
        for _ in 0..3 {
            self.start().await?;
        }
        let changes = Changes::start(client.clone(), wanted);
        self.wait_until_shared("three replicas started", 0).await?;
        self.replica_is_killed().await?;
        self.one_joins().await?;
        self.replica_is_paused().await?;
        self.replica_is_stopped().await?;
        self.one_joins().await?;
        self.replica_is_partitioned().await?;
        let wanted = changes.end().await.context("the changes of objects failed")?;
        self.wait_until_done(&client, &wanted).await?;
        while !self.replicas.is_empty() {
            self.stop(0).await?;
        }
        let released = async {
            while !self.history.is_released() {
                sleep(LOOK).await;
                self.observe().await?;
            }
            anyhow::Ok(())
        };
        timeout(DEADLINE, released).await.context("the replicas stopped and did not release all slots")??;
        let report = judge(&self.history)?;
        check_objects(&objects::read(&client).await?, &wanted, &self.history)?;
        self.check_report(&report)
    }

    /// Reads the new events of the log and of the watch.
    async fn observe(&mut self) -> Result<()> {
        self.history.read(&mut self.log)?;
        self.history.tables.extend(self.tables.take().await?);
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        let name = format!("replica-{}", self.started.len() + 1);
        let proxy = Proxy::start(self.server.address().context("a server without an address")?)?;
        let config = self.dir.path().join(&name);
        let text = impersonating_kubeconfig(self.server.kubeconfig(), &name, Some(proxy.address()))?;
        std::fs::write(&config, text)?;
        let mut command = Command::new(&self.settings.program);
        command.arg("operator").args(self.settings.operator.arguments()).env("KUBECONFIG", config);
        command.env("RUST_LOG", "info,kube_client=off").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = ReplicaProcess::spawn(name.clone(), command, self.dir.path())?;
        let stdin = process.take_stdin().context("a process without stdin")?;
        self.started.push(name);
        self.replicas.push(Replica { process, proxy, _stdin: stdin });
        Ok(())
    }

    async fn replica_is_killed(&mut self) -> Result<()> {
        let mut replica = self.replicas.remove(0);
        replica.process.signal("KILL").await?;
        replica.process.wait().await?;
        self.wait_until_shared("SIGKILL", 0).await
    }

    async fn one_joins(&mut self) -> Result<()> {
        self.start().await?;
        self.wait_until_shared("another replica joined", 0).await
    }

    /// Pauses a replica until its Lease is over and other replicas own its slots.
    async fn replica_is_paused(&mut self) -> Result<()> {
        self.replicas[0].process.signal("STOP").await?;
        self.wait_until_shared("SIGSTOP", 1).await?;
        self.history.on_continue(&self.replicas[0].process.name);
        self.replicas[0].process.signal("CONT").await?;
        self.wait_until_shared("SIGCONT", 0).await
    }

    async fn replica_is_stopped(&mut self) -> Result<()> {
        self.stop(0).await?;
        self.wait_until_shared("SIGTERM", 0).await
    }

    /// Stalls all connections of a replica until other replicas own its slots.
    async fn replica_is_partitioned(&mut self) -> Result<()> {
        self.replicas[0].proxy.black_hole();
        self.wait_until_shared("a partition", 1).await?;
        self.replicas[0].proxy.pass();
        self.replicas[0].proxy.cut();
        self.wait_until_shared("the end of the partition", 0).await
    }

    async fn stop(&mut self, number: usize) -> Result<()> {
        let mut replica = self.replicas.remove(number);
        replica.process.signal("TERM").await?;
        let exited = timeout(DEADLINE, replica.process.wait()).await;
        let status = exited.with_context(|| format!("{} does not stop", replica.process.name))??;
        ensure!(status.success(), "{} exited with {status}: {}", replica.process.name, replica.process.log());
        Ok(())
    }

    /// Waits until the replicas, without the first `without` replicas, own all slots in equal shares, and
    /// each of them has written an object afterwards.
    async fn wait_until_shared(&mut self, after: &str, without: usize) -> Result<()> {
        let since = Instant::now();
        let names: Vec<String> =
            self.replicas[without..].iter().map(|replica| replica.process.name.clone()).collect();
        let share = usize::from(SlotCount::default().get()).div_ceil(names.len());
        let mut shared = None;
        loop {
            self.observe().await?;
            self.replicas.iter_mut().try_for_each(|replica| replica.process.check_alive())?;
            let shares = self.history.shares();
            let is_shared = shares.as_ref().is_some_and(|(_, shares)| {
                shares.len() == names.len()
                    && names.iter().all(|name| shares.get(&**name).is_some_and(|count| *count <= share))
            });
            let version = shares.map_or(0, |(version, _)| version);
            shared = shared.filter(|_| is_shared).or_else(|| is_shared.then(|| (version, since.elapsed())));
            if let Some((version, took)) = shared {
                let writers = self.history.writers_after(version);
                if names.iter().all(|name| writers.contains(&**name)) {
                    self.say(since, &format!("{after}: shared after {:.1} s", took.as_secs_f64()));
                    return Ok(());
                }
            }
            ensure!(
                since.elapsed() < DEADLINE,
                "{after}: {names:?} do not share all slots: {:?}",
                self.history.shares()
            );
            sleep(LOOK).await;
        }
    }

    /// Waits until each object has its final state.
    async fn wait_until_done(&mut self, client: &Client, wanted: &Wanted) -> Result<()> {
        let since = Instant::now();
        loop {
            self.observe().await?;
            let done = self.history.done();
            let missing = wanted.iter().filter(|(key, value)| done.get(key.as_str()) != Some(value));
            let missing: Vec<&String> = missing.map(|(key, _)| key).collect();
            // The log does not contain the result of a write if the client was killed.
            let objects = match missing.len() {
                0..=FEW_OBJECTS => objects::read(client).await?,
                _ => BTreeMap::new(),
            };
            let is_done = |key: &&String| objects.get(*key).is_some_and(|values| values.done == wanted[*key]);
            if missing.iter().all(is_done) {
                self.say(since, "all objects have their final state");
                return Ok(());
            }
            ensure!(
                since.elapsed() < DEADLINE,
                "{} objects do not have their final state, for example {}: {:?}",
                missing.len(),
                missing[0],
                objects.get(missing[0])
            );
            sleep(LOOK).await;
        }
    }

    fn check_report(&self, report: &Report) -> Result<()> {
        let Report { writes, late, repeated, moves, handovers, longest_unowned } = report;
        let line = format!(
            "writes: {writes:?}, {late} of them after a pause, {repeated} repeated; {moves} moves of slots, {handovers} changes of \
             the writer of a slot; longest time without an owner: {:.1} s",
            longest_unowned.as_secs_f64()
        );
        (self.say)(&line);
        ensure!(*late <= MAX_LATE_WRITES, "{late} writes of a replica that was paused");
        let idle = idle(report, &self.started);
        ensure!(idle.is_empty() && *moves > 64 && *handovers > 64, "too few moves; idle replicas: {idle:?}");
        Ok(())
    }

    fn say(&self, since: Instant, text: &str) {
        (self.say)(&format!("{text}, {:.1} s", since.elapsed().as_secs_f64()));
    }
}

impl Replica {
    fn last_lines(&self) -> String {
        let log = self.process.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("--- {}:\n{last}", self.process.name)
    }
}

/// Compares the objects on the server with the desired values, and with the number of writes in the log.
fn check_objects(objects: &BTreeMap<String, Values>, wanted: &Wanted, history: &History) -> Result<()> {
    ensure!(objects.len() == wanted.len(), "{} objects instead of {}", objects.len(), wanted.len());
    let mut writes: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for write in history.writes.iter().chain(&history.uncertain) {
        writes.entry(&write.key).or_default().push(write.writes);
    }
    for (key, wanted) in wanted {
        let values = objects.get(key).with_context(|| format!("{key} does not exist"))?;
        let counts = writes.get(key.as_str()).map(Vec::as_slice).unwrap_or_default();
        let is_counted = counts.contains(&values.writes) && values.writes <= u64::try_from(counts.len())?;
        ensure!(
            values.wanted == *wanted && values.done == *wanted && is_counted,
            "{key} has {values:?}, after the writes {counts:?}; desired value: {wanted}"
        );
    }
    Ok(())
}
